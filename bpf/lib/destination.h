/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What a CPU remembers of a destination: which service protects it, and the beginning of the hash of its cookies, the state after the
 * words of the message that are the same for all clients (tg_cookie_begin). To find out the service takes a look-up in a hash for
 * each length of prefix in use, and the state a look-up of the key and two or four rounds: together as long as a SYN's cookie.
 *
 * Must never: say what tables or keys said before they were changed. An entry has the number of their filling (maps.h) that was
 * read before they were. Nor be read or written where XDP may come in between: XDP and TC run with softirqs off, so that nobody else
 * has a CPU's own entries at that moment; a program that may run elsewhere defines TG_REMEMBERS_NOTHING.
 */
#ifndef TG_BPF_DESTINATION_H
#define TG_BPF_DESTINATION_H

#include "maps.h"
#include "../../core/cookie.h"

#define TG_DESTINATION_BITS 10 /* places, as a power of two */
#define TG_EPOCH_NONE (~0ULL)

/* The beginning of the hash in one epoch. */
struct tg_begun {
	__u64 epoch; /* TG_EPOCH_NONE: nothing is kept */
	struct tg_siphash after;
};

struct tg_destination {
	__u64 addr[2]; /* as in memory; the second word is 0 over IPv4 */
	__u64 tag;
	__u32 id; /* of the service; 0: none */
	__u32 family;
	struct tg_begun begun[2]; /* of even and odd epochs */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << TG_DESTINATION_BITS);
	__type(key, __u32);
	__type(value, struct tg_destination);
} tg_destinations SEC(".maps");

static __always_inline __u32 tg_port_family(__u16 port_be, __u8 family)
{
	return port_be | (__u32)family << 16;
}

/* What an entry says beside the address: port and family, and the filling that it is of, in one number. Two are as good as never the
 * same, since a filling's number is random; and nobody knows it who would choose what is. */
static __always_inline __u64 tg_destination_tag(__u32 port_family)
{
	return *(const volatile __u64 *)&tg_filling.filling ^ port_family;
}

/* The place of a destination. Who sends to addresses that share one gains no more than who sends to more of them than there are places. */
static __always_inline struct tg_destination *tg_destination_at(__u64 first, __u64 second, __u64 tag)
{
	__u32 place = (first ^ second ^ tag) * TG_MIX1 >> (64 - TG_DESTINATION_BITS);

#ifdef TG_REMEMBERS_NOTHING
	return 0;
#endif
	return bpf_map_lookup_elem(&tg_destinations, &place);
}

/* `v4` tells the compiler that the second word need not be compared: the tag has the family. */
static __always_inline bool tg_destination_is(const struct tg_destination *d, __u64 first,
					      __u64 second, bool v4, __u64 tag)
{
	return d->addr[0] == first && d->tag == tag && (v4 || d->addr[1] == second);
}

/* Cuts the address of a key to a prefix of `len` bits, in place. */
static __always_inline void tg_prefix_mask(struct tg_prefix_key *key, __u32 len)
{
	if (key->family == 4) {
		key->addr.w[0] &= tg_swap32((__u32)(0xffffffff00000000ULL >> (len & 63)));
	} else if (len < 64) {
		key->addr.d[0] &= __builtin_bswap64(~(~0ULL >> len));
		key->addr.d[1] = 0;
	} else if (len < 128) {
		key->addr.d[1] &= __builtin_bswap64(~(~0ULL >> (len & 63)));
	}
	key->prefix_len = (__u8)len;
}

/* The id of the service at a destination, which is remembered; 0 if there is none; and, above it, the lower half of the tag that it is
 * remembered by. The address as two halves, as in memory, the second 0 over IPv4. A function of its own: the verifier looks at the loop
 * once. */
TG_GLOBAL __u64 tg_destination_look(__u64 first, __u64 second, __u32 port_family)
{
	__u64 tag = tg_destination_tag(port_family);
	struct tg_destination *d = tg_destination_at(first, second, tag);
	struct tg_prefix_key key = {.addr.d = {first, second},
				    .port_be = (__u16)port_family,
				    .family = (__u8)(port_family >> 16)};
	const struct tg_host_settings *settings = &tg_settings;
	__u32 entry = tg_port_at(tg_swap16(key.port_be)), id, i;

	if (d && tg_destination_is(d, first, second, false, tag))
		return tag << 32 | d->id;
	id = TG_PORT_SERVICE(entry);
	/* The longest first: what one length leaves of the address contains what the next leaves. */
	for (i = 0; entry & TG_PORT_HAS_PREFIXES && i < TG_PREFIX_LENS_MAX; i++) {
		__u8 len = key.family == 4 ? settings->prefix_lens_v4[i]
					   : settings->prefix_lens_v6[i];
		const __u32 *found;

		if (len > 128)
			break;
		tg_prefix_mask(&key, len);
		found = bpf_map_lookup_elem(&tg_prefixes, &key);
		if (found) {
			id = *found;
			break;
		}
	}
	if (d) {
		d->addr[0] = first;
		d->addr[1] = second;
		d->tag = tag;
		d->id = id;
		d->family = key.family;
		d->begun[0].epoch = d->begun[1].epoch = TG_EPOCH_NONE;
	}
	return tag << 32 | id;
}

/* What this CPU remembers of a destination, which it looks up if need be. NULL if tables have changed in the meantime: then the tag
 * has, and with it the place. */
static __always_inline struct tg_destination *tg_destination_find(__u64 first, __u64 second,
								  __u16 port_be, __u8 family)
{
	__u32 port_family = tg_port_family(port_be, family);
	__u64 tag = tg_destination_tag(port_family);
	struct tg_destination *d = tg_destination_at(first, second, tag);

	if (d && TG_UNLIKELY(!tg_destination_is(d, first, second, family == 4, tag)) &&
	    tg_destination_look(first, second, port_family) >> 32 != (__u32)d->tag)
		return 0;
	return d;
}

/* The same of a packet's. Shortest where its family is a constant. */
static __always_inline struct tg_destination *tg_destination_of(const struct tg_packet *pkt)
{
	return tg_destination_find(pkt->dst.d[0], pkt->family == 4 ? 0 : pkt->dst.d[1],
				   TG_DST_PORT_BE(pkt), pkt->family);
}

#endif
