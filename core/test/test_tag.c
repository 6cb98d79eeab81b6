/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags and confirmations: known answers of an independent writer, every bit that can
 * be wrong, lengths and checksums before and after.
 */
#include "test.h"
#include "../tag.h"
#include "tag_answers.h"

static struct tg_packet ka_packet(const struct tg_ka_tag *ka)
{
	struct tg_packet p = {
		.family = ka->family, .ports = ka->ports, .seq = ka->seq, .ack = ka->ack};

	memcpy(&p.src, ka->src, sizeof(ka->src));
	memcpy(&p.dst, ka->dst, sizeof(ka->dst));
	return p;
}

static void tag_known_answers(void **state)
{
	uint8_t secret[TG_SECRET_LEN];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	for (i = 0; i < sizeof(tg_ka_tags) / sizeof(tg_ka_tags[0]); i++) {
		const struct tg_ka_tag *ka = &tg_ka_tags[i];
		struct tg_siphash_key key = tg_tag_key_derive(secret, ka->epoch);
		struct tg_tag t = {(uint32_t)ka->epoch, ka->edge, ka->what, ka->wscale}, back;
		struct tg_packet p = ka_packet(ka);
		uint32_t words[TG_TAG_WORDS];
		uint64_t mac = 0;
		uint8_t *copy;

		tg_tag_words(words, &t, tg_tag_mac(&p, ka->tsecr, &t, &key));
		assert_memory_equal(words, ka->tag, TG_TAG_LEN);
		copy = tg_test_exact(ka->tag, TG_TAG_LEN);
		assert_int_equal(tg_tag_read(copy, TG_TAG_LEN, copy + TG_TAG_LEN, &back, &mac),
				 TG_TAG_READ);
		assert_memory_equal(&back, &t, sizeof(t));
		assert_true(tg_mac_equal(mac, tg_tag_mac(&p, ka->tsecr, &back, &key)));
		free(copy);
	}
	for (i = 0; i < sizeof(tg_ka_confirms) / sizeof(tg_ka_confirms[0]); i++) {
		const struct tg_ka_confirm *ka = &tg_ka_confirms[i];
		struct tg_siphash_key key = tg_confirm_key_derive(secret, ka->epoch);
		struct tg_siphash_key other = tg_tag_key_derive(secret, ka->epoch);
		struct tg_confirm c = {.ports = ka->ports,
				       .epoch = (uint32_t)ka->epoch,
				       .edge = ka->edge,
				       .family = ka->family},
				  back = {0};
		uint8_t out[TG_CONFIRM_LEN], *copy;
		uint64_t mac = 0;

		memcpy(&c.client, ka->client, 16);
		memcpy(&c.server, ka->server, 16);
		tg_confirm_write(out, &c, tg_confirm_mac(&c, &key));
		assert_memory_equal(out, ka->bytes, TG_CONFIRM_LEN);
		copy = tg_test_exact(ka->bytes, TG_CONFIRM_LEN);
		copy[8] ^= 0xff; /* scratch may hold anything */
		copy[9] ^= 0xff;
		assert_int_equal(
			tg_confirm_read(copy, TG_CONFIRM_LEN, copy + TG_CONFIRM_LEN, &back, &mac),
			TG_TAG_READ);
		assert_memory_equal(&back, &c, sizeof(c));
		assert_true(tg_mac_equal(mac, tg_confirm_mac(&back, &key)));
		assert_false(tg_mac_equal(mac, tg_confirm_mac(&back, &other)));
		copy[2] = 1 << 4 | TG_TAG_CONFIRM; /* the version that had the key of tags */
		assert_int_equal(
			tg_confirm_read(copy, TG_CONFIRM_LEN, copy + TG_CONFIRM_LEN, &back, &mac),
			TG_TAG_FOREIGN);
		free(copy);
	}
}

