/* SPDX-License-Identifier: Apache-2.0
 *
 * The answers to SYNs that are answered several at once: their numbers from the SYNs', their words over IPv4 from templates
 * and numbers, and how they are written into the frames.
 *
 * The formulas are core's, as macros that take a frame in each lane, or say which macros they are.
 */
#ifndef TG_DPDK_WIDE_ANSWER_H
#define TG_DPDK_WIDE_ANSWER_H

#include "wide_checksum.h"
#include "wide_servers.h"

#if TG_HAS_WIDE
/* tg_cookie_of_mac: ISN and TSval, as on the wire, the first in the low half. `said`: the end of the cookie's message, which
 * has the option bits. TG_COOKIE_TS_ISN and TG_COOKIE_TS_VAL of both at once. */
TG_INLINE tg_wide tg_wide_cookies(tg_wide mac, tg_wide said, uint64_t epoch)
{
	const tg_wide options = TG_WIDE_ALL(~0ULL << (32 + TG_COOKIE_TS_VAL_MAC_BITS));
	/* The MAC's first 31 bits are the ISN's, the next ones TSval's. */
	tg_wide both = tg_wide_blend(mac, tg_wide_shl(mac, 32 - TG_COOKIE_TS_ISN_MAC_BITS));

	_Static_assert(TG_COOKIE_OPTIONS_SHIFT == 32, "option bits stand above the number");
	both = tg_wide_select(options, tg_wide_shl(said, TG_COOKIE_TS_VAL_MAC_BITS), both);
	both = tg_wide_select(TG_WIDE_ALL(1ULL << 31),
			      TG_WIDE_ALL((uint64_t)TG_COOKIE_PARITY(epoch)), both);
	return tg_wide_swap32(both);
}

/* tg_challenge_isn without a TTL, as on the wire. `client`: its ports, low; what is above is cut off. */
TG_INLINE tg_wide tg_wide_challenges(tg_wide src, tg_wide client, tg_wide number,
				     const struct tg_siphash_key *key)
{
	struct tg_siphash_lanes s = tg_siphash_lanes_begin(TG_WIDE_ALL(key->k0),
							   TG_WIDE_ALL(key->k1));
	tg_wide_words ports = (tg_wide_words)client, client_isn = (tg_wide_words)number;
	int i;

	tg_siphash_lanes_word(&s, (tg_wide)TG_CHALLENGE_V4_WORD((tg_wide_words)src, ports), 1);
	tg_siphash_lanes_word(&s, (tg_wide)TG_CHALLENGE_V4_TAIL(client_isn, 0), 1);
	s.v2 ^= 0xff;
	for (i = 0; i < 3; i++)
		tg_siphash_lanes_round(&s);
	return tg_wide_swap32(tg_wide_and(tg_siphash_lanes_out(&s), TG_WIDE_LOW));
}

/* What of the answers depends on the SYNs: of each in the low half, and in the high one. */
struct tg_wide_numbers {
	tg_wide client; /* both ports, the client's first; its address */
	tg_wide ours; /* ISN, TSval */
	tg_wide theirs; /* what is acknowledged: ACK number, TSecr */
};

/* Of answers with cookies. `said`: the end of their messages; `tsval`: the column that has it in its high halves. */
TG_INLINE struct tg_wide_numbers tg_wide_numbers_cookie(const struct tg_worker *w, tg_wide client,
							tg_wide said, tg_wide tsval, tg_wide mac)
{
	tg_wide ack = tg_wide_swap32(tg_wide_add(said, TG_WIDE_ALL(1)));

	return (struct tg_wide_numbers){client, tg_wide_cookies(mac, said, w->epoch),
					tg_wide_blend(ack, tsval)};
}

/* Of challenges without a cookie. */
TG_INLINE struct tg_wide_numbers tg_wide_numbers_challenge(const struct tg_worker *w,
							   tg_wide client, tg_wide said)
{
	tg_wide ack = tg_wide_swap32(tg_wide_add(said, TG_WIDE_ALL(1)));

	return (struct tg_wide_numbers){client,
					tg_wide_challenges(tg_wide_shr(client, 32), client,
							   tg_wide_and(said, TG_WIDE_LOW),
							   &w->challenge_key),
					tg_wide_and(ack, TG_WIDE_LOW)};
}

/* The answers from the IP header on, four pairs of words. */
TG_INLINE struct tg_wide_lines tg_wide_answers(struct tg_wide_numbers x, struct tg_wide_forms t)
{
	tg_wide to = tg_wide_client_to(x.client), src = tg_wide_shr(x.client, 32), sums;
	struct tg_wide_halves_sum sum = tg_wide_sum_of(x.ours);

	sum = tg_wide_sum_in(tg_wide_sum_in(sum, x.theirs), to);
	sum = tg_wide_sum_low(sum, t.tcp_sum);
	sums = tg_wide_csums_fold16(tg_wide_add(src, t.ip_sum), tg_wide_sum_end(sum));
	t.words[1] = tg_wide_or_andnot(t.words[1], sums, TG_WIDE_ALL(0xffff0000));
	t.words[2] = tg_wide_or(t.words[2], to);
	t.words[3] = tg_wide_blend(x.ours, tg_wide_shl(x.theirs, 32));
	t.words[4] = tg_wide_or_andnot(t.words[4], tg_wide_shr(sums, 16),
				       TG_WIDE_ALL(0xffffULL << 32));
	t.words[6] = tg_wide_or(t.words[6], tg_wide_blend(tg_wide_shr(x.ours, 32), x.theirs));
	return tg_wide_lines_of(t.words, 4);
}

/* An Ethernet header, and two bytes more, turned round. */
TG_INLINE __m128i tg_wide_turned(__m128i ether)
{
	return _mm_shuffle_epi8(ether,
				_mm_set_epi8(15, 14, 13, 12, 5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6));
}

/* Notes an answer's length. */
TG_INLINE void tg_wide_set_len(struct rte_mbuf *m, uint32_t len)
{
	const uint64_t lens = len | (uint64_t)len << 32; /* pkt_len; data_len, vlan_tci */

	memcpy((uint8_t *)m + offsetof(struct rte_mbuf, pkt_len), &lens, sizeof(lens));
}

/* Writes answers of `n` pairs of words to the frames, which are `was` bytes long, but for those in `known`. `ether`: the
 * header of them all, turned round; NULL: each one's own. */
TG_INLINE void tg_wide_write_all(struct rte_mbuf *const *m, uint32_t known, uint32_t len,
				 const uint32_t was, const struct tg_wide_lines *lines,
				 const uint32_t n, const __m128i *ether)
{
	uint32_t off = m[0]->data_off, i;

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++) {
		uint8_t *data = tg_wide_data(m[i], off);

		if (TG_UNLIKELY(known >> i & 1))
			continue;
		_mm_storeu_si128((__m128i *)data,
				 ether ? *ether
				       : tg_wide_turned(_mm_loadu_si128((const __m128i *)data)));
		tg_wide_write(data + TG_ETH_HDR_LEN, lines, n, i);
	}
	for (i = 0; TG_UNLIKELY(len != was) && i < TG_WIDE; i++)
		if (!(known >> i & 1))
			tg_wide_set_len(m[i], len);
}
#endif

#endif
