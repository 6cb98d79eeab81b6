/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the host gate's programs do with their maps: count, find a service, find the epoch's key,
 * hash a tuple for the socket filter, look up a socket.
 */
#ifndef TG_BPF_GATE_H
#define TG_BPF_GATE_H

#include "clock.h"
#include "service_near.h"

/* True if `*len` bytes of options can be copied: 1 to 40. */
static __always_inline bool tg_options_len_is_sane(__u32 *len)
{
	*len = tg_len_within(*len, TG_TCP_OPTIONS_MAX_LEN, 63);
	return *len != 0;
}

/* The frame's length, asked for only where it counts. */
static __always_inline void tg_frame_measure(struct xdp_md *ctx, struct tg_packet *pkt)
{
	if (tg_packet_is_unmeasured(pkt))
		tg_packet_measure(pkt, (__u32)bpf_xdp_get_buff_len(ctx));
}

/* Zero by words of four bytes: eight are a spilled register to the verifier, and
 * when writes at unknown places have gone over part of one, that of Linux 6.12
 * allows no more reads there (6.18 does). */
static __always_inline void tg_options_clear(struct tg_options_cursor *c)
{
	volatile __u32 *word = (volatile __u32 *)c->bytes;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < TG_OPTIONS_ROOM / 4; i++)
		word[i] = 0;
	c->at = 0;
}

static __always_inline const struct tg_host_settings *tg_settings_get(void)
{
	return &tg_settings;
}

/* The entry of a service; an empty one for a number that no service has. */
static __always_inline struct tg_service *tg_service_at(__u32 id)
{
	return &tg_services[id & (TG_SERVICE_SLOTS - 1)];
}

/* This CPU's counters of a service; NULL for a number that no service has. */
static __always_inline struct tg_counter_row *tg_counter_row_get(__u32 service_id)
{
	return bpf_map_lookup_elem(&tg_counters, &service_id);
}

