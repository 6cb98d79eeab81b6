/* SPDX-License-Identifier: Apache-2.0
 *
 * Known answers for the older cookie layouts, worked out by hand from the
 * equations of Echevarria et al. (and the text of Me Love (SYN-)Cookies), the replay window of every
 * layout in seconds, and the number of acknowledgements that a forger could
 * guess, each counted, not quoted.
 *
 * The hashes that the arithmetic starts from are not ours: SipHash by OpenSSL
 *     printf MESSAGE | openssl mac -macopt hexkey:KEY -macopt size:8 -in - SipHash
 * and SHA-1 by sha1sum, over the message that cookie_tuple.h draws.
 */
#include <stdlib.h>

#include "check.h"
#include "cookie_classic.h"
#include "cookie_freebsd.h"
#include "cookie_hybrid.h"
#include "cookie_linux.h"

/* K1 = 00 01 ... 0f, K2 = 10 11 ... 1f. */
static const struct tg_key_pair keys = {{
	{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL},
	{0x1716151413121110ULL, 0x1f1e1d1c1b1a1918ULL},
}};

#define CLIENT_ISN 0x11223344U

/* 192.0.2.1:40000 -> 198.51.100.80:80, client ISN 0x11223344. */
static struct tg_packet syn_v4(void)
{
	return (struct tg_packet){
		.family = 4,
		.src.w = {TG_WIRE32(192, 0, 2, 1)},
		.dst.w = {TG_WIRE32(198, 51, 100, 80)},
		.ports = TG_WIRE32(40000 >> 8, 40000 & 0xff, 0, 80),
		.seq = CLIENT_ISN,
	};
}

/* [2001:db8::1]:40000 -> [2001:db8:1::50]:80 */
static struct tg_packet syn_v6(void)
{
	struct tg_packet p = syn_v4();

	p.family = 6;
	p.src.w[0] = p.dst.w[0] = TG_WIRE32(0x20, 0x01, 0x0d, 0xb8);
	p.src.w[3] = TG_WIRE32(0, 0, 0, 1);
	p.dst.w[1] = TG_WIRE32(0, 1, 0, 0);
	p.dst.w[3] = TG_WIRE32(0, 0, 0, 0x50);
	return p;
}

/* The ACK that completes the handshake: SEQ = ISN_s + 1, ACK = ISN_d + 1. */
static struct tg_packet ack_of(struct tg_packet syn, uint32_t isn)
{
	syn.seq += 1;
	syn.ack = isn + 1;
	return syn;
}

static uint32_t linux_h(const struct tg_packet *p, bool sha1, int which, uint32_t count)
{
	if (sha1)
		return tg_linux_sha1(p, which == 1, count, &keys.k[which]);
	return which == 0 ? tg_tuple_siphash(p, &keys.k[0])
			  : tg_tuple_siphash_u32(p, count, &keys.k[1]);
}

static uint32_t linux_make(const struct tg_packet *p, bool sha1, uint32_t mss_index, uint32_t count)
{
	return tg_linux_make(p, linux_h(p, sha1, 0, 0), linux_h(p, sha1, 1, count), mss_index, count);
}

static bool linux_verify(const struct tg_packet *p, bool sha1, uint32_t count, struct tg_agreed *a)
{
	struct tg_counter_claim claim = tg_linux_claimed(p, linux_h(p, sha1, 0, 0), count);

	return tg_linux_verify(p, claim, linux_h(p, sha1, 1, count - claim.age), a);
}

/* FIPS 180-4 gives "abc"; whole words only here, so the known answers are
 * printf 'abcd' | sha1sum, and 56 bytes (the two-block example of the standard). */
