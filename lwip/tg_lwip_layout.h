/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tg_lwip.c: one face for the cookie layouts of core/, of which one
 * is compiled in. Holds the keys and replaces those that age. Knows nothing of
 * PCBs and pbufs.
 */
#ifndef TG_LWIP_LAYOUT_H
#define TG_LWIP_LAYOUT_H

#include "tg_lwip.h"

/* Flash is scarcer here than cycles: one copy of the hash, not one per call. */
#define TG_TUPLE_FN static __attribute__((noinline))

#include "cookie_classic.h"
#include "cookie_freebsd.h"
#include "cookie_hybrid.h"
#include "cookie_linux.h"

#define TG_COOKIES                                                                                 \
	(TG_LWIP_POLICY == TG_LWIP_POLICY_COOKIES || TG_LWIP_POLICY == TG_LWIP_POLICY_COOKIES_ALWAYS)

#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_CLASSIC
#define TG_PERIOD_S TG_CLASSIC_PERIOD_S
#define TG_LIFE_S (TG_CLASSIC_PERIOD_S * TG_CLASSIC_MAX_AGE)
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX
#define TG_PERIOD_S TG_LINUX_PERIOD_S
#define TG_LIFE_S (TG_LINUX_PERIOD_S * TG_COUNTER_MAX_AGE)
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD
#define TG_PERIOD_S TG_FREEBSD_PERIOD_S
#define TG_LIFE_S (TG_FREEBSD_PERIOD_S * 2)
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID
#define TG_PERIOD_S TG_HYBRID_PERIOD_S
#define TG_LIFE_S (TG_HYBRID_PERIOD_S * TG_LWIP_HYBRID_MAX_AGE)
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE
#define TG_PERIOD_S TG_LWIP_TIDEGATE_EPOCH_S
#define TG_LIFE_S (TG_LWIP_TIDEGATE_EPOCH_S * 2)
#else
#error "the layout lacks this part"
#endif

/* Layouts whose keys are replaced, and layouts that keep more than the MSS. */
#define TG_KEYS_ROTATE                                                                             \
	(TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD || TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE)
#define TG_KEEPS_WSCALE (TG_KEYS_ROTATE && LWIP_WND_SCALE)
#define TG_KEEPS_SACK (TG_KEYS_ROTATE && LWIP_TCP_SACK_OUT)

struct tg_layout_state {
	/* K1 and K2 of the counter layouts; where keys rotate, the key of period
	 * n is in slot n & 1. */
	struct tg_key_pair keys;
#if TG_KEYS_ROTATE
	uint8_t secret[TG_LWIP_SECRET_LEN];
	u32_t key_period;
#endif
};

#if TG_KEYS_ROTATE
/* One copy of ChaCha20, not one per call. */
static __attribute__((noinline)) void tg_layout_key(struct tg_layout_state *s, u32_t period)
{
	s->keys.k[period & 1] = tg_epoch_key_derive(s->secret, period);
}
#endif

static void tg_layout_init(struct tg_layout_state *s, const uint8_t secret[TG_LWIP_SECRET_LEN])
{
#if TG_KEYS_ROTATE
	memcpy(s->secret, secret, sizeof(s->secret));
	tg_layout_key(s, (u32_t)-1);
	tg_layout_key(s, 0);
	s->key_period = 0;
#else
	int i;

	for (i = 0; i < 2; i++) {
		s->keys.k[i].k0 = tg_load64(secret + 16 * i);
		s->keys.k[i].k1 = tg_load64(secret + 16 * i + 8);
	}
#endif
}

#if TG_COOKIES

/* The number of the current period; replaces keys that have expired. */
static u32_t tg_layout_count(struct tg_layout_state *s, u32_t now_s)
{
	u32_t period = now_s / TG_PERIOD_S;

#if TG_KEYS_ROTATE
	while (s->key_period != period) {
		/* After a long silence only the last two matter. */
		s->key_period = period - s->key_period > 2 ? period - 1 : s->key_period + 1;
		tg_layout_key(s, s->key_period);
	}
#else
	LWIP_UNUSED_ARG(s);
#endif
	return period;
}

