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
	return (struct tg_split){.hash = 5,
				 .client_window = 0x1234,
				 .edge = 9,
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
	assert_true(e.state & TG_FLOW_RESET && e.state & TG_FLOW_CLOSED &&
		    e.state & TG_FLOW_SERVER_FIN);
}

/* The confirmation that is due and the end of the connection do not write over each other. */
static void bits_of_others_stay(void **state)
{
	struct tg_split e = ongoing(0);

	(void)state;
	tg_split_set(&e, TG_SPLIT_CONFIRM);
	both(&e, TG_TCP_FIN | TG_TCP_ACK, TG_TO_SERVER, TG_TCP_ACK);
	assert_int_equal(e.state,
			 TG_SPLIT_READY | TG_FLOW_TS | TG_FLOW_CLIENT_FIN | TG_SPLIT_CONFIRM);
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

/* ---- a full table ---- */

static const uint64_t source_a = 3ULL << 48 | 77, source_b = 4ULL << 48 | 78;
static const uint64_t source_v6 = 0x8003ULL << 48 | 79;

static struct tg_split taken(uint64_t hash, uint8_t state, uint16_t seen)
{
	return (struct tg_split){.hash = hash, .seen_tick = seen, .state = TG_SPLIT_READY | state};
}

static struct tg_split lasting(uint64_t hash, uint8_t state, uint16_t seen)
{
	struct tg_split e = taken(hash, TG_SPLIT_CARRIED | state, seen);

	e.window[0] = 7 | TG_SPLIT_LASTING;
	return e;
}

static void who_gives_way(void **state)
{
	struct tg_split_newcomer n = {.hash = source_b, .held = 0, .floor = 8, .now_tick = 100};
	struct tg_split live = lasting(source_a, 0, 99), older = lasting(source_a, 0, 98);
	struct tg_split silent = taken(source_a, 0, 99), setup = taken(source_a, 0, 99);
	struct tg_split half = lasting(source_a, TG_FLOW_SERVER_FIN, 98);
	struct tg_split six = lasting(source_v6, 0, 99), busy = taken(TG_SPLIT_BUSY, 0, 0);

	(void)state;
	setup.state = TG_SPLIT_FRESH;
	/* Within its share a source keeps what lives; what is idle goes, the quietest first. */
	assert_int_equal(tg_split_claim(&live, 8, &n), 0);
	assert_true(tg_split_claim(&silent, 8, &n) && tg_split_claim(&setup, 8, &n));
	assert_true(tg_split_claim(&half, 8, &n) > tg_split_claim(&silent, 8, &n));
	half.seen_tick = 99; /* it is still in use */
	assert_int_equal(tg_split_claim(&half, 8, &n), 0);
	/* Above it, the largest first, then what is idle, then what was not seen longest. */
	assert_true(tg_split_claim(&live, 9, &n) > tg_split_claim(&silent, 8, &n));
	assert_true(tg_split_claim(&live, 10, &n) > tg_split_claim(&older, 9, &n));
	assert_true(tg_split_claim(&older, 9, &n) > tg_split_claim(&live, 9, &n));
	assert_true(tg_split_claim(&silent, 9, &n) > tg_split_claim(&older, 9, &n));
	assert_true(tg_split_claim(&live, 1000000, &n) >= tg_split_claim(&live, 9000, &n));
	/* A source that holds as much itself displaces only its own. */
	n.held = 9;
	assert_int_equal(tg_split_claim(&live, 18, &n), 0);
	assert_int_equal(tg_split_claim(&silent, 18, &n), 0);
	n.hash = source_a + 1;
	assert_true(tg_split_claim(&silent, 9, &n));
	/* The other family gives way to one that has little. */
	n = (struct tg_split_newcomer){.hash = source_b, .floor = 8, .now_tick = 100};
	assert_int_equal(tg_split_claim(&six, 1, &n), 0);
	n.few = true;
	assert_true(tg_split_claim(&six, 1, &n));
	assert_int_equal(tg_split_claim(&live, 1, &n), 0);
	assert_true(tg_split_claim(&silent, 1, &n) > tg_split_claim(&six, 1, &n));
	assert_int_equal(tg_split_claim(&busy, 1000, &n), 0);
}

/* Sources within their shares, every connection with data: what has only said a word gives
 * way before what has lasted, and that only when its client is quiet. */
static void who_has_lasted_stays(void **state)
{
	struct tg_split_newcomer n = {.hash = source_b, .held = 1, .floor = 8, .now_tick = 100};
	struct tg_split word = taken(source_a, TG_SPLIT_CARRIED, 100),
			silent = taken(source_a, 0, 99);
	struct tg_split live = lasting(source_a, 0, 99), quiet = lasting(source_a, 0, 98);

	(void)state;
	assert_int_equal(tg_split_claim(&live, 1, &n), 0);
	assert_true(tg_split_claim(&quiet, 1, &n));
	assert_true(tg_split_claim(&word, 1, &n) > tg_split_claim(&quiet, 1, &n));
	assert_true(tg_split_claim(&silent, 1, &n) > tg_split_claim(&word, 1, &n));
	silent.seen_tick = 100; /* it has come only now, and had no time yet */
	assert_true(tg_split_claim(&silent, 1, &n) == tg_split_claim(&word, 1, &n));
	n.held = 9; /* above its share: it displaces only its own */
	assert_int_equal(tg_split_claim(&word, 1, &n), 0);
	n.now_tick = 65535; /* ticks wrap */
	quiet.seen_tick = (uint16_t)(n.now_tick + 1);
	n.held = 1;
	assert_true(tg_split_claim(&quiet, 1, &n));
}

/* Only the client's segments say that a connection lasts, and only in another tick than the
 * first that carried something. */
static void heard(void **state)
{
	struct tg_split e = {.hash = 5,
			     .server_isn = 7000,
			     .seq_delta = 2000,
			     .seen_tick = 50,
			     .window = {14, -3},
			     .edge = 9,
			     .state = TG_SPLIT_READY};
	struct tg_packet p = segment(TG_TCP_ACK);

	(void)state;
	p.ack = 5001;
	tg_split_heard(&e, &p, 53); /* nothing in it */
	assert_int_equal(e.seen_tick, 53);
	assert_int_equal(tg_split_class(&e, 0), TG_SPLIT_BRIEF);
	assert_int_equal(tg_split_class(&e, 1), TG_SPLIT_IDLE);
	p.ack = 5002;
	tg_split_heard(&e, &p, 53);
	tg_split_heard(&e, &p, 53);
	assert_int_equal(tg_split_class(&e, 0), TG_SPLIT_BRIEF);
	tg_split_heard(&e, &p, 54);
	assert_int_equal(tg_split_class(&e, 0), TG_SPLIT_KEEPS);
	assert_int_equal(tg_split_class(&e, 2), TG_SPLIT_QUIET);
	assert_int_equal(e.seen_tick, 54);
	assert_int_equal(tg_split_flow(&e).window_up, 14);
	assert_int_equal(tg_split_flow(&e).window_down, -3);
	assert_int_equal(e.edge, 9);
}

/* Sources are told apart by address, or /56, and by family. */
static void sources(void **state)
{
	uint64_t keys[TG_FILTER_KEYS], seed = 5, h;
	struct tg_packet p = {.family = 6, .ports = 0x50001234}, q;
	uint32_t i, same = 0;

	(void)state;
	for (i = 0; i < TG_FILTER_KEYS; i++)
		keys[i] = tg_splitmix(&seed);
	p.src.w[0] = 0xb80d0120;
	h = tg_split_hash(keys, &p, TG_TO_SERVER);
	assert_true(tg_split_is_v6(h));
	q = p;
	q.src.w[1] = 0xff000000; /* the eighth byte and what follows */
	q.src.w[3] = 0x12345678;
	q.ports++;
	assert_int_equal(tg_split_source(tg_split_hash(keys, &q, TG_TO_SERVER)), tg_split_source(h));
	assert_true(tg_split_hash(keys, &q, TG_TO_SERVER) != h);
	for (i = 1; i < 65536; i++) {
		q.src.w[1] = i; /* other /56s */
		same += tg_split_source(tg_split_hash(keys, &q, TG_TO_SERVER)) == tg_split_source(h);
	}
	assert_true(same < 15); /* two are to be expected */
	q.family = 4;
	h = tg_split_hash(keys, &q, TG_TO_SERVER);
	assert_false(tg_split_is_v6(h));
	assert_int_equal(tg_split_family(h), TG_SPLIT_SOURCES);
}

/* Carried is what has data of the client, or what the client acknowledges. */
static void carries(void **state)
{
	struct tg_split e = {.server_isn = 7000, .seq_delta = 2000, .state = TG_SPLIT_READY};
	struct tg_packet p = segment(TG_TCP_ACK);

	(void)state;
	p.ack = 5001;
	assert_false(tg_split_carries(&e, &p));
	p.ack = 5002;
	assert_true(tg_split_carries(&e, &p));
	p.ack = 5001;
	p.l4_len++;
	assert_true(tg_split_carries(&e, &p));
	e.state |= TG_SPLIT_CARRIED;
	assert_false(tg_split_carries(&e, &p));
}

int tg_test_split(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fins_at_the_same_time),
		cmocka_unit_test(fin_and_ack_at_the_same_time),
		cmocka_unit_test(bits_of_others_stay),
		cmocka_unit_test(entry_has_a_new_owner),
		cmocka_unit_test(who_gives_way),
		cmocka_unit_test(who_has_lasted_stays),
		cmocka_unit_test(heard),
		cmocka_unit_test(sources),
		cmocka_unit_test(carries),
	};

	return cmocka_run_group_tests_name("server flows on two CPUs", tests, NULL, NULL);
}
