/* SPDX-License-Identifier: Apache-2.0
 *
 * core/server_flow.h and its table: the state machine of a translated connection.
 */
#include "test.h"
#include "../server_flow.h"

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
int tg_test_server_flow(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_listen),
		cmocka_unit_test(server_syn_sent),
		cmocka_unit_test(server_ongoing),
		cmocka_unit_test(server_begun_anew),
		cmocka_unit_test(server_refused_and_older),
		cmocka_unit_test(server_adopted_after_all),
		cmocka_unit_test(split_hash),
	};

	return cmocka_run_group_tests_name("server flows", tests, NULL, NULL);
}
