/* SPDX-License-Identifier: Apache-2.0
 *
 * Closed ports: what it takes to learn of one, what ends that, and how many SYNs pass.
 */
#include "test.h"
#include "../half_open.h"
#include "../closed_port.h"

#define SECOND_NS 1000000000ULL

static const struct tg_siphash_key key = {.k0 = 1, .k1 = 2};

static struct tg_packet segment(uint8_t flags, uint32_t seq, uint32_t ack)
{
	return (struct tg_packet){.family = 4,
				  .src.w[0] = 0x01020304,
				  .dst.w[0] = 0x05060708,
				  .ports = 0x50001234,
				  .seq = seq,
				  .ack = ack,
				  .tcp_hdr_len = TG_TCP_HDR_LEN,
				  .l4_len = TG_TCP_HDR_LEN,
				  .flags = flags};
}

/* The counter of a SYN that passes; TG_COUNT_NOTHING if it does not pass. */
static enum tg_counter syn(struct tg_closed_entry *e, struct tg_allowance *a, uint32_t isn,
			   uint64_t now)
{
	struct tg_packet p = segment(TG_TCP_SYN, isn, 0);
	struct tg_listener_key at = tg_closed_place(&p, false);
	struct tg_decision d = tg_closed_syn(e, &at, &p, a, now);

	assert_true(d.verdict == TG_PASS || d.counter == TG_COUNT_NOTHING);
	return d.counter;
}

static enum tg_closed_heard hear(struct tg_closed_entry *e, uint8_t flags, uint32_t seq,
				 uint32_t ack, uint64_t now)
{
	struct tg_packet p = segment(flags, seq, ack);
	struct tg_listener_key at = {.addr = p.dst, .port_be = TG_DST_PORT_BE(&p), .family = 4};

	return tg_closed_hear(e, &at, &p, now);
}

static struct tg_closed_entry suspected(uint64_t now)
{
	struct tg_packet p = segment(TG_TCP_SYN, 0, 0);
	struct tg_listener_key at = tg_closed_place(&p, false);
	struct tg_closed_entry e = {0};

	assert_true(tg_closed_suspect(&e, &at, now));
	assert_true(tg_closed_suspect(&e, &at, now)); /* known already */
	at.port_be++;
	assert_false(tg_closed_suspect(&e, &at, now)); /* another has to wait */
	return e;
}

static void learning_takes_a_refusal(void **state)
{
	uint64_t now = 100 * SECOND_NS;
	struct tg_closed_entry e = suspected(now);
	struct tg_allowance a = {0};

	(void)state;
	/* Nothing has been probed, so nothing is an answer. */
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 8, now), TG_CLOSED_NOTHING);
	assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_closed_asked);
	assert_int_equal(syn(&e, &a, 9, now + TG_CLOSED_ASK_EVERY_NS - 1), TG_COUNT_NOTHING);
	/* Resets of other kinds, and the refusal of another SYN. */
	assert_int_equal(hear(&e, TG_TCP_RST, 8, 0, now), TG_CLOSED_NOTHING);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 1, 8, now), TG_CLOSED_NOTHING);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 10, now), TG_CLOSED_NOTHING);
	assert_int_equal(e.state, TG_CLOSED_ASKING);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 8, now), TG_CLOSED_LEARNED);
	assert_int_equal(syn(&e, &a, 11, now), TG_COUNT_pass_closed);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 12, now + SECOND_NS),
			 TG_CLOSED_REFUSES);
	/* It is remembered from the last refusal on. */
	assert_int_equal(syn(&e, &a, 13, now + TG_CLOSED_KEPT_NS), TG_COUNT_pass_closed);
	assert_int_equal(syn(&e, &a, 13, now + SECOND_NS + TG_CLOSED_KEPT_NS), TG_COUNT_NOTHING);
}

static void a_refused_connection_is_a_proof(void **state)
{
	uint64_t now = 100 * SECOND_NS;
	struct tg_packet p = segment(TG_TCP_SYN, 0, 0);
	struct tg_listener_key at = tg_closed_place(&p, false), other = at;
	struct tg_closed_entry e = {0};
	struct tg_allowance a = {0};

	(void)state;
	other.port_be++;
	assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_NOTHING);
	assert_true(tg_closed_refused(&e, &at, now));
	assert_false(tg_closed_refused(&e, &at, now)); /* known */
	assert_false(tg_closed_refused(&e, &other, now)); /* another has to wait */
	assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_pass_closed);
	/* There is a listener again; a refusal soon after changes nothing. */
	assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 4711, 8, now), TG_CLOSED_ACCEPTS);
	assert_false(tg_closed_refused(&e, &at, now));
	assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_NOTHING);
	now += TG_CLOSED_OPEN_NS;
	assert_true(tg_closed_refused(&e, &at, now));
	assert_int_equal(syn(&e, &a, 7, now + TG_CLOSED_KEPT_NS), TG_COUNT_NOTHING);
	assert_true(tg_closed_refused(&e, &other, now + TG_CLOSED_KEPT_NS));
}

