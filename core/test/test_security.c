/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of SmartCookie, section 7 and appendix A, run against the cookies and the
 * filter: guessing, replay, key recovery by linearity, pollution, probing by TTL. Where
 * an attack must fail, a cookie made by CRC32, as published defences have it, or another
 * canary shows that the test would have noticed.
 */
#include "test.h"
#include "../cookie_smartcookie.h"
#include "../edge.h"

static const uint8_t secret[TG_SECRET_LEN] = {7, 7, 7};

static struct tg_packet random_tuple(uint64_t *seed)
{
	struct tg_packet p = {.family = 4};

	p.src.w[0] = (uint32_t)tg_splitmix(seed);
	p.dst.w[0] = (uint32_t)tg_splitmix(seed);
	p.ports = (uint32_t)tg_splitmix(seed);
	p.seq = (uint32_t)tg_splitmix(seed);
	return p;
}

/* The three kinds of cookie that are attacked, as 32-bit functions of a tuple. */
enum kind { KIND_CRC, KIND_TIDEGATE, KIND_SMART };
static const char *const kind_names[] = {"CRC32", "tidegate", "smartcookie"};
static const uint32_t kind_masks[] = {0xffffffffU, (1U << TG_COOKIE_PLAIN_MAC_BITS) - 1,
				      TG_SMART_HASH_MASK};

