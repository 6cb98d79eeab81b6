/* SPDX-License-Identifier: Apache-2.0
 *
 * What is recorded about listeners: how many refusals count, for how long, and which frames can be
 * adopted from.
 */
#include "test.h"
#include "../host.h"

#define SECOND_NS 1000000000ULL

static void states(void **state)
{
	struct tg_listener_entry e = {.state = TG_LISTENER_OK};

	(void)state;
	assert_int_equal(tg_listener_at(NULL, 7), TG_LISTENER_NONE);
	assert_int_equal(tg_listener_at(&e, 7), TG_LISTENER_OK);
	e.paused_until_ns = 8;
	assert_int_equal(tg_listener_at(&e, 7), TG_LISTENER_REFUSED);
	assert_int_equal(tg_listener_at(&e, 8), TG_LISTENER_OK);
	e.state = TG_LISTENER_MPTCP;
	assert_int_equal(tg_listener_at(&e, 7), TG_LISTENER_MPTCP);
	assert_true(tg_listener_is(&e, 5));
	e.cookie = 6;
	assert_false(tg_listener_is(&e, 5) || tg_listener_is(&e, 0));
}

/* Refusals of one client, however often; of several, with a success between; in a row. */
static void refusals_that_count(void **state)
{
	struct tg_listener_entry e = {.state = TG_LISTENER_OK};
	uint32_t i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_false(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 1, SECOND_NS));
	assert_int_equal(e.refusals, 1);
	for (i = 0; i < 100; i++) {
		assert_false(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 2 * i, SECOND_NS));
		assert_int_equal(tg_listener_at(&e, SECOND_NS), TG_LISTENER_OK);
		tg_listener_adopted(&e);
	}
	assert_false(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 1, SECOND_NS));
	assert_false(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 2, SECOND_NS));
	assert_true(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 3, SECOND_NS));
	assert_int_equal(tg_listener_at(&e, 2 * SECOND_NS - 1), TG_LISTENER_REFUSED);
	assert_int_equal(tg_listener_at(&e, 2 * SECOND_NS), TG_LISTENER_OK);
}

/* Each pause is twice as long as the previous one, up to 64 s; events in a pause do
 * not lengthen it. */
static void pauses(void **state)
{
	struct tg_listener_entry e = {.state = TG_LISTENER_OK, .refusals = TG_REFUSALS_PROVE - 1};
	uint64_t now_ns = SECOND_NS, pause_s = 1;
	uint32_t isn;

	(void)state;
	for (isn = 1; isn < 12; isn++) {
		assert_true(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, isn, now_ns));
		assert_int_equal((e.paused_until_ns - now_ns) / SECOND_NS, pause_s);
		assert_false(tg_listener_refused(&e, TG_REFUSAL_UNEXPLAINED, 1000 + isn, now_ns));
		now_ns = e.paused_until_ns;
		pause_s = pause_s == 64 ? 64 : 2 * pause_s;
	}
	tg_listener_adopted(&e);
	assert_int_equal(e.refusals, 0);
}

/* One look-up of an MPTCP socket proves it. */
static void mptcp_is_proof(void **state)
{
	struct tg_listener_entry e = {.state = TG_LISTENER_OK};

	(void)state;
	assert_true(tg_listener_refused(&e, TG_REFUSAL_MPTCP, 1, SECOND_NS));
	assert_int_equal((e.paused_until_ns - SECOND_NS) / SECOND_NS, 16);
	assert_int_equal(e.why, TG_REFUSAL_MPTCP);
}

/* One failed adoption proves it, but not within a pause. After a pause one connection tries, and
 * the next, longer pause begins with it; its socket ends all of that. */
static void one_tries_after_a_pause(void **state)
{
	struct tg_listener_entry e = {.state = TG_LISTENER_OK};
	uint64_t now_ns = SECOND_NS, pause_s = 1;
	int i;

	(void)state;
	assert_true(tg_listener_tries(&e, now_ns) && tg_listener_tries(&e, now_ns));
	assert_true(tg_listener_unproven(&e, 1, now_ns));
	assert_int_equal(e.why, TG_REFUSAL_UNPROVEN);
	for (i = 0; i < 9; i++) {
		assert_int_equal((e.paused_until_ns - now_ns) / SECOND_NS, pause_s);
		assert_false(tg_listener_unproven(&e, 2, now_ns));
		assert_int_equal((e.paused_until_ns - now_ns) / SECOND_NS, pause_s);
		assert_false(tg_listener_tries(&e, e.paused_until_ns - 1));
		now_ns = e.paused_until_ns;
		pause_s = pause_s == 64 ? 64 : 2 * pause_s;
		assert_true(tg_listener_tries(&e, now_ns));
		assert_false(tg_listener_tries(&e, now_ns));
	}
	tg_listener_adopted(&e);
	assert_true(tg_listener_tries(&e, now_ns) && tg_listener_tries(&e, now_ns));
	assert_int_equal(tg_listener_at(&e, now_ns), TG_LISTENER_OK);
}

static void frames(void **state)
{
	static const uint8_t none[] = {0xe0, 0, 0x81, 0, 0, 0}, inner[] = {0, 0, 0x81, 0, 0, 5},
			     outer[] = {0x01, 0, 0x81, 0, 0, 0};
	static const struct {
		uint32_t l3_off;
		tg_ethertype outer;
		bool adoptable;
	} rows[] = {
		{0, TG_ETHERTYPE_IPV4, true}, /* without an Ethernet header */
		{14, TG_ETHERTYPE_IPV4, true},   {14, TG_ETHERTYPE_IPV6, true},
		{18, TG_ETHERTYPE_VLAN, true},   {18, TG_ETHERTYPE_QINQ, true},
		{18, TG_ETHERTYPE_QINQ1, false}, {22, TG_ETHERTYPE_VLAN, false},
		{22, TG_ETHERTYPE_QINQ, false},  {22, TG_ETHERTYPE_QINQ1, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(tg_frame_is_adoptable(rows[i].l3_off, rows[i].outer),
				 rows[i].adoptable);
	assert_true(tg_frame_is_twice_untagged(22, none));
	assert_false(tg_frame_is_twice_untagged(18, none));
	assert_false(tg_frame_is_twice_untagged(22, inner) || tg_frame_is_twice_untagged(22, outer));
	assert_int_equal(tg_host_judge_tags(true).counter, TG_COUNT_pass_stack);
	assert_int_equal(tg_host_judge_tags(false).verdict, TG_DROP);
	assert_int_equal(tg_host_judge_listener(TG_LISTENER_OK, false).verdict, TG_REPLY);
	assert_int_equal(tg_host_judge_listener(TG_LISTENER_NONE, false).counter,
			 TG_COUNT_pass_listener);
}

int tg_test_listener(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states),
		cmocka_unit_test(refusals_that_count),
		cmocka_unit_test(pauses),
		cmocka_unit_test(mptcp_is_proof),
		cmocka_unit_test(one_tries_after_a_pause),
		cmocka_unit_test(frames),
	};

	return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
