/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Makes and verifies cookies with the beginning of the hash kept: the state after the words of the
 * message that are the same for all clients of a server (tg_cookie_begin). It depends on the
 * server's address and the key only, and half of a flood's work is to compute it again.
 *
 * Must never: take the state of one address or key for that of another. An entry holds all that its
 * state was computed from, and a packet that does not match every bit of it computes its own.
 */
#ifndef TG_BPF_COOKIE_STATE_H
#define TG_BPF_COOKIE_STATE_H

#include "gate.h"

#define TG_STATE_BITS 7 /* entries of each family, as a power of two */

/* One cache line. XDP and TC run with softirqs off: nobody else reads or writes a CPU's own. */
struct tg_hash_state {
	__u64 word[2]; /* of the message; over IPv4 the first alone */
	struct tg_siphash_key key;
	struct tg_siphash after;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 << TG_STATE_BITS);
	__type(key, __u32);
	__type(value, struct tg_hash_state);
} tg_hash_states SEC(".maps");

/* The same as tg_cookie_begin. The place depends on the key, so nobody who does not know it chooses
 * addresses that share one; if two do, each of their packets costs the whole hash. */
static __always_inline struct tg_siphash tg_cookie_begin_kept(const struct tg_packet *pkt,
							      __u64 epoch,
							      const struct tg_siphash_key *key)
{
	bool v4 = pkt->family == 4;
	__u64 k0 = key->k0, first = v4 ? tg_cookie_first(pkt->dst.w[0], epoch) : pkt->dst.d[0];
	__u64 second = v4 ? 0 : pkt->dst.d[1];
	__u32 place = (first ^ second ^ k0) * TG_MIX1 >> (64 - TG_STATE_BITS);
	struct tg_hash_state *kept;
	struct tg_siphash s;

	if (!v4)
		place |= 1U << TG_STATE_BITS;
	kept = bpf_map_lookup_elem(&tg_hash_states, &place);
	if (TG_UNLIKELY(!kept))
		return tg_cookie_begin(pkt->family, &pkt->dst, epoch, key);
	if (TG_LIKELY(kept->word[0] == first && (v4 || kept->word[1] == second) &&
		      kept->key.k0 == k0 && kept->key.k1 == key->k1))
		return kept->after;
	s = tg_cookie_begin(pkt->family, &pkt->dst, epoch, key);
	kept->word[0] = first;
	kept->word[1] = second;
	kept->key = *key;
	kept->after = s;
	return s;
}

/* The same as tg_cookie_make. */
static __always_inline struct tg_cookie tg_cookie_make_kept(const struct tg_packet *syn,
							    __u32 option_bits, bool ts_ok,
							    __u64 epoch,
							    const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_cookie_begin_kept(syn, epoch, key);

	return tg_cookie_make_end(&s, syn, option_bits, ts_ok, epoch);
}

/* The same as tg_cookie_verify. */
static __always_inline bool tg_cookie_verify_kept(const struct tg_packet *ack,
						  struct tg_cookie cookie, bool ts_ok, __u64 epoch,
						  const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_cookie_begin_kept(ack, epoch, key);

	return tg_cookie_verify_end(&s, ack, cookie, ts_ok, epoch);
}

#endif
