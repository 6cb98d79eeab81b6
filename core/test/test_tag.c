/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags and confirmations: known answers of an independent writer, every bit that can
 * be wrong, lengths and checksums before and after. And the server's state machine.
 */
#include "test.h"
#include "../server_flow.h"
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

/* ---- the state machine ---- */

static struct tg_packet client_ack(void)
{
	struct tg_packet p = {.family = 4,
			      .ports = 0x50001234,
			      .seq = 1001,
			      .ack = 5001,
			      .tcp_hdr_len = 32,
			      .l4_len = 32,
			      .flags = TG_TCP_ACK};

	p.src.w[0] = 0x01020304;
	p.dst.w[0] = 0x05060708;
	return p;
}

static void server_listen(void **state)
{
	struct tg_packet p = client_ack();

	(void)state;
	assert_int_equal(tg_server_judge(&p, NULL, TG_TAG_SETUP).step, TG_SERVER_OPEN);
	assert_int_equal(tg_server_judge(&p, NULL, TG_TAG_PROBE).step, TG_SERVER_DROP);
	assert_int_equal(tg_server_judge(&p, NULL, 0).step, TG_SERVER_CHECK);
	p.flags = TG_TCP_RST;
	assert_int_equal(tg_server_judge(&p, NULL, 0).step, TG_SERVER_DROP);
	assert_int_equal(tg_server_judge(&p, NULL, TG_TAG_SETUP).step, TG_SERVER_DROP);
	p.flags = TG_TCP_SYN;
	assert_int_equal(tg_server_judge(&p, NULL, 0).step, TG_SERVER_PASS);
	p.flags = TG_TCP_FIN;
	assert_int_equal(tg_server_judge(&p, NULL, 0).step, TG_SERVER_DROP);
}

static struct tg_split open_one(struct tg_packet *p)
{
	uint32_t bits = tg_cookie_option_bits(1437, 7, true, false);
	struct tg_ack ack_info = {
		.cookie = {.isn = 5000, .tsval = bits << TG_COOKIE_TS_VAL_MAC_BITS | 77},
		.tsval = 333,
		.ts_ok = true};

	*p = client_ack();
	return tg_split_open(p, &ack_info, tg_cookie_claimed_bits(ack_info.cookie, ack_info.ts_ok),
			     5, 501, 9, 40);
}

static void server_syn_sent(void **state)
{
	struct tg_packet p, q;
	struct tg_split e = open_one(&p);
	struct tg_flow f = tg_split_flow(&e);
	struct tg_segment syn = tg_flow_syn(&p, &f, f.client_isn, false);

	(void)state;
	e.hash = 5;
	assert_int_equal(syn.seq, 1000);
	assert_int_equal(syn.flags, TG_TCP_SYN);
	assert_int_equal(syn.options.mss, 1437);
	assert_int_equal(syn.options.wscale, 7);
	assert_true(syn.options.sack_ok && syn.options.ts_ok);
	assert_int_equal(syn.options.tsval, 333);
	assert_int_equal(f.advertised_wscale, 5);
	assert_int_equal(tg_split_cookie_isn(&e), 5000);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_SETUP).step, TG_SERVER_WAIT);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_PROBE).step, TG_SERVER_WAIT);
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_WAIT);
	q = p;
	q.ack = 9999; /* the port is reused, the edge has verified that */
	assert_int_equal(tg_server_judge(&q, &e, TG_TAG_SETUP).step, TG_SERVER_OPEN);
	assert_int_equal(tg_server_judge(&q, &e, 0).step, TG_SERVER_CHECK);
	assert_int_equal(tg_server_judge(&q, &e, TG_TAG_PROBE).step, TG_SERVER_DROP);
	q = p;
	q.flags = TG_TCP_RST;
	assert_int_equal(tg_server_judge(&q, &e, 0).step, TG_SERVER_FORGET);
	q.seq += 0xffff; /* behind data */
	assert_int_equal(tg_server_judge(&q, &e, 0).step, TG_SERVER_FORGET);
	q.seq++;
	assert_int_equal(tg_server_judge(&q, &e, 0).step, TG_SERVER_DROP);
	q.seq = p.seq - 1;
	assert_int_equal(tg_server_judge(&q, &e, 0).step, TG_SERVER_DROP);
	assert_int_equal(tg_split_room(&e, 40 + TG_SPLIT_SETUP_TICKS, 1000), TG_SPLIT_TAKEN);
	assert_int_equal(tg_split_room(&e, 41 + TG_SPLIT_SETUP_TICKS, 1000), TG_SPLIT_AGED);
}