static void test_sha1(void)
{
	uint32_t w[16] = {0x61626364U};
	struct tg_sha1 s = tg_sha1_begin();
	int i;

	tg_sha1_end(&s, w, 1, 1);
	CHECK_EQ(s.h[0], 0x81fe8bfeU, "SHA-1(abcd)");
	CHECK_EQ(s.h[4], 0x82917acfU, "SHA-1(abcd), last word");
	s = tg_sha1_begin();
	for (i = 0; i < 14; i++) /* abcdbcdecdef...nopq */
		w[i] = 0x61626364U + 0x01010101U * (uint32_t)i;
	tg_sha1_end(&s, w, 14, 14);
	CHECK_EQ(s.h[0], 0x84983e44U, "SHA-1, 56 bytes");
	CHECK_EQ(s.h[1], 0x1c3bd26eU, "SHA-1, 56 bytes");
	CHECK_EQ(s.h[2], 0xbaae4aa1U, "SHA-1, 56 bytes");
	CHECK_EQ(s.h[3], 0xf95129e5U, "SHA-1, 56 bytes");
	CHECK_EQ(s.h[4], 0xe54670f1U, "SHA-1, 56 bytes");
}

/* Equations 1-7, minute 1000 (0x3e8), MSS 1460 (index 3). */
static void test_linux_known(void)
{
	struct tg_packet v4 = syn_v4(), v6 = syn_v6(), ack;
	struct tg_agreed a = {0};

	/* SipHash, IPv4
	 *   H1                      = 0x870444b7
	 *   H2 (count 1000)         = 0x299992bc
	 *   H1 + ISN_s              = 0x870444b7 + 0x11223344 = 0x982677fb
	 *   count * 2^24            = 0x3e8 << 24             = 0xe8000000 (mod 2^32)
	 *   together                = 0x982677fb + 0xe8000000 = 0x802677fb (mod 2^32)
	 *   (H2 + 3) mod 2^24       = 0x999 2bf               = 0x009992bf
	 *   ISN_d                   = 0x802677fb + 0x009992bf = 0x80c00aba */
	CHECK_EQ(linux_h(&v4, false, 0, 0), 0x870444b7U, "H1");
	CHECK_EQ(linux_h(&v4, false, 1, 1000), 0x299992bcU, "H2");
	CHECK_EQ(linux_make(&v4, false, 3, 1000), 0x80c00abaU, "linux, SipHash, IPv4");

	/* and back: ISN_d - H1 - ISN_s = 0x80c00aba - 0x870444b7 - 0x11223344 = 0xe89992bf
	 *   count_cookie = 0xe8 = 232 = 1000 mod 256: age 0
	 *   MSS_cookie   = 0x9992bf - 0x9992bc = 3 */
	ack = ack_of(v4, 0x80c00abaU);
	CHECK(linux_verify(&ack, false, 1000, &a) && a.mss == 1460, "mss %u", a.mss);
	CHECK(linux_verify(&ack, false, 1001, &a), "one minute later");
	CHECK(!linux_verify(&ack, false, 1002, &a), "two minutes later");
	CHECK(!linux_verify(&ack, false, 999, &a), "a minute before it was made");

	/* SHA-1, IPv4: H1 0xbe472cf4, H2 0x7faca92a
	 *   0xbe472cf4 + 0x11223344 = 0xcf696038; + 0xe8000000 = 0xb7696038
	 *   (0x7faca92a + 3) mod 2^24 = 0xaca92d; ISN_d = 0xb8160965 */
	CHECK_EQ(linux_h(&v4, true, 0, 0), 0xbe472cf4U, "H1, SHA-1");
	CHECK_EQ(linux_h(&v4, true, 1, 1000), 0x7faca92aU, "H2, SHA-1");
	CHECK_EQ(linux_make(&v4, true, 3, 1000), 0xb8160965U, "linux, SHA-1, IPv4");

	/* SipHash, IPv6: H1 0xc5a67a19, H2 0x830d6222
	 *   0xc5a67a19 + 0x11223344 = 0xd6c8ad5d; + 0xe8000000 = 0xbec8ad5d
	 *   (0x830d6222 + 3) mod 2^24 = 0x0d6225; ISN_d = 0xbed60f82 */
	CHECK_EQ(linux_make(&v6, false, 3, 1000), 0xbed60f82U, "linux, SipHash, IPv6");

	/* SHA-1, IPv6 (52 and 56 bytes: one block and two): H1 0x3432c090, H2 0xf38f284a
	 *   0x3432c090 + 0x11223344 = 0x4554f3d4; + 0xe8000000 = 0x2d54f3d4
	 *   (0xf38f284a + 3) mod 2^24 = 0x8f284d; ISN_d = 0x2de41c21 */
	CHECK_EQ(linux_make(&v6, true, 3, 1000), 0x2de41c21U, "linux, SHA-1, IPv6");
}