/* Every bit of a tag and of what its MAC covers matters. */
static void tag_every_bit(void **state)
{
	const struct tg_ka_tag *ka = &tg_ka_tags[0];
	struct tg_siphash_key key = {1, 2};
	struct tg_tag t = {(uint32_t)ka->epoch, ka->edge, ka->what, ka->wscale};
	struct tg_packet p = ka_packet(ka);
	uint32_t words[TG_TAG_WORDS], i;
	uint64_t right = tg_tag_mac(&p, ka->tsecr, &t, &key);

	(void)state;
	tg_tag_words(words, &t, right);
	for (i = 0; i < 8 * TG_TAG_LEN; i++) {
		uint8_t bytes[TG_TAG_LEN];
		struct tg_tag back = {0};
		uint64_t mac = 0;

		memcpy(bytes, words, sizeof(bytes));
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(tg_tag_read(bytes, TG_TAG_LEN, bytes + TG_TAG_LEN, &back, &mac) ==
				     TG_TAG_READ &&
			     tg_mac_equal(mac, tg_tag_mac(&p, ka->tsecr, &back, &key)));
	}
	for (i = 0; i < 32; i++) {
		struct tg_packet q[5] = {p, p, p, p, p};
		int k;

		q[0].src.w[0] ^= 1U << i;
		q[1].dst.w[0] ^= 1U << i;
		q[2].ports ^= 1U << i;
		q[3].seq ^= 1U << i;
		q[4].ack ^= 1U << i;
		for (k = 0; k < 5; k++)
			assert_false(tg_mac_equal(right, tg_tag_mac(&q[k], ka->tsecr, &t, &key)));
		assert_false(tg_mac_equal(right, tg_tag_mac(&p, ka->tsecr ^ 1U << i, &t, &key)));
	}
}

/* Cut anywhere, a tag is not read, and nothing is read behind its end. */
static void tag_cut(void **state)
{
	uint32_t len;

	(void)state;
	for (len = 0; len < TG_TAG_LEN; len++) {
		uint8_t *copy = tg_test_exact(tg_ka_tags[0].tag, len);
		enum tg_tag_result r;
		struct tg_tag t;
		uint64_t mac;

		r = tg_tag_read(copy, TG_TAG_LEN, copy + len, &t, &mac);
		assert_int_equal(r, len < 4 ? TG_TAG_NONE : TG_TAG_CUT);
		r = tg_tag_read(tg_ka_tags[0].tag, len, tg_ka_tags[0].tag + TG_TAG_LEN, &t, &mac);
		assert_int_equal(r, len < 4 ? TG_TAG_NONE : TG_TAG_CUT);
		free(copy);
	}
	for (len = 0; len < TG_CONFIRM_LEN; len++) {
		uint8_t *copy = tg_test_exact(tg_ka_confirms[0].bytes, len);
		struct tg_confirm c = {0};
		uint64_t mac;

		assert_int_not_equal(tg_confirm_read(copy, len, copy + len, &c, &mac), TG_TAG_READ);
		free(copy);
	}
}

static void tag_epochs(void **state)
{
	uint64_t n;

	(void)state;
	assert_true(tg_tag_epoch(100, 100, &n) && n == 100);
	assert_true(tg_tag_epoch(99, 100, &n) && n == 99);
	assert_true(tg_tag_epoch(101, 100, &n) && n == 101);
	assert_false(tg_tag_epoch(98, 100, &n));
	assert_false(tg_tag_epoch(102, 100, &n));
	assert_true(tg_tag_epoch(0xffffffffU, 1ULL << 32, &n) && n == 0xffffffffU);
	assert_true(tg_tag_epoch(0, 0xffffffffU, &n) && n == 1ULL << 32);
}

static uint16_t sum_be(const uint8_t *p, uint32_t len, uint32_t sum)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Put on and taken off again, whatever the data and the checksum's residue: in
 * between lengths and checksums are right, afterwards every byte is as before. */