static uint32_t crc32(const uint8_t *m, size_t len)
{
	uint32_t crc = 0xffffffffU;
	size_t i;
	int bit;

	for (i = 0; i < len; i++) {
		crc ^= m[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
	}
	return ~crc;
}

/* CRC(m || n): 16 bytes of tuple and ISN, 8 of nonce. */
static uint32_t crc_cookie(const struct tg_packet *p, uint64_t nonce)
{
	uint8_t m[24];

	memcpy(m, &p->src.w[0], 4);
	memcpy(m + 4, &p->dst.w[0], 4);
	memcpy(m + 8, &p->ports, 4);
	memcpy(m + 12, &p->seq, 4);
	memcpy(m + 16, &nonce, 8);
	return crc32(m, sizeof(m));
}

/* The MAC bits of a SYN's cookie. */
static uint32_t oracle(enum kind kind, const struct tg_packet *syn)
{
	static struct tg_siphash_key key;
	static struct tg_halfsiphash_key half;

	if (!key.k0) {
		key = tg_epoch_key_derive(secret, 8);
		half = tg_smart_key_derive(secret, 8);
	}
	switch (kind) {
	case KIND_CRC:
		return crc_cookie(syn, key.k0);
	case KIND_TIDEGATE:
		return tg_cookie_make(syn, 0, false, 8, &key).isn & kind_masks[kind];
	default:
		return tg_smart_make(syn, 0, 8, &half) & kind_masks[kind];
	}
}

static void crc_is_crc32(void **state)
{
	(void)state;
	assert_int_equal(crc32((const uint8_t *)"123456789", 9), 0xcbf43926U); /* the check value */
}

/* Appendix A, equation 2: C(a) ^ C(b) ^ C(c) = C(a ^ b ^ c). Always for CRC; for a MAC
 * with the chance of its bits, which is none in 200,000. */
static void linear_relation(void **state)
{
	enum kind kind;

	(void)state;
	for (kind = KIND_CRC; kind <= KIND_SMART; kind++) {
		uint64_t seed = 1;
		uint32_t i, held = 0;

		for (i = 0; i < 200000; i++) {
			struct tg_packet a = random_tuple(&seed), b = random_tuple(&seed),
					 c = random_tuple(&seed);
			struct tg_packet x = a;

			x.src.w[0] ^= b.src.w[0] ^ c.src.w[0];
			x.dst.w[0] ^= b.dst.w[0] ^ c.dst.w[0];
			x.ports ^= b.ports ^ c.ports;
			x.seq ^= b.seq ^ c.seq;
			held += (oracle(kind, &a) ^ oracle(kind, &b) ^ oracle(kind, &c)) ==
				oracle(kind, &x);
		}
		if (kind == KIND_CRC ? held != i : held > 2)
			fail_msg("%s: the relation held %u times in %u", kind_names[kind], held, i);
	}
}

/* Appendix A, equations 3 and 4: one probe gives CRC(0 || n), and with it the cookie of
 * any tuple. */
static void key_recovery_by_linearity(void **state)
{
	enum kind kind;

	(void)state;
	for (kind = KIND_CRC; kind <= KIND_SMART; kind++) {
		struct tg_packet zero = {.family = 4}, m0;
		uint64_t seed = 2;
		uint32_t learned, i, forged = 0;

		m0 = random_tuple(&seed);
		learned = crc_cookie(&m0, 0) ^ oracle(kind, &m0) ^
			  crc_cookie(&zero, 0); /* CRC(0 || n) */
		for (i = 0; i < 100000; i++) {
			struct tg_packet mx = random_tuple(&seed);
			uint32_t guess = crc_cookie(&mx, 0) ^ learned ^ crc_cookie(&zero, 0);

			forged += ((guess ^ oracle(kind, &mx)) & kind_masks[kind]) == 0;
		}
		if (kind == KIND_CRC ? forged != i : forged > 2)
			fail_msg("%s: %u of %u cookies forged", kind_names[kind], forged, i);
	}
}

/* A blind forger's success, measured on layouts narrowed to 14 bits, where that is possible: 2^22
 * guesses, 256 hits, deviation 16. Six deviations are allowed; a verification that compares
 * one bit less, or always succeeds, is far outside. */
static void luck_of_a_forger(void **state)
{
	const uint32_t narrow = (1U << 14) - 1;
	enum kind kind;

	(void)state;
	for (kind = KIND_TIDEGATE; kind <= KIND_SMART; kind++) {
		uint64_t seed = 3;
		uint32_t i, hits = 0, one_bit_less = 0;

		for (i = 0; i < 1U << 22; i++) {
			struct tg_packet victim = random_tuple(&seed);
			uint32_t diff = oracle(kind, &victim) ^ (uint32_t)tg_splitmix(&seed);

			hits += (diff & narrow) == 0;
			one_bit_less += (diff & (narrow >> 1)) == 0;
		}
		if (hits < 256 - 96 || hits > 256 + 96)
			fail_msg("%s: %u hits, 256 are expected", kind_names[kind], hits);
		assert_true(one_bit_less > 256 + 96); /* the test can fail */
	}
}

/* Smartcookie's 24 bits: all of them count. */
static void smartcookie_every_bit(void **state)
{
	uint64_t seed = 4;
	int bit;

	(void)state;
	for (bit = 0; bit < 32; bit++) {
		struct tg_packet syn = random_tuple(&seed), ack;
		struct tg_halfsiphash_key key = tg_smart_key_derive(secret, 8);
		uint32_t isn = tg_smart_make(&syn, tg_cookie_option_bits(6, 7, false, false), 8,
					     &key);

		ack = syn;
		ack.seq++;
		ack.ack = isn + 1;
		assert_true(tg_smart_verify(&ack, 8, &key));
		ack.ack = (isn ^ 1U << bit) + 1;
		/* MSS and wscale are not hashed, as in the paper */
		assert_int_equal(tg_smart_verify(&ack, 8, &key), bit >= 24 && bit < 31);
	}
}

/* A replay, with the keys and clocks of a fleet: valid for two epochs by the verifier's clock, minus
 * its lead, and never after, for as long as the test runs. */
static void replay(void **state)
{
	const uint64_t len = 8000, ahead = 2000, made_at = 5000 * len + 1234;
	uint64_t epoch = tg_epoch_at(made_at, len), at, seed = 5;
	struct tg_siphash_key key = tg_epoch_key_derive(secret, epoch);
	struct tg_halfsiphash_key half = tg_smart_key_derive(secret, epoch);
	struct tg_packet syn = random_tuple(&seed), ack = syn;
	struct tg_cookie cookie = tg_cookie_make(&syn, 0, false, epoch, &key);
	uint32_t smart = tg_smart_make(&syn, 0, epoch, &half);

	(void)state;
	ack.seq++;
	for (at = made_at - 3 * len; at < made_at + 20 * len; at += 100) {
		bool in_window = at >= 5000 * len - ahead && at < 5002 * len - ahead;
		uint64_t now = tg_epoch_verifying(at, len, ahead),
			 named = tg_cookie_epoch(cookie.isn, now);
		struct tg_siphash_key k = tg_epoch_key_derive(secret, named);
		struct tg_halfsiphash_key h;

		assert_int_equal(tg_cookie_verify(&ack, cookie, false, named, &k), in_window);
		named = tg_cookie_epoch(smart, now);
		h = tg_smart_key_derive(secret, named);
		ack.ack = smart + 1;
		assert_int_equal(tg_smart_verify(&ack, named, &h), in_window);
	}
}

/* Pollution (section 7.2): an attacker who opens many real connections raises the rate of
 * false positives as equation 1 predicts, no more, and only until the generations have
 * rotated. */
static void pollution(void **state)
{
	const uint32_t bits = 16;
	uint64_t *words = calloc(TG_BLOOM_WORDS(bits), 8), seed = 6;
	uint32_t flows = 0, n, i, g;
	struct tg_bloom_key key;

	(void)state;
	assert_non_null(words);
	for (n = 0; n < 2 * TG_BLOOM_KEYS; n++)
		key.k[n / TG_BLOOM_KEYS][n % TG_BLOOM_KEYS] = tg_splitmix(&seed);
	for (i = 0; i < 5; i++) {
		uint32_t hits = 0, probes = 100000;
		double computed, measured;

		for (; flows < 20000U * (i + 1); flows++) {
			struct tg_packet p = random_tuple(&seed);
			struct tg_bloom_at at = tg_bloom_locate(
				tg_bloom_hash(&p, TG_BLOOM_FROM_CLIENT, &key), bits);

			for (n = 0; n < TG_BLOOM_PARTITIONS; n++)
				words[at.word[n]] |= tg_bloom_bit(&at, n, 0);
		}
		for (n = 0; n < probes; n++) {
			struct tg_packet p = random_tuple(&seed);
			struct tg_bloom_at at = tg_bloom_locate(
				tg_bloom_hash(&p, TG_BLOOM_FROM_CLIENT, &key), bits);

			hits += tg_bloom_known(words[at.word[0]], words[at.word[1]],
					       words[at.word[2]], &at) != 0;
		}
		computed = tg_bloom_fp_ppb(flows, bits) / 1e9;
		measured = (double)hits / probes;
		if (measured < computed - 0.01 || measured > computed + 0.01)
			fail_msg("%u flows: measured %.4f, computed %.4f", flows, measured, computed);
	}
	for (g = 0; g < TG_BLOOM_GENERATIONS; g++)
		for (n = 0; n < TG_BLOOM_WORDS(bits); n++)
			words[n] &= ~tg_bloom_plane(g);
	for (n = 0; n < TG_BLOOM_WORDS(bits); n++)
		assert_true(words[n] == 0);
	free(words);
}

/* TTL probing: what an ACK's sender can observe (an ICMP error from behind the edge, or
 * silence) must not depend on whether the filter knows the ACK. Between the edge and the
 * server there are fewer than `hops` hops; hop h sends an error if the packet is forwarded
 * with a TTL of h. */
static void ttl_probing(void **state)
{
	const uint8_t hops = 16;
	int ttl, h, leaks_without = 0;

	(void)state;
	for (ttl = 1; ttl < 256; ttl++)
		for (h = 1; h < hops; h++) {
			bool goes_on = !tg_edge_expires((uint8_t)ttl, hops);
			/* known: it is forwarded with TTL `hops`; unknown: it is dropped silently */
			bool error_if_known = goes_on && hops == h;

			assert_false(error_if_known);
			leaks_without += ttl == h; /* canary: an edge that leaves the TTL alone */
		}
	assert_int_equal(leaks_without, hops - 1);
}

int tg_test_security(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_is_crc32),
		cmocka_unit_test(linear_relation),
		cmocka_unit_test(key_recovery_by_linearity),
		cmocka_unit_test(luck_of_a_forger),
		cmocka_unit_test(smartcookie_every_bit),
		cmocka_unit_test(replay),
		cmocka_unit_test(pollution),
		cmocka_unit_test(ttl_probing),
	};

	return cmocka_run_group_tests_name("security", tests, NULL, NULL);
}