static void a_listener_ends_it(void **state)
{
	uint64_t now = 100 * SECOND_NS;
	struct tg_closed_entry e = suspected(now);
	struct tg_allowance a = {0};
	int i;

	(void)state;
	assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_closed_asked);
	assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 4711, 8, now), TG_CLOSED_ACCEPTS);
	/* It is open, and not probed again for a while, whatever is reset there. */
	for (i = 0; i < 29; i++) {
		now += SECOND_NS;
		assert_int_equal(syn(&e, &a, 7, now), TG_COUNT_NOTHING);
		assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 8, now), TG_CLOSED_NOTHING);
		assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 4711, 8, now), TG_CLOSED_NOTHING);
	}
	now += SECOND_NS;
	e = suspected(now);
	/* Closed; two SYNs are in flight when it opens: both are served. */
	syn(&e, &a, 7, now);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 8, now), TG_CLOSED_LEARNED);
	assert_int_equal(syn(&e, &a, 20, now), TG_COUNT_pass_closed);
	assert_int_equal(syn(&e, &a, 30, now), TG_COUNT_pass_closed);
	assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 1, 21, now), TG_CLOSED_ACCEPTS);
	assert_int_equal(syn(&e, &a, 40, now), TG_COUNT_NOTHING);
	assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 1, 31, now), TG_CLOSED_ACCEPTS);
	assert_int_equal(hear(&e, TG_TCP_SYN | TG_TCP_ACK, 1, 41, now), TG_CLOSED_NOTHING);
}

/* A flood of SYNs to a closed port, a million a second for two seconds. */
static void a_flood_passes_within_the_allowance(void **state)
{
	uint64_t begin = 100 * SECOND_NS, now = begin;
	struct tg_closed_entry e = suspected(now);
	struct tg_allowance a = {0};
	uint32_t passed = 0;

	(void)state;
	syn(&e, &a, 7, now);
	assert_int_equal(hear(&e, TG_TCP_RST | TG_TCP_ACK, 0, 8, now), TG_CLOSED_LEARNED);
	for (; now < begin + 2 * SECOND_NS; now += 1000)
		passed += syn(&e, &a, (uint32_t)now, now) == TG_COUNT_pass_closed;
	assert_in_range(passed, 1000, 1051);
}

static void slots_and_flows(void **state)
{
	struct tg_packet p = segment(TG_TCP_SYN, 0, 0);
	struct tg_listener_key at = tg_closed_place(&p, false), back = tg_closed_place(&p, true);
	uint32_t used[TG_CLOSED_SLOTS] = {0}, filled = 0, i;

	(void)state;
	assert_int_equal(at.addr.w[0], p.dst.w[0]);
	assert_int_equal(at.port_be, 0x5000);
	assert_int_equal(back.addr.w[0], p.src.w[0]);
	assert_int_equal(back.port_be, 0x1234);
	for (i = 0; i < TG_CLOSED_SLOTS; i++) {
		at.addr.w[0] = i;
		used[tg_closed_slot(&key, &at)]++;
	}
	for (i = 0; i < TG_CLOSED_SLOTS; i++)
		filled += used[i] != 0;
	assert_in_range(filled, TG_CLOSED_SLOTS * 60 / 100, TG_CLOSED_SLOTS * 67 / 100); /* 1 - 1/e */
	assert_int_not_equal(tg_closed_flow(0, 0), 0);
	assert_int_not_equal(tg_closed_flow(1ULL << 40, 5), tg_closed_flow(1ULL << 40, 9));
}

/* SYNs left to the kernel: a burst of a second's worth, then one per cost; one that is
 * too early does not delay the next. */
static void half_open_rate(void **state)
{
	uint64_t rate, now, next, n, taken;

	(void)state;
	for (rate = 1; rate <= 1000; rate *= 10) {
		uint64_t cost = 1000000000 / rate;

		now = 5000000000000ULL;
		next = 0;
		for (taken = n = 0; n < 3000; n++)
			taken += tg_half_open_take(&next, cost, now);
		assert_int_equal(taken, rate);
		assert_false(tg_half_open_take(&next, cost, now + cost - 1));
		assert_true(tg_half_open_take(&next, cost, now + cost));
		assert_false(tg_half_open_take(&next, cost, now + cost));
		for (taken = n = 0; n < 10 * rate; n++) /* a flood of twice the rate */
			taken += tg_half_open_take(&next, cost, now + cost + (n + 1) * cost / 2);
		assert_int_equal(taken, 5 * rate);
		assert_false(tg_half_open_take(&next, 0, now << 1));
	}
}

int tg_test_closed_port(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_open_rate),
		cmocka_unit_test(learning_takes_a_refusal),
		cmocka_unit_test(a_refused_connection_is_a_proof),
		cmocka_unit_test(a_listener_ends_it),
		cmocka_unit_test(a_flood_passes_within_the_allowance),
		cmocka_unit_test(slots_and_flows),
	};

	return cmocka_run_group_tests_name("closed ports", tests, NULL, NULL);
}