/* The stack's SYN-ACK settles the difference; nothing after it changes it. */
static void server_ongoing(void **state)
{
	struct tg_packet p, answer = {.family = 4,
				      .seq = 70000,
				      .ack = 1001,
				      .flags = TG_TCP_SYN | TG_TCP_ACK,
				      .tcp_hdr_len = 40,
				      .l4_len = 40};
	struct tg_tcp_options o = {.wscale = 9, .ts_ok = true, .tsval = 100000, .tsecr = 333};
	struct tg_split e = open_one(&p);
	struct tg_flow f = tg_split_flow(&e);
	uint32_t cookie_tsval = e.ts_delta;

	(void)state;
	e.hash = 5;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_READY);
	tg_flow_ready(&f, &answer, &o, 0);
	tg_split_settle(&e, &f);
	assert_int_equal(e.seq_delta, 65000);
	assert_int_equal(e.ts_delta, 100000 - cookie_tsval);
	assert_int_equal(tg_split_cookie_isn(&e), 5000);
	assert_int_equal(tg_split_flow(&e).window_down, 9 - 5);
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_REACK);
	answer.seq = 80000; /* a stack that has answered a second SYN with a cookie of its own */
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_ABSORB);
	answer.ack = 4711; /* it shakes hands with the client itself */
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_FOREIGN);
	answer.flags = TG_TCP_ACK;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_TRANSLATE);
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_TRANSLATE);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_SETUP).step, TG_SERVER_TRANSLATE);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_PROBE).step, TG_SERVER_TRANSLATE);
	assert_int_equal(tg_split_room(&e, 1040, 1000), TG_SPLIT_TAKEN);
	assert_int_equal(tg_split_room(&e, 1041, 1000), TG_SPLIT_AGED);
	e.state |= TG_FLOW_CLOSED;
	assert_int_equal(tg_split_room(&e, 41, 1000), TG_SPLIT_ENDED);
	p.ack = 6001; /* late data, or the port reused: the cookie tells */
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_CHECK);
	assert_int_equal(tg_server_judge(&p, &e, 0).otherwise, TG_SERVER_TRANSLATE);
}

/* A client that starts over is known by what it acknowledges; then its cookie decides. */
static void server_begun_anew(void **state)
{
	struct tg_packet p;
	struct tg_split e = open_one(&p);
	struct tg_flow f = tg_split_flow(&e);
	struct tg_packet synack = {.family = 4, .seq = 70000, .ack = 1001};
	struct tg_tcp_options o = {.wscale = 9, .ts_ok = true, .tsval = 100000, .tsecr = 333};
	static const uint32_t steps[] = {1, 30000, 65535, 65536, 65536, 1000};
	uint32_t i;

	(void)state;
	tg_flow_ready(&f, &synack, &o, 0);
	tg_split_settle(&e, &f);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) { /* it acknowledges data: near */
		p.ack += steps[i];
		assert_false(tg_split_ack_jumps(&e, &p));
		assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_TRANSLATE);
		tg_split_acked(&e, &p);
	}
	p.ack -= 65536; /* overtaken on its way */
	assert_false(tg_split_ack_jumps(&e, &p));
	for (i = 2; i < 0xffff; i++) { /* any other cookie */
		p.ack = ((uint32_t)(e.acked + i) << 16) | (i * 77 & 0xffff);
		assert_true(tg_split_ack_jumps(&e, &p));
	}
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_CHECK);
	assert_int_equal(tg_server_judge(&p, &e, 0).otherwise, TG_SERVER_TRANSLATE);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_PROBE).step, TG_SERVER_TRANSLATE);
	assert_int_equal(tg_server_judge(&p, &e, TG_TAG_SETUP).step, TG_SERVER_OPEN);
	p.flags = TG_TCP_RST; /* no handshake ends with one */
	assert_false(tg_split_ack_jumps(&e, &p));
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_TRANSLATE);
	/* A cookie of few bits ends nothing that lives, not even half of it. */
	assert_true(tg_split_gives_way(&e, true));
	assert_false(tg_split_gives_way(&e, false));
	e.state |= TG_FLOW_CLIENT_FIN;
	assert_false(tg_split_gives_way(&e, false));
	e.state |= TG_FLOW_SERVER_FIN;
	assert_true(tg_split_gives_way(&e, false));
}