static void tag_fix_there_and_back(void **state)
{
	uint64_t seed = 7;
	uint32_t round;

	(void)state;
	for (round = 0; round < 20000; round++) {
		uint8_t family = round & 1 ? 4 : 6;
		uint32_t ip_len = family == 4 ? 20 : 40, data_len = tg_splitmix(&seed) % 9;
		uint32_t opt_len = 4 * (tg_splitmix(&seed) % 6), l4 = 20 + opt_len + data_len, i;
		uint8_t before[120], with[120], after[120];
		uint32_t words[TG_TAG_WORDS], pseudo;
		uint16_t sum;

		for (i = 0; i < sizeof(before); i++)
			before[i] = (uint8_t)tg_splitmix(&seed);
		for (i = 0; i < TG_TAG_WORDS; i++)
			words[i] = (uint32_t)tg_splitmix(&seed);
		before[0] = family == 4 ? 0x45 : 0x60;
		before[family == 4 ? 2 : 4] = 0;
		before[family == 4 ? 3 : 5] = (uint8_t)((family == 4 ? ip_len : 0) + l4);
		before[ip_len + 12] = (uint8_t)((20 + opt_len) / 4 << 4 | (before[ip_len + 12] & 15));
		if (family == 4) {
			before[10] = before[11] = 0;
			sum = (uint16_t)~sum_be(before, 20, 0);
			before[10] = (uint8_t)(sum >> 8);
			before[11] = (uint8_t)sum;
		}
		before[ip_len + 16] = before[ip_len + 17] = 0;
		pseudo = sum_be(before + (family == 4 ? 12 : 8), family == 4 ? 8 : 32, 6 + l4);
		sum = (uint16_t)~sum_be(before + ip_len, l4, pseudo);
		before[ip_len + 16] = (uint8_t)(sum >> 8);
		before[ip_len + 17] = (uint8_t)sum;

		memcpy(with, before, ip_len + 20);
		memcpy(with + ip_len + 20, words, TG_TAG_LEN);
		memcpy(with + ip_len + 20 + TG_TAG_LEN, before + ip_len + 20, l4 - 20);
		assert_true(tg_tag_fix(with, with + ip_len, family, words, true, l4));
		if (family == 4)
			assert_int_equal(sum_be(with, 20, 0), 0xffff);
		pseudo = sum_be(with + (family == 4 ? 12 : 8), family == 4 ? 8 : 32,
				6 + l4 + TG_TAG_LEN);
		assert_int_equal(sum_be(with + ip_len, l4 + TG_TAG_LEN, pseudo), 0xffff);
		assert_int_equal(with[family == 4 ? 3 : 5], before[family == 4 ? 3 : 5] + TG_TAG_LEN);

		memcpy(after, with, ip_len + 20);
		memcpy(after + ip_len + 20, with + ip_len + 20 + TG_TAG_LEN, l4 - 20);
		assert_true(tg_tag_fix(after, after + ip_len, family, words, false, l4 + TG_TAG_LEN));
		assert_memory_equal(after, before, ip_len + l4);
		if (family == 6) { /* a length that is not said stays so */
			with[4] = with[5] = after[4] = after[5] = 0;
			assert_true(tg_tag_fix(after, after + ip_len, family, words, true, l4));
			assert_memory_equal(after, with, ip_len + 20);
			assert_true(tg_tag_fix(after, after + ip_len, family, words, false,
					       l4 + TG_TAG_LEN));
			assert_int_equal(after[5], 0);
			assert_memory_equal(after + ip_len, before + ip_len, 20);
		}
	}
}

static void tag_fix_refuses(void **state)
{
	uint8_t ip[40] = {0x45, 0, 0xff, 0xf0}, tcp[20] = {[12] = 0x50}, was[40];
	uint32_t words[TG_TAG_WORDS] = {0};

	(void)state;
	memcpy(was, ip, sizeof(ip));
	assert_false(tg_tag_fix(ip, tcp, 4, words, true, 0xffdc)); /* longer than 65,535 */
	ip[2] = 0;
	tcp[12] = 0xb0; /* 24 bytes of options */
	assert_false(tg_tag_fix(ip, tcp, 4, words, true, 100));
	tcp[12] = 0x90; /* 16: no room in there for a tag */
	assert_false(tg_tag_fix(ip, tcp, 4, words, false, 100));
}

int tg_test_tag(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tag_known_answers),
		cmocka_unit_test(tag_every_bit),
		cmocka_unit_test(tag_cut),
		cmocka_unit_test(tag_epochs),
		cmocka_unit_test(tag_fix_there_and_back),
		cmocka_unit_test(tag_fix_refuses),
	};

	return cmocka_run_group_tests_name("tags", tests, NULL, NULL);
}