/* Equations 8-15. */
static void test_freebsd_known(void)
{
	struct tg_packet v4 = syn_v4(), ack;
	struct tg_agreed a = {0};

	/* Window scale 7 (W = 6), MSS 1440 (M = 5), SACK, secret 0:
	 *   options = 110 101 1 0                = 0xd6
	 *   h                                    = 0x4ef78814
	 *   h & ~0xff                            = 0x4ef78800
	 *   options ^ (h >> 24) = 0xd6 ^ 0x4e    = 0x98
	 *   ISN_d                                = 0x4ef78898 */
	CHECK_EQ(tg_freebsd_options(1440, 7, true, 0), 0xd6, "options");
	CHECK_EQ(tg_freebsd_make(&v4, 0xd6, &keys), 0x4ef78898U, "freebsd");

	/* and back: 0x98 ^ 0x4e = 0xd6 */
	ack = ack_of(v4, 0x4ef78898U);
	CHECK(tg_freebsd_verify(&ack, &keys, &a), "freebsd, verified");
	CHECK(a.mss == 1440 && a.wscale == 7 && a.sack_ok && !a.ts_ok, "mss %u wscale %u sack %d",
	      a.mss, a.wscale, a.sack_ok);

	/* Every option bit set, secret 1: h = 0xac319157
	 *   0xff ^ 0xac = 0x53; ISN_d = 0xac319153 */
	CHECK_EQ(tg_freebsd_options(9000, 14, true, 1), 0xff, "options");
	CHECK_EQ(tg_freebsd_make(&v4, 0xff, &keys), 0xac319153U, "freebsd, secret 1");
}

/* Equations 16-22. */
static void test_hybrid_known(void)
{
	struct tg_packet v4 = syn_v4(), v6 = syn_v6(), ack;
	struct tg_agreed a = {0};

	/* Second 1000, MSS 1460 (index 3); H1 and H2 are those of linux with SipHash:
	 *   H1 + ISN_s            = 0x982677fb
	 *   count * 2^18          = 0x3e8 << 18 = 0x0fa00000
	 *   together              = 0xa7c677fb
	 *   (H2 + 3) mod 2^18     = 0x299992bf & 0x3ffff = 0x192bf
	 *   ISN_d                 = 0xa7c677fb + 0x000192bf = 0xa7c80aba */
	CHECK_EQ(tg_hybrid_make(&v4, 3, 1000, &keys), 0xa7c80abaU, "hybrid");

	/* and back: 0xa7c80aba - 0x870444b7 - 0x11223344 = 0x0fa192bf
	 *   count_cookie = 0x0fa192bf >> 18 = 0x3e8 = 1000
	 *   MSS_cookie   = 0x192bf - 0x192bc = 3 */
	ack = ack_of(v4, 0xa7c80abaU);
	CHECK(tg_hybrid_verify(&ack, 1000, 2, &keys, &a) && a.mss == 1460, "mss %u", a.mss);
	CHECK(tg_hybrid_verify(&ack, 1001, 2, &keys, &a), "a second later");
	CHECK(!tg_hybrid_verify(&ack, 1002, 2, &keys, &a), "two seconds later");
	CHECK(tg_hybrid_verify(&ack, 1004, 5, &keys, &a), "four seconds later, maximal age 5");

	/* Second 20000, which the 14 bits hold as 3616 = 0xe20; MSS 1300 (index 1);
	 * H2 (count 20000) = 0xfcd34be9:
	 *   count * 2^18 = 20000 << 18 = 0x38800000 (mod 2^32)
	 *   0x982677fb + 0x38800000 = 0xd0a677fb
	 *   (0xfcd34be9 + 1) mod 2^18 = 0x34bea; ISN_d = 0xd0a9c3e5 */
	CHECK_EQ(tg_hybrid_make(&v4, 1, 20000, &keys), 0xd0a9c3e5U, "hybrid, wrapped count");

	/* IPv6, index 2: 0xd6c8ad5d + 0x0fa00000 = 0xe668ad5d
	 *   (0x830d6222 + 2) mod 2^18 = 0x16224; ISN_d = 0xe66a0f81 */
	CHECK_EQ(tg_hybrid_make(&v6, 2, 1000, &keys), 0xe66a0f81U, "hybrid, IPv6");
}