#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX
/* H1 for which == 0, H2 for which == 1. */
static __attribute__((noinline)) u32_t tg_layout_linux_hash(struct tg_layout_state *s,
							    const struct tg_packet *pkt, int which,
							    u32_t count)
{
#if TG_LWIP_LINUX_SHA1
	return tg_linux_sha1(pkt, which == 1, count, &s->keys.k[which]);
#else
	return (u32_t)tg_tuple_siphash64(pkt, &s->keys.k[which], count, which == 0 ? 0 : 4);
#endif
}
#endif

#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE
/* The cookie for a client whose ISN is pkt->seq. Always the form without
 * timestamps: lwIP's TSval is sys_now() without an offset per connection, so a
 * MAC as a SYN-ACK's TSval would make the client drop all later segments as
 * old (PAWS). */
static __attribute__((noinline)) u32_t tg_layout_tidegate(struct tg_layout_state *s,
							  const struct tg_packet *pkt, u32_t bits,
							  u32_t epoch)
{
	return tg_cookie_make(pkt, bits, false, epoch, &s->keys.k[epoch & 1]).isn;
}
#endif

/* The cookie for a SYN. */
static u32_t tg_layout_make(struct tg_layout_state *s, const struct tg_packet *syn,
			    const struct tg_tcp_options *offered, u32_t now_s)
{
	u32_t count = tg_layout_count(s, now_s);
#if TG_KEYS_ROTATE
	u8_t wscale = TG_KEEPS_WSCALE ? offered->wscale : TG_WSCALE_NONE;
	bool sack_ok = TG_KEEPS_SACK && offered->sack_ok;
#endif

#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_CLASSIC
	return tg_classic_make(syn, tg_mss_index(syn->family, offered->mss), count, &s->keys.k[0]);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX
	return tg_linux_make(syn, tg_layout_linux_hash(s, syn, 0, 0),
			     tg_layout_linux_hash(s, syn, 1, count),
			     tg_counter_mss_index(syn->family, offered->mss), count);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD
	return tg_freebsd_make(syn, tg_freebsd_options(offered->mss, wscale, sack_ok, count),
			       &s->keys);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID
	return tg_hybrid_make(syn, tg_counter_mss_index(syn->family, offered->mss), count, &s->keys);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE
	return tg_layout_tidegate(s, syn,
				  tg_cookie_option_bits(tg_mss_index(syn->family, offered->mss),
							wscale, sack_ok, false),
				  count);
#else
#error "the layout lacks this part"
#endif
}

/* True if the ACK returns a valid cookie; its contents go to `agreed`. */
static bool tg_layout_verify(struct tg_layout_state *s, const struct tg_packet *ack, u32_t now_s,
			     struct tg_agreed *agreed)
{
	u32_t count = tg_layout_count(s, now_s);

#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_CLASSIC
	return tg_classic_verify(ack, count, &s->keys.k[0], agreed);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX
	struct tg_counter_claim claim = tg_linux_claimed(ack, tg_layout_linux_hash(s, ack, 0, 0),
							 count);

	/* The cheap check first: it saves the second hash. */
	return claim.age < TG_COUNTER_MAX_AGE &&
	       tg_linux_verify(ack, claim, tg_layout_linux_hash(s, ack, 1, count - claim.age),
			       agreed);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD
	LWIP_UNUSED_ARG(count);
	return tg_freebsd_verify(ack, &s->keys, agreed);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID
	return tg_hybrid_verify(ack, count, TG_LWIP_HYBRID_MAX_AGE, &s->keys, agreed);
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE
	struct tg_cookie cookie = {.isn = ack->ack - 1};
	u32_t epoch = count - ((cookie.isn >> 31) != (count & 1));

	struct tg_packet syn = *ack;
	u32_t bits = tg_cookie_claimed_bits(cookie, false);

	/* Recomputed and compared as a whole: parity, options and MAC at once. */
	syn.seq -= 1;
	if (tg_layout_tidegate(s, &syn, bits, epoch) != cookie.isn)
		return false;
	*agreed = tg_cookie_agreed(ack->family, bits, false);
	return true;
#else
#error "the layout lacks this part"
#endif
}

#endif /* TG_COOKIES */

#endif