static __always_inline void tg_count(struct tg_counter_row *row, enum tg_counter counter)
{
	if ((__u32)counter < TG_COUNTERS)
		row->count[counter]++; /* XDP and TC run with softirqs off */
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

/* The id of the service that has a prefix with this address; `otherwise` if none has. The address as two halves, as in
 * memory, the second 0 over IPv4: the caller need not keep it there. A function of its own: the verifier looks at the loop once. */
TG_GLOBAL int tg_service_by_prefix(__u64 first, __u64 second, __u16 port_be, __u8 family,
				   __u32 otherwise)
{
	struct tg_prefix_key key = {.addr.d = {first, second}, .port_be = port_be, .family = family};
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 port_family = tg_port_family(port_be, family);
	struct tg_service_near *near;
	__u64 filling;
	int i;

	filling = *(const volatile __u64 *)&settings->services_filling;
	near = tg_service_near_at(first, second, port_family, filling);
	if (near && tg_service_near_is(near, first, second, port_family, filling))
		return (int)near->id;
	/* The longest first: what one length leaves of the address contains what the next leaves. */
	for (i = 0; i < TG_PREFIX_LENS_MAX; i++) {
		__u8 len = key.family == 4 ? settings->prefix_lens_v4[i]
					   : settings->prefix_lens_v6[i];
		__u32 *id;

		if (len > 128)
			break;
		tg_prefix_mask(&key, len);
		id = bpf_map_lookup_elem(&tg_prefixes, &key);
		if (id) {
			__u32 found = *id;

			if (near)
				tg_service_bring_near(near, first, second, port_family, filling,
						      found);
			return (int)found;
		}
	}
	/* Not kept: the port's entry was read before the filling's number. */
	return (int)otherwise;
}

/* The entry of a port, as on the wire; 0 if the gate does not know it. */
static __always_inline __u32 tg_port_entry(__u16 port_be)
{
	return tg_port_at(tg_swap16(port_be));
}

/* The id of the service that protects this destination, whose port has that entry; 0 if none does. */
static __always_inline __u32 tg_service_of_entry(const struct tg_packet *pkt, __u32 entry)
{
	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	return (__u32)tg_service_by_prefix(pkt->dst.d[0], pkt->dst.d[1], TG_DST_PORT_BE(pkt),
					   pkt->family, TG_PORT_SERVICE(entry));
}

/* The same, where the entry is not at hand. */
static __always_inline __u32 tg_service_find(const struct tg_packet *pkt)
{
	__u32 entry = tg_port_entry(TG_DST_PORT_BE(pkt));

	return entry ? tg_service_of_entry(pkt, entry) : 0;
}

/* The same for fast paths, where the port's entry says that there are prefixes: what is near is found without a call. */
static __always_inline __u32 tg_service_by_prefix_fast(const struct tg_host_settings *settings,
						       __u8 family, __u64 first, __u64 second,
						       __u16 port_be, __u32 entry)
{
	__u32 port_family = tg_port_family(port_be, family);
	__u64 filling = *(const volatile __u64 *)&settings->services_filling;
	const struct tg_service_near *near = tg_service_near_at(first, second, port_family, filling);

	if (TG_LIKELY(near && tg_service_near_is(near, first, second, port_family, filling)))
		return near->id;
	return (__u32)tg_service_by_prefix(first, second, port_be, family, TG_PORT_SERVICE(entry));
}

/* Of a packet. Shortest where `family` is a constant. */
static __always_inline __u32 tg_service_find_fast(const struct tg_host_settings *settings,
						  const struct tg_packet *pkt, __u8 family)
{
	__u32 entry = tg_port_entry(TG_DST_PORT_BE(pkt));

	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	return tg_service_by_prefix_fast(settings, family, pkt->dst.d[0],
					 family == 4 ? 0 : pkt->dst.d[1], TG_DST_PORT_BE(pkt), entry);
}

/* The epoch by a division, which is remembered for tg_epoch_of. */
TG_GLOBAL __u64 tg_epoch_divide(__u64 unix_ns)
{
	struct tg_host_settings *settings = &tg_settings;
	__u64 epoch;

	epoch = tg_epoch_at(unix_ns, settings->epoch_len_ns);
	settings->epoch_near = epoch;
	return epoch;
}

static __always_inline __u64 tg_epoch_of(const struct tg_host_settings *settings, __u64 unix_ns)
{
	uint64_t epoch;

	return TG_LIKELY(tg_epoch_near(unix_ns, settings->epoch_len_ns,
				       *(const volatile __u64 *)&settings->epoch_near, &epoch))
		       ? epoch
		       : tg_epoch_divide(unix_ns);
}

static __always_inline __u64 tg_epoch_now(const struct tg_host_settings *settings)
{
	return tg_epoch_of(settings, tg_clock_ns(settings) + settings->wall_minus_mono_ns);
}

/* The epoch that ACKs are held to, at a moment of CLOCK_MONOTONIC. */
static __always_inline __u64 tg_epoch_verifying_at(const struct tg_host_settings *settings,
						   __u64 mono_ns)
{
	return tg_epoch_of(settings,
			   mono_ns + settings->wall_minus_mono_ns + settings->verify_ahead_ns);
}

static __always_inline __u64 tg_epoch_verifying_now(const struct tg_host_settings *settings)
{
	return tg_epoch_verifying_at(settings, tg_clock_ns(settings));
}

/* The key of exactly this epoch; NULL if it is not loaded. */
static __always_inline const struct tg_siphash_key *tg_key_find(const struct tg_host_settings *settings,
								__u64 epoch)
{
	__u32 slot = (__u32)epoch & settings->key_slot_mask;
	struct tg_epoch_key *k = bpf_map_lookup_elem(&tg_keys, &slot);

	return k && k->epoch == epoch ? &k->key : 0;
}

static __always_inline __u16 tg_filter_tick_now(void)
{
	return tg_filter_tick(TG_CLOCK_NS());
}

/* The option parser as a global function: the verifier goes through it once, not
 * once for each way in which a header may lie before it. */
TG_GLOBAL int tg_options_read(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	if (!c || !o)
		return -TG_EINVAL;
	tg_tcp_options_parse_into(c, o);
	return 0;
}

/* An IPv4 peer of a dual-stack socket shows up as ::ffff:a.b.c.d. */
static __always_inline void tg_packet_unmap(struct tg_packet *pkt)
{
	if (pkt->family != 6 || pkt->src.d[0] != 0 || pkt->src.w[2] != TG_WIRE32(0, 0, 0xff, 0xff))
		return;
	pkt->family = 4;
	pkt->src.w[0] = pkt->src.w[3];
	pkt->dst.w[0] = pkt->dst.w[3];
}

static __always_inline struct tg_filter_index tg_filter_at(const struct tg_host_settings *settings,
							   const struct tg_packet *pkt)
{
	return tg_filter_index(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, pkt->ports);
}

static __always_inline __u64 tg_filter_hash_of(const struct tg_host_settings *settings,
					       const struct tg_packet *pkt)
{
	return tg_filter_hash(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, pkt->ports);
}

/* The socket for this segment in the device's namespace: established, TIME-WAIT,
 * request or listener. The caller releases it. */
static __always_inline struct bpf_sock *tg_socket_find(void *ctx, const struct tg_packet *pkt)
{
	struct bpf_sock_tuple tuple = {};

	if (pkt->family == 4) {
		tuple.ipv4.saddr = pkt->src.w[0];
		tuple.ipv4.daddr = pkt->dst.w[0];
		tuple.ipv4.sport = TG_SRC_PORT_BE(pkt);
		tuple.ipv4.dport = TG_DST_PORT_BE(pkt);
		return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(tuple.ipv6.saddr, pkt->src.w, 16);
	__builtin_memcpy(tuple.ipv6.daddr, pkt->dst.w, 16);
	tuple.ipv6.sport = TG_SRC_PORT_BE(pkt);
	tuple.ipv6.dport = TG_DST_PORT_BE(pkt);
	return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

#endif