static void test_classic_known(void)
{
	struct tg_packet v4 = syn_v4(), ack;
	struct tg_agreed a = {0};

	/* Count 1000, MSS 1460 (index 6); SipHash = 0x3e55762c:
	 *   time = 1000 mod 32 = 8;  8 << 27 = 0x40000000
	 *   6 << 24                          = 0x06000000
	 *   hash mod 2^24                    = 0x0055762c
	 *   ISN                              = 0x4655762c */
	CHECK_EQ(tg_classic_make(&v4, 6, 1000, &keys.k[0]), 0x4655762cU, "classic");
	ack = ack_of(v4, 0x4655762cU);
	CHECK(tg_classic_verify(&ack, 1001, &keys.k[0], &a) && a.mss == 1460, "mss %u", a.mss);
	CHECK(!tg_classic_verify(&ack, 1002, &keys.k[0], &a), "128 s later");
}

/* ---- A common interface to all layouts, for the figures ---- */

enum layout { CLASSIC, LINUX_SIP, LINUX_SHA1, FREEBSD, HYBRID, TIDEGATE, LAYOUTS };
static const char *const layout_names[LAYOUTS] = {"classic", "linux",  "linux (SHA-1)",
						  "freebsd", "hybrid", "tidegate (no timestamps)"};

#define TIDEGATE_EPOCH_S 8

/* The keys of FreeBSD's two secrets at a time: period n's key is in slot n & 1. */
static struct tg_key_pair freebsd_keys(uint32_t now_s)
{
	uint8_t secret[TG_SECRET_LEN] = {7};
	uint32_t n = now_s / TG_FREEBSD_PERIOD_S;
	struct tg_key_pair k;

	k.k[n & 1] = tg_epoch_key_derive(secret, n);
	k.k[(n & 1) ^ 1] = tg_epoch_key_derive(secret, n - 1);
	return k;
}

static struct tg_siphash_key tidegate_key(uint32_t epoch)
{
	uint8_t secret[TG_SECRET_LEN] = {7};

	return tg_epoch_key_derive(secret, epoch);
}

/* The cookie made at `now_s` for option choice `o`. */
static uint32_t make(enum layout l, const struct tg_packet *syn, uint32_t o, uint32_t now_s)
{
	struct tg_key_pair pair;
	struct tg_siphash_key key;

	switch (l) {
	case CLASSIC:
		return tg_classic_make(syn, o, now_s / TG_CLASSIC_PERIOD_S, &keys.k[0]);
	case LINUX_SIP:
	case LINUX_SHA1:
		return linux_make(syn, l == LINUX_SHA1, o, now_s / TG_LINUX_PERIOD_S);
	case FREEBSD:
		pair = freebsd_keys(now_s);
		return tg_freebsd_make(syn, (uint8_t)(o << 1 | (now_s / TG_FREEBSD_PERIOD_S & 1)),
				       &pair);
	case HYBRID:
		return tg_hybrid_make(syn, o, now_s, &keys);
	default:
		key = tidegate_key(now_s / TIDEGATE_EPOCH_S);
		return tg_cookie_make(syn, o, false, now_s / TIDEGATE_EPOCH_S, &key).isn;
	}
}

static bool verify(enum layout l, const struct tg_packet *ack, uint32_t now_s)
{
	struct tg_agreed a = {0};
	struct tg_key_pair pair;
	struct tg_siphash_key key;
	uint64_t epoch;

	switch (l) {
	case CLASSIC:
		return tg_classic_verify(ack, now_s / TG_CLASSIC_PERIOD_S, &keys.k[0], &a);
	case LINUX_SIP:
	case LINUX_SHA1:
		return linux_verify(ack, l == LINUX_SHA1, now_s / TG_LINUX_PERIOD_S, &a);
	case FREEBSD:
		pair = freebsd_keys(now_s);
		return tg_freebsd_verify(ack, &pair, &a);
	case HYBRID:
		return tg_hybrid_verify(ack, now_s, TG_COUNTER_MAX_AGE, &keys, &a);
	default:
		epoch = tg_cookie_epoch(ack->ack - 1, now_s / TIDEGATE_EPOCH_S);
		key = tidegate_key((uint32_t)epoch);
		return tg_cookie_verify(ack, (struct tg_cookie){.isn = ack->ack - 1}, false, epoch,
					&key);
	}
}

