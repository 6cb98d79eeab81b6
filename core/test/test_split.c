/* SPDX-License-Identifier: Apache-2.0
 *
 * core/server_flow.h: segments of both directions at the same time, deterministically: the
 * test does what the other CPU does between a look at an entry's state and the write.
 */
#include "test.h"

static uint32_t between(uint32_t *at, uint32_t was, uint32_t is);
#define TG_SPLIT_SWAP between
#include "../server_flow.h"

static struct {
	struct tg_split *e;
	struct tg_packet pkt;
	enum tg_direction dir;
	uint32_t times; /* that the other CPU comes in between */
	uint8_t becomes; /* if not 0: the state of the connection that the entry has become */
	enum tg_flow_turn turn;
} other;

static uint32_t between(uint32_t *at, uint32_t was, uint32_t is)
{
	if (other.times) {
		other.times--;
		if (other.becomes)
			other.e->state = other.becomes;
		else
			other.turn = tg_split_track(other.e, &other.pkt, other.dir);
	}
	return __sync_val_compare_and_swap(at, was, is);
}

static struct tg_packet segment(uint8_t flags)
{
	return (struct tg_packet){.family = 4, .flags = flags, .tcp_hdr_len = 20, .l4_len = 20};
}

static struct tg_split ongoing(uint8_t flags)
{
	return (struct tg_split){.hash = 5, .client_window = 0x1234, .edge = 9,
				 .state = TG_SPLIT_READY | TG_FLOW_TS | flags};
}

/* A segment of one side, and in the middle of it one of the other. */
static enum tg_flow_turn both(struct tg_split *e, uint8_t flags, enum tg_direction dir,
			      uint8_t other_flags)
{
	struct tg_packet pkt = segment(flags);

	memset(&other, 0, sizeof(other));
	other.e = e;
	other.pkt = segment(other_flags);
	other.dir = dir == TG_TO_SERVER ? TG_TO_CLIENT : TG_TO_SERVER;
	other.times = 1;
	return tg_split_track(e, &pkt, dir);
}

static void fins_at_the_same_time(void **state)
{
	uint8_t fins = TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN;
	struct tg_split e = ongoing(0);
	struct tg_packet ack = segment(TG_TCP_ACK);

	(void)state;
	both(&e, TG_TCP_FIN | TG_TCP_ACK, TG_TO_SERVER, TG_TCP_FIN | TG_TCP_ACK);
	assert_int_equal(e.state, TG_SPLIT_READY | TG_FLOW_TS | fins);
	assert_int_equal(tg_split_track(&e, &ack, TG_TO_SERVER), TG_FLOW_ENDS);
	assert_int_equal(e.state, TG_SPLIT_READY | TG_FLOW_TS | fins | TG_FLOW_CLOSED);
	/* Nothing else of the word is touched. */
	assert_int_equal(e.client_window, 0x1234);
	assert_int_equal(e.edge, 9);
}

/* The client's FIN is noted while the server's passes; then that is not lost, whoever
 * is first, and the end is told once. */
static void fin_and_ack_at_the_same_time(void **state)
{
	struct tg_split e = ongoing(TG_FLOW_CLIENT_FIN);
	enum tg_flow_turn turn;

	(void)state;
	turn = both(&e, TG_TCP_FIN | TG_TCP_ACK, TG_TO_CLIENT, TG_TCP_ACK);
	assert_int_equal(turn, TG_FLOW_STAYS);
	assert_true(e.state & TG_FLOW_SERVER_FIN);
	e = ongoing(TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN);
	turn = both(&e, TG_TCP_ACK, TG_TO_SERVER, TG_TCP_ACK); /* both see the end */
	assert_int_equal(other.turn, TG_FLOW_ENDS);
	assert_int_equal(turn, TG_FLOW_STAYS);
	assert_true(e.state & TG_FLOW_CLOSED);
	e = ongoing(TG_FLOW_CLIENT_FIN);
	both(&e, TG_TCP_RST, TG_TO_SERVER, TG_TCP_FIN | TG_TCP_ACK);
	assert_true(e.state & TG_FLOW_RESET && e.state & TG_FLOW_CLOSED && e.state & TG_FLOW_SERVER_FIN);
}

/* The confirmation that is due and the end of the connection do not write over each other. */
static void bits_of_others_stay(void **state)
{
	struct tg_split e = ongoing(0);

	(void)state;
	tg_split_set(&e, TG_SPLIT_CONFIRM);
	both(&e, TG_TCP_FIN | TG_TCP_ACK, TG_TO_SERVER, TG_TCP_ACK);
	assert_int_equal(e.state, TG_SPLIT_READY | TG_FLOW_TS | TG_FLOW_CLIENT_FIN | TG_SPLIT_CONFIRM);
	tg_split_clear(&e, TG_SPLIT_CONFIRM);
	assert_int_equal(e.state, TG_SPLIT_READY | TG_FLOW_TS | TG_FLOW_CLIENT_FIN);
}

/* The entry has been given to a new connection in between: its set-up is not told of
 * the old one's end (whose bits mean something else there). */
static void entry_has_a_new_owner(void **state)
{
	struct tg_packet fin = segment(TG_TCP_FIN | TG_TCP_ACK);
	struct tg_split e = ongoing(0);

	(void)state;
	memset(&other, 0, sizeof(other));
	other.e = &e;
	other.times = 1;
	other.becomes = TG_SPLIT_FRESH | TG_FLOW_TS;
	assert_int_equal(tg_split_track(&e, &fin, TG_TO_CLIENT), TG_FLOW_STAYS);
	assert_int_equal(e.state, TG_SPLIT_FRESH | TG_FLOW_TS);
}

int tg_test_split(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fins_at_the_same_time), cmocka_unit_test(fin_and_ack_at_the_same_time),
		cmocka_unit_test(bits_of_others_stay), cmocka_unit_test(entry_has_a_new_owner),
	};

	return cmocka_run_group_tests_name("server flows on two CPUs", tests, NULL, NULL);
}