static void server_refused_and_older(void **state)
{
	struct tg_packet p, answer = {.family = 4, .ack = 1001, .flags = TG_TCP_RST | TG_TCP_ACK};
	struct tg_split e = open_one(&p);

	(void)state;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_REFUSED);
	answer.ack = 5;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_ABSORB);
	answer.flags = TG_TCP_ACK;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_OLDER);
	e.state |= TG_SPLIT_RESET_OLDER; /* once only: two stacks that disagree must not go on for ever */
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_ABSORB);
	p.flags = TG_TCP_RST;
	p.seq = 4;
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_DROP);
	e.state |= TG_SPLIT_RESET_PASSES;
	assert_int_equal(tg_server_judge(&p, &e, 0).step, TG_SERVER_PASS);
}

/* An adoption that was given up, and was only slow: the stack has a socket with the cookie's numbers. */
static void server_adopted_after_all(void **state)
{
	struct tg_packet p, answer = {.family = 4, .seq = 5001, .ack = 1001, .flags = TG_TCP_ACK};
	struct tg_split e = open_one(&p);
	struct tg_packet other;

	(void)state;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_FOREIGN); /* a challenge ACK */
	answer.seq += 0xffff; /* data, and the client's has arrived */
	answer.ack += 0xffff;
	answer.flags = TG_TCP_ACK | TG_TCP_FIN;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_FOREIGN);
	answer.flags = TG_TCP_ACK | TG_TCP_RST;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_FOREIGN);
	answer.flags = TG_TCP_ACK;
	e.state |= TG_SPLIT_RESET_OLDER;
	assert_int_equal(tg_server_judge_answer(&answer, &e), TG_ANSWER_FOREIGN);
	/* Not a SYN-ACK, nor any other numbers. */
	other = answer;
	other.flags = TG_TCP_ACK | TG_TCP_SYN;
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_ABSORB);
	other = answer;
	other.seq++;
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_ABSORB);
	other.seq = 5000;
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_ABSORB);
	other = answer;
	other.ack++;
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_ABSORB);
	other.ack = 1000;
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_ABSORB);
	other.ack = 1001;
	other.flags = TG_TCP_RST | TG_TCP_ACK; /* of our SYN */
	assert_int_equal(tg_server_judge_answer(&other, &e), TG_ANSWER_REFUSED);
}

/* Hashes spread over buckets, and both directions of a connection have one. */
static void split_hash(void **state)
{
	uint64_t keys[TG_FILTER_KEYS], seed = 3;
	uint32_t load[256] = {0}, i, worst = 0;

	(void)state;
	for (i = 0; i < TG_FILTER_KEYS; i++)
		keys[i] = tg_splitmix(&seed);
	for (i = 0; i < 64 * 256; i++) {
		struct tg_packet p = {.family = i & 1 ? 4 : 6, .ports = 0x50000000 | i}, q;
		uint64_t h;

		p.src.w[0] = 0x0100000a + (i >> 12 << 24);
		p.dst.w[0] = 0x0200000a;
		q = p;
		q.src = p.dst;
		q.dst = p.src;
		q.ports = p.ports << 16 | p.ports >> 16;
		h = tg_split_hash(keys, &p, TG_TO_SERVER);
		assert_true(h > TG_SPLIT_BUSY);
		assert_true(h == tg_split_hash(keys, &q, TG_TO_CLIENT));
		load[tg_split_bucket_at(h, 255, i >> 1 & 1)]++;
	}
	for (i = 0; i < 256; i++)
		worst = load[i] > worst ? load[i] : worst;
	assert_true(worst < 64 + 6 * 8); /* six standard deviations */
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
		cmocka_unit_test(server_listen),
		cmocka_unit_test(server_syn_sent),
		cmocka_unit_test(server_ongoing),
		cmocka_unit_test(server_begun_anew),
		cmocka_unit_test(server_refused_and_older),
		cmocka_unit_test(server_adopted_after_all),
		cmocka_unit_test(split_hash),
	};

	return cmocka_run_group_tests_name("tags and server flows", tests, NULL, NULL);
}