/* Lifetimes of a cookie, shortest and longest, in seconds, over every instant of
 * one period at which it can be made. */
static const struct {
	uint32_t period_s, options, periods_good, min_s, max_s;
	double luck_log2; /* -log2 of the chance of one forged ACK */
} want[LAYOUTS] = {
	[CLASSIC] = {64, 8, 2, 65, 128, 28},    [LINUX_SIP] = {60, 4, 2, 61, 120, 29},
	[LINUX_SHA1] = {60, 4, 2, 61, 120, 29}, [FREEBSD] = {15, 128, 2, 16, 30, 24},
	[HYBRID] = {1, 4, 2, 2, 2, 29},         [TIDEGATE] = {8, 512, 2, 9, 16, 22},
};

/* Whole seconds for which a cookie made at `born` is accepted. */
static uint32_t life_s(enum layout l, uint32_t born)
{
	struct tg_packet syn = syn_v4(), ack = ack_of(syn, make(l, &syn, 1, born));
	uint32_t t;

	for (t = 0; t < 1000 && verify(l, &ack, born + t); t++)
		;
	return t;
}

static void test_replay_window(enum layout l)
{
	uint32_t min = UINT32_MAX, max = 0, born, life;
	/* A multiple of every period, beyond the wrap of hybrid's 14 bits. */
	uint32_t start = 64 * 60 * 15 * 8;

	for (born = start; born < start + want[l].period_s; born++) {
		life = life_s(l, born);
		min = life < min ? life : min;
		max = life > max ? life : max;
	}
	CHECK_EQ(min, want[l].min_s, layout_names[l]);
	CHECK_EQ(max, want[l].max_s, layout_names[l]);
	printf("%-26s replay window %3u to %3u s (whole seconds still accepted)\n", layout_names[l],
	       min, max);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Counts the acceptable ISNs of one tuple at one instant: everything that any
 * valid period could have made. Each must be accepted and, of a million others,
 * only these. */
static void test_forging_luck(enum layout l)
{
	static uint32_t good[2048];
	struct tg_packet syn = syn_v4(), ack;
	uint32_t n = 0, distinct = 0, age, o, i, now = 64 * 60 * 15 * 8, hits = 0, in_set = 0;
	uint64_t x = 88172645463325252ULL;
	int log2 = 0;

	for (age = 0; age < want[l].periods_good; age++)
		for (o = 0; o < want[l].options; o++)
			good[n++] = make(l, &syn, o, now - age * want[l].period_s);
	qsort(good, n, sizeof(good[0]), compare_u32);
	for (i = 0; i < n; i++) {
		distinct += i == 0 || good[i] != good[i - 1];
		ack = ack_of(syn, good[i]);
		CHECK(verify(l, &ack, now), "%s: an ISN that was made is refused", layout_names[l]);
	}
	while (1U << log2 < distinct)
		log2++;
	CHECK_EQ(1U << log2, distinct, layout_names[l]);
	CHECK_EQ(32 - log2, (uint64_t)want[l].luck_log2, layout_names[l]);
	for (i = 0; i < 1000000; i++) {
		uint32_t isn;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		isn = (uint32_t)(x >> 16);
		ack = ack_of(syn, isn);
		hits += verify(l, &ack, now);
		in_set += bsearch(&isn, good, n, sizeof(isn), compare_u32) != NULL;
	}
	CHECK_EQ(hits, in_set, layout_names[l]);
	printf("%-26s %4u of 2^32 ISNs are good: a forged ACK succeeds with 2^-%d\n",
	       layout_names[l], distinct, 32 - log2);
}

/* One bit wrong anywhere, another tuple or another client ISN: refused. The
 * hashes are 18 to 24 bits, so the inputs are fixed and known not to collide.
 * `classic` covers neither its MSS bits nor the client's ISN. */
static void test_tampering(enum layout l)
{
	uint32_t now = 999960, free_bits = l == CLASSIC ? 7U << 24 : 0, bit, stays = 0;
	struct tg_packet syn = syn_v4(), ack = ack_of(syn, make(l, &syn, 1, now)), bad;

	for (bit = 0; bit < 32; bit++) {
		bad = ack;
		bad.ack = ((ack.ack - 1) ^ 1U << bit) + 1;
		if (free_bits >> bit & 1) {
			CHECK(verify(l, &bad, now), "classic: MSS bit %u is free", bit);
			continue;
		}
		/* The counter layouts hold four MSS values in their lowest bits. */
		stays += verify(l, &bad, now);
		bad = ack;
		bad.src.w[0] ^= 1U << bit;
		CHECK(!verify(l, &bad, now), "%s: source bit %u", layout_names[l], bit);
		bad = ack;
		bad.ports ^= 1U << bit;
		CHECK(!verify(l, &bad, now), "%s: port bit %u", layout_names[l], bit);
	}
	CHECK(stays <= (l == LINUX_SIP || l == LINUX_SHA1 || l == HYBRID ? 2 : 0),
	      "%s: %u tampered ISNs accepted", layout_names[l], stays);
	bad = ack;
	bad.seq += 5;
	CHECK_EQ(verify(l, &bad, now), l == CLASSIC, "another client ISN");
}

/* The wrap of the counter: hybrid after 16,384 s, linux after 256 min,
 * classic after 2,048 s. Just before and after it cookies work, and one
 * from a whole turn ago is refused, as its hash covers the whole counter. */
static void test_wrap(enum layout l, uint32_t turn_s)
{
	struct tg_packet syn = syn_v4(), ack;
	uint32_t t, wrap = turn_s * 3;

	for (t = wrap - 3; t != wrap + 3; t++) {
		ack = ack_of(syn, make(l, &syn, 2, t));
		CHECK(verify(l, &ack, t) && verify(l, &ack, t + 1), "%s at the wrap, %u",
		      layout_names[l], t);
		CHECK(!verify(l, &ack, t + turn_s), "%s: a cookie of a whole turn ago, %u",
		      layout_names[l], t);
	}
}

static void test_tables(void)
{
	uint32_t i, mss;

	for (mss = 0; mss <= 65535; mss++) {
		uint16_t c4 = tg_counter_mss_value(4, tg_counter_mss_index(4, (uint16_t)mss));
		uint16_t c6 = tg_counter_mss_value(6, tg_counter_mss_index(6, (uint16_t)mss));
		uint16_t f = tg_freebsd_mss_value(tg_freebsd_mss_index((uint16_t)mss));

		if (c4 > mss && c4 != 536)
			CHECK(false, "counter MSS %u for %u", c4, mss);
		if (c6 > mss && c6 != 1220)
			CHECK(false, "counter MSS %u for %u, IPv6", c6, mss);
		if (f > mss && f != 216)
			CHECK(false, "freebsd MSS %u for %u", f, mss);
	}
	for (i = 0; i < 8; i++)
		CHECK_EQ(tg_freebsd_wscale_index(tg_freebsd_wscale_value(i)), i, "wscale index");
	for (i = 0; i <= TG_WSCALE_MAX; i++)
		CHECK(tg_freebsd_wscale_value(tg_freebsd_wscale_index((uint8_t)i)) <= i,
		      "wscale %u is rounded up", i);
}

int main(int argc, char **argv)
{
	int l;

	check_begin(argc, argv);
	test_sha1();
	test_linux_known();
	test_freebsd_known();
	test_hybrid_known();
	test_classic_known();
	test_tables();
	for (l = 0; l < LAYOUTS; l++) {
		test_replay_window((enum layout)l);
		test_tampering((enum layout)l);
	}
	for (l = 0; l < LAYOUTS; l++)
		test_forging_luck((enum layout)l);
	test_wrap(HYBRID, 16384);
	test_wrap(LINUX_SIP, 256 * 60);
	test_wrap(LINUX_SHA1, 256 * 60);
	test_wrap(CLASSIC, 2048);
	return check_summary();
}
