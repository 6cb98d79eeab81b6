/* SPDX-License-Identifier: Apache-2.0
 *
 * The `tidegate` layout, both forms: external known answers, the place of every
 * bit, round trips of all that a cookie can say, and what must be refused.
 */
#include "known_answers.h"
#include "../cookie_smartcookie.h"
#include "test.h"

static const uint8_t secret[TG_SECRET_LEN] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
					      11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
					      22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
static const uint8_t v6_src[16] = {0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t v6_dst[16] = {0x20, 1, 0x0d, 0xb8, 0,    2,    0xab, 0xcd,
				   0xef, 1, 0x23, 0x45, 0x67, 0x89, 0,    0x80};

static struct tg_packet tuple(uint8_t family, uint16_t sport, uint16_t dport, uint32_t seq)
{
	struct tg_packet p = {.family = family, .seq = seq};

	p.ports = tg_swap16(sport) | (uint32_t)tg_swap16(dport) << 16;
	if (family == 4) {
		p.src.w[0] = TG_WIRE32(192, 0, 2, 1);
		p.dst.w[0] = TG_WIRE32(198, 51, 100, 7);
	} else {
		memcpy(&p.src, v6_src, 16);
		memcpy(&p.dst, v6_dst, 16);
	}
	return p;
}

/* The client's ACK of a cookie: its sequence number is one higher. */
static struct tg_packet ack_of(struct tg_packet syn)
{
	syn.seq += 1;
	return syn;
}

static void external_known_answers(void **state)
{
	size_t i, n = sizeof(tg_ka_cookies) / sizeof(tg_ka_cookies[0]);

	(void)state;
	assert_true(n >= 200);
	for (i = 0; i < n; i++) {
		const struct tg_ka_cookie *k = &tg_ka_cookies[i];
		struct tg_packet syn = tuple(k->family, k->sport, k->dport, k->client_isn);
		struct tg_packet ack = ack_of(syn);
		struct tg_siphash_key key = tg_epoch_key_derive(secret, k->epoch);
		uint32_t bits = tg_cookie_option_bits(k->mss, k->wscale, k->sack, k->ecn);
		struct tg_cookie c = tg_cookie_make(&syn, bits, k->ts, k->epoch, &key);

		if (c.isn != k->isn || (k->ts && c.tsval != k->tsval))
			fail_msg("answer %zu: isn %08x tsval %08x, want %08x %08x", i, c.isn,
				 c.tsval, k->isn, k->tsval);
		assert_true(tg_cookie_verify(&ack, c, k->ts, k->epoch, &key));
	}
}

/* Layout smartcookie: answers of an independent implementation, both address families. */
static void smartcookie_known_answers(void **state)
{
	size_t i, n = sizeof(tg_ka_smartcookies) / sizeof(tg_ka_smartcookies[0]);

	(void)state;
	assert_true(n >= 100);
	for (i = 0; i < n; i++) {
		const struct tg_ka_smartcookie *k = &tg_ka_smartcookies[i];
		struct tg_packet syn = tuple(k->family, k->sport, k->dport, k->client_isn);
		struct tg_packet ack = ack_of(syn);
		struct tg_halfsiphash_key key = tg_smart_key_derive(secret, k->epoch);
		uint32_t bits = tg_cookie_option_bits(k->mss_index, k->wscale, true, true);
		uint32_t isn = tg_smart_make(&syn, bits, k->epoch, &key);
		int b;

		if (isn != k->isn)
			fail_msg("answer %zu: isn %08x, want %08x", i, isn, k->isn);
		ack.ack = isn + 1;
		assert_true(tg_smart_verify(&ack, k->epoch, &key));
		assert_int_equal(tg_smart_claimed_bits(isn),
				 tg_cookie_option_bits(k->mss_index, k->wscale, false, false));
		for (b = 0; b < 32; b++) {
			struct tg_packet forged = ack;

			forged.ack = (isn ^ 1U << b) + 1;
			/* MSS and wscale are the client's to say. */
			assert_int_equal(tg_smart_verify(&forged, k->epoch, &key),
					 b >= TG_SMART_WSCALE_SHIFT && b < TG_SMART_PARITY_SHIFT);
			forged = ack;
			forged.seq = (ack.seq - 1) ^ 1U << b;
			forged.seq += 1;
			assert_int_equal(tg_smart_verify(&forged, k->epoch, &key), b >= 24);
		}
	}
}

/* Every field of the drawing is at its bits. */
static void bit_positions(void **state)
{
	struct tg_packet syn = tuple(4, 1234, 80, 99);
	struct tg_siphash_key key = {1, 2};
	struct tg_cookie a, b;

	(void)state;
	a = tg_cookie_make(&syn, tg_cookie_option_bits(5, 9, 1, 0), false, 7, &key);
	assert_int_equal(a.isn >> 31, 1);      /* P: epoch 7 is odd */
	assert_int_equal(a.isn >> 28 & 7, 5);  /* MSS */
	assert_int_equal(a.isn >> 24 & 15, 9); /* wscale */
	assert_int_equal(a.isn >> 23 & 1, 1);  /* SACK */
	assert_int_equal(a.isn >> 22 & 1, 0);  /* ECN */
	b = tg_cookie_make(&syn, tg_cookie_option_bits(0xa55b, 9, 1, 1), true, 8, &key);
	assert_int_equal(b.isn >> 31, 0);
	assert_int_equal(b.tsval >> 16, 0xa55b);
	assert_int_equal(b.tsval >> 12 & 15, 9);
	assert_int_equal(b.tsval >> 11 & 1, 1);
	assert_int_equal(b.tsval >> 10 & 1, 1);
}

/* The MAC bits of both forms are the documented ones of the 64. */
static void mac_bits(void **state)
{
	struct tg_packet syn = tuple(6, 4321, 443, 0xfffffffe);
	struct tg_siphash_key key = {0x1111, 0x2222};
	uint32_t bits = tg_cookie_option_bits(6, 7, 1, 0);
	uint64_t plain = tg_cookie_mac(&syn, syn.seq, bits, TG_COOKIE_PLAIN, 4, &key);
	uint64_t ts = tg_cookie_mac(&syn, syn.seq, bits, TG_COOKIE_TS, 4, &key);
	struct tg_cookie p = tg_cookie_make(&syn, bits, false, 4, &key);
	struct tg_cookie t = tg_cookie_make(&syn, bits, true, 4, &key);

	(void)state;
	assert_true(plain != ts);
	assert_int_equal(p.isn & 0x3fffff, plain & 0x3fffff);
	assert_int_equal(t.isn & 0x7fffffff, ts & 0x7fffffff);
	assert_int_equal(t.tsval & 0x3ff, ts >> 31 & 0x3ff);
}

/* All 2^9 option codes, both families, both forms, epochs with odd and even parity. */
static void round_trip_everything(void **state)
{
	static const uint64_t epochs[] = {0, 1, 218750000, 218750001, 0xffffffffULL, 1ULL << 32};
	uint32_t code, n;

	(void)state;
	for (n = 0; n < 6 * 4; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		bool ts = n >> 1 & 1;
		uint64_t epoch = epochs[n >> 2];
		struct tg_siphash_key key = tg_epoch_key_derive(secret, epoch);

		for (code = 0; code < 512; code++) {
			struct tg_packet syn = tuple(family, (uint16_t)(code * 31), 80,
						     code * 0x01000193);
			struct tg_packet ack = ack_of(syn);
			uint32_t mss = ts ? code * 40503 & 0xffff : code & 7;
			uint32_t bits = tg_cookie_option_bits(mss, code >> 3 & 15, code >> 7 & 1,
							      code >> 8 & 1);
			struct tg_cookie c = tg_cookie_make(&syn, bits, ts, epoch, &key);
			struct tg_agreed g = tg_cookie_agreed(family, tg_cookie_claimed_bits(c, ts),
							      ts);

			assert_int_equal(tg_cookie_claimed_bits(c, ts), bits);
			assert_true(
				tg_cookie_verify(&ack, c, ts, tg_cookie_epoch(c.isn, epoch), &key));
			assert_int_equal(g.mss, ts ? mss : tg_mss_value(family, mss));
			assert_int_equal(g.wscale, code >> 3 & 15);
			assert_int_equal(g.sack_ok, code >> 7 & 1);
			assert_int_equal(g.ecn_ok, code >> 8 & 1);
			assert_int_equal(g.ts_ok, ts);
			/* the other form must not take it */
			assert_false(tg_cookie_verify(&ack, c, !ts, epoch, &key));
		}
	}
}

static void mss_tables(void **state)
{
	uint32_t mss, i;
	int family;

	(void)state;
	for (family = 4; family <= 6; family += 2) {
		for (i = 1; i < 8; i++)
			assert_true(tg_mss_value(family, i) > tg_mss_value(family, i - 1));
		assert_int_equal(tg_mss_value(family, 0), family == 4 ? 536 : 1220);
		for (mss = 0; mss <= 0xffff; mss++) {
			i = tg_mss_index(family, (uint16_t)mss);
			assert_true(i < 8);
			assert_true(i == 0 || tg_mss_value(family, i) <= mss);
			assert_true(i == 7 || tg_mss_value(family, i + 1) > mss);
		}
	}
}

/* Each flipped bit of a genuine answer makes it a forgery. */
static void every_flipped_bit_is_refused(void **state)
{
	struct tg_siphash_key key = tg_epoch_key_derive(secret, 6);
	int family, ts, bit;

	(void)state;
	for (family = 4; family <= 6; family += 2)
		for (ts = 0; ts < 2; ts++) {
			struct tg_packet syn = tuple(family, 50000, 443, 0x89abcdef);
			struct tg_packet good = ack_of(syn), bad;
			struct tg_cookie c = tg_cookie_make(&syn, tg_cookie_option_bits(6, 7, 1, 1),
							    ts, 6, &key),
					 d;

			for (bit = 0; bit < 32; bit++) {
				d = c;
				d.isn ^= 1U << bit;
				assert_false(tg_cookie_verify(&good, d, ts, 6, &key));
				d = c;
				d.tsval ^= 1U << bit;
				assert_int_equal(tg_cookie_verify(&good, d, ts, 6, &key), !ts);
				bad = good;
				bad.seq ^= 1U << bit;
				assert_false(tg_cookie_verify(&bad, c, ts, 6, &key));
				bad = good;
				bad.ports ^= 1U << bit;
				assert_false(tg_cookie_verify(&bad, c, ts, 6, &key));
			}
			for (bit = 0; bit < (family == 4 ? 32 : 128); bit++) {
				bad = good;
				bad.src.w[bit / 32] ^= 1U << bit % 32;
				assert_false(tg_cookie_verify(&bad, c, ts, 6, &key));
				bad = good;
				bad.dst.w[bit / 32] ^= 1U << bit % 32;
				assert_false(tg_cookie_verify(&bad, c, ts, 6, &key));
			}
		}
}

static void plus_minus_one_is_refused(void **state)
{
	uint64_t seed = 3, n;

	(void)state;
	for (n = 0; n < 2000; n++) {
		struct tg_packet syn = tuple(n & 1 ? 6 : 4, (uint16_t)tg_splitmix(&seed), 80,
					     (uint32_t)tg_splitmix(&seed));
		struct tg_packet ack = ack_of(syn);
		struct tg_siphash_key key = tg_epoch_key_derive(secret, n);
		bool ts = n & 2;
		struct tg_cookie c = tg_cookie_make(&syn, tg_cookie_option_bits(6, 7, 1, 0), ts, n,
						    &key);
		int d;

		for (d = -1; d <= 1; d += 2) {
			struct tg_cookie near = {c.isn + (uint32_t)d, c.tsval};

			assert_false(tg_cookie_verify(&ack, near, ts, tg_cookie_epoch(near.isn, n),
						      &key));
			near = (struct tg_cookie){c.isn, c.tsval + (uint32_t)d};
			assert_int_equal(tg_cookie_verify(&ack, near, ts, n, &key), !ts);
		}
	}
}

/* A cookie of epoch 100 is accepted in 100 and 101, and in no other epoch. */
static void epochs_accepted(void **state)
{
	struct tg_packet syn = tuple(4, 40000, 80, 1);
	struct tg_packet ack = ack_of(syn);
	struct tg_siphash_key key = tg_epoch_key_derive(secret, 100);
	struct tg_cookie c = tg_cookie_make(&syn, 0, false, 100, &key);
	uint64_t now;

	(void)state;
	for (now = 95; now <= 105; now++) {
		uint64_t epoch = tg_cookie_epoch(c.isn, now);
		struct tg_siphash_key k = tg_epoch_key_derive(secret, epoch);

		assert_true(epoch == now || epoch == now - 1);
		assert_int_equal(tg_cookie_verify(&ack, c, false, epoch, &k),
				 now == 100 || now == 101);
	}
	/* the right key under the wrong parity */
	assert_false(tg_cookie_verify(&ack, c, false, 101, &key));
}

/* The low 32 bits of the epoch are in the message, the others in the key. */
static void epochs_2_to_the_32_apart(void **state)
{
	struct tg_packet syn = tuple(4, 40000, 80, 1);
	struct tg_siphash_key a = tg_epoch_key_derive(secret, 5);
	struct tg_siphash_key b = tg_epoch_key_derive(secret, (1ULL << 32) + 5);

	(void)state;
	assert_true(a.k0 != b.k0 && a.k1 != b.k1);
	assert_int_not_equal(tg_cookie_make(&syn, 0, true, 5, &a).isn,
			     tg_cookie_make(&syn, 0, true, (1ULL << 32) + 5, &b).isn);
}

/* Random ISNs succeed about as often as 22 bits predict: 8 in 2^25. The chance of
 * seeing none is e^-8, of more than 30, 1e-9; the seed is fixed. */
static void forging_rate_is_as_computed(void **state)
{
	struct tg_packet ack = tuple(4, 40000, 80, 77);
	struct tg_siphash_key key = tg_epoch_key_derive(secret, 9);
	uint64_t seed = 22, i;
	int hits = 0;

	(void)state;
	for (i = 0; i < 1U << 25; i++) {
		struct tg_cookie guess = {.isn = (uint32_t)tg_splitmix(&seed) | 1U << 31};

		hits += tg_cookie_verify(&ack, guess, false, 9, &key);
	}
	if (hits < 1 || hits > 30)
		fail_msg("%d hits in 2^25", hits);
}

int tg_test_cookie(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(external_known_answers),
		cmocka_unit_test(smartcookie_known_answers),
		cmocka_unit_test(bit_positions),
		cmocka_unit_test(mac_bits),
		cmocka_unit_test(round_trip_everything),
		cmocka_unit_test(mss_tables),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(plus_minus_one_is_refused),
		cmocka_unit_test(epochs_accepted),
		cmocka_unit_test(epochs_2_to_the_32_apart),
		cmocka_unit_test(forging_rate_is_as_computed),
	};

	return cmocka_run_group_tests_name("cookie", tests, NULL, NULL);
}
