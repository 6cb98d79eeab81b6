/* SPDX-License-Identifier: Apache-2.0
 *
 * Where answers to SYNs go, by what the kernel's tables say.
 */
#include "test.h"
#include "../reply.h"

#define A 0x0a0000000002ULL
#define B 0x0b0000000002ULL

static void wants(struct tg_reply_route route, enum tg_reply reply, uint64_t mac)
{
	assert_int_equal(route.reply, reply);
	assert_int_equal(route.mac, mac);
}

static void gateways(void **state)
{
	struct tg_reply_hop hop = {
		.kind = TG_HOP_VIA,
		.count = 2,
		.paths = {{.mac = A, .segment = 2}, {.mac = B, .segment = 3, .vid = 7}}};

	(void)state;
	wants(tg_reply_via(&hop, 2, 0, A), TG_REPLY_BACK, 0);
	wants(tg_reply_via(&hop, 2, 0, B), TG_REPLY_NEXT, A);
	wants(tg_reply_via(&hop, 3, 7, B), TG_REPLY_BACK, 0);
	wants(tg_reply_via(&hop, 3, 0, B), TG_REPLY_ELSEWHERE, 0); /* another VLAN */
	wants(tg_reply_via(&hop, 4, 0, A), TG_REPLY_ELSEWHERE, 0);
	hop.paths[0].dev = 2;
	hop.paths[1].dev = 9;
	hop.paths[1].covered = 1;
	wants(tg_reply_via(&hop, 4, 0, A), TG_REPLY_ACROSS, 2);
	wants(tg_reply_via(&hop, 2, 0, B), TG_REPLY_NEXT, A); /* rather on the same link */
	wants(tg_reply_via(&hop, 3, 7, A), TG_REPLY_NEXT, B);
	hop.paths[0].dev = 0;
	wants(tg_reply_via(&hop, 4, 0, A), TG_REPLY_ACROSS, 9 | TG_ACROSS_COVERED);
	hop.paths[1] = (struct tg_reply_path){.mac = B, .segment = 2};
	wants(tg_reply_via(&hop, 2, 0, B), TG_REPLY_BACK, 0); /* any of several */
	wants(tg_reply_via(&hop, 2, 0, 1), TG_REPLY_NEXT, A);
	hop.paths[0].mac = 0;
	wants(tg_reply_via(&hop, 2, 0, 1), TG_REPLY_NEXT, B); /* the one that is resolved */
	hop.count = 1;
	wants(tg_reply_via(&hop, 2, 0, A), TG_REPLY_UNRESOLVED, 0);
	hop.count = 0;
	wants(tg_reply_via(&hop, 2, 0, A), TG_REPLY_ELSEWHERE, 0);
}

static void neighbours(void **state)
{
	struct tg_reply_neighbour n = {.mac = A, .sure = 1};

	(void)state;
	wants(tg_reply_link(NULL, A), TG_REPLY_UNRESOLVED, 0);
	wants(tg_reply_link(&n, A), TG_REPLY_BACK, 0);
	wants(tg_reply_link(&n, B), TG_REPLY_NEXT, A);
	n.sure = 0;
	wants(tg_reply_link(&n, A), TG_REPLY_BACK, 0);
	wants(tg_reply_link(&n, B), TG_REPLY_UNRESOLVED, 0);
}

/* Half a minute after userspace's last update, the kernel decides. */
static void ageing(void **state)
{
	uint64_t then = 1000, late = then + TG_REPLY_STALE_NS;

	(void)state;
	wants(tg_reply_aged(TG_REPLY_ROUTE(TG_REPLY_NEXT, A), then, late - 1), TG_REPLY_NEXT, A);
	wants(tg_reply_aged(TG_REPLY_ROUTE(TG_REPLY_NEXT, A), then, late), TG_REPLY_STALE, A);
	wants(tg_reply_aged(TG_REPLY_ROUTE(TG_REPLY_NOWHERE, 0), then, late - 1), TG_REPLY_NOWHERE,
	      0);
	wants(tg_reply_aged(TG_REPLY_ROUTE(TG_REPLY_NOWHERE, 0), then, late), TG_REPLY_ELSEWHERE, 0);
	wants(tg_reply_aged(TG_REPLY_ROUTE(TG_REPLY_BACK, 0), then, late), TG_REPLY_BACK, 0);
}

/* A translated connection needs our programs at the interface that the stack answers by. */
static void crossing(void **state)
{
	(void)state;
	assert_int_equal(tg_reply_crossing(TG_REPLY_ACROSS, 9, TG_TAKEOVER_ADOPT), TG_REPLY_ACROSS);
	assert_int_equal(tg_reply_crossing(TG_REPLY_ACROSS, 9, TG_TAKEOVER_TRANSLATE),
			 TG_REPLY_ELSEWHERE);
	assert_int_equal(
		tg_reply_crossing(TG_REPLY_ACROSS, 9 | TG_ACROSS_COVERED, TG_TAKEOVER_TRANSLATE),
		TG_REPLY_ACROSS);
	assert_int_equal(tg_reply_crossing(TG_REPLY_NEXT, A, TG_TAKEOVER_TRANSLATE), TG_REPLY_NEXT);
}

static void verdicts(void **state)
{
	static const struct {
		enum tg_reply reply;
		bool allowed, strict;
		enum tg_verdict verdict;
		enum tg_counter counter;
	} want[] = {
		{TG_REPLY_BACK, false, true, TG_REPLY, TG_COUNT_cookie_sent},
		{TG_REPLY_NEXT, false, true, TG_REPLY, TG_COUNT_reply_routed},
		{TG_REPLY_UNRESOLVED, true, true, TG_PASS, TG_COUNT_pass_neighbour},
		{TG_REPLY_UNRESOLVED, false, true, TG_REPLY, TG_COUNT_reply_unsure},
		{TG_REPLY_ELSEWHERE, true, false, TG_PASS, TG_COUNT_pass_route},
		{TG_REPLY_ELSEWHERE, false, false, TG_REPLY, TG_COUNT_reply_unsure},
		{TG_REPLY_ELSEWHERE, false, true, TG_DROP, TG_COUNT_drop_route},
		{TG_REPLY_NOWHERE, true, false, TG_PASS, TG_COUNT_pass_route},
		{TG_REPLY_NOWHERE, false, false, TG_DROP, TG_COUNT_drop_route},
		{TG_REPLY_STALE, true, false, TG_PASS, TG_COUNT_pass_route},
		{TG_REPLY_STALE, false, true, TG_REPLY, TG_COUNT_reply_routed},
		{TG_REPLY_ACROSS, true, false, TG_PASS, TG_COUNT_pass_route},
		{TG_REPLY_ACROSS, false, false, TG_REPLY, TG_COUNT_reply_across},
		{TG_REPLY_ACROSS, false, true, TG_DROP, TG_COUNT_drop_route},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct tg_decision d = tg_reply_judge(want[i].reply, want[i].allowed, want[i].strict);

		assert_int_equal(d.verdict, want[i].verdict);
		assert_int_equal(d.counter, want[i].counter);
		assert_int_equal(tg_reply_asks(want[i].reply), i > 1);
	}
}

int tg_test_reply(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gateways), cmocka_unit_test(neighbours), cmocka_unit_test(ageing),
		cmocka_unit_test(crossing), cmocka_unit_test(verdicts),
	};

	return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
