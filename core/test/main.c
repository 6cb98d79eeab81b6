/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs every group of native core tests and ends with one summary line.
 * `--canary` runs a test that must fail, to prove that failures are noticed.
 */
#include "test.h"

static void canary_fails(void **state)
{
	(void)state;
	assert_int_equal(tg_csum_update16(0xdd2f, 0x5555, 0x3285), 0xffff); /* RFC 1624: 0x0000 */
}

static int run_canary(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(canary_fails)};

	return cmocka_run_group_tests_name("canary (must fail)", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "--canary") == 0)
		return run_canary() ? 1 : 0;
	if (argc != 2) {
		fprintf(stderr, "usage: core_test DOCS/cookie-format.md | --canary\n");
		return 2;
	}
	failed += tg_test_hash();
	failed += tg_test_checksum();
	failed += tg_test_options();
	failed += tg_test_packet();
	failed += tg_test_cookie();
	failed += tg_test_figures(argv[1]);
	failed += tg_test_synack();
	failed += tg_test_fast_segment();
	failed += tg_test_fast_syn();
	failed += tg_test_filter();
	failed += tg_test_filter_bits();
	failed += tg_test_translate();
	failed += tg_test_near_flow();
	failed += tg_test_syn_cache_front();
	failed += tg_test_proxy();
	failed += tg_test_share();
	failed += tg_test_challenge();
	failed += tg_test_listener();
	failed += tg_test_closed_port();
	failed += tg_test_reply();
	failed += tg_test_bloom();
	failed += tg_test_edge();
	failed += tg_test_patrol();
	failed += tg_test_syn_cache();
	failed += tg_test_security();
	failed += tg_test_tag();
	failed += tg_test_server_flow();
	failed += tg_test_split();
	failed += tg_test_source_limit();
	printf("core tests: %s (%d failed)\n", failed ? "FAIL" : "ok", failed);
	return failed ? 1 : 0;
}
