/* SPDX-License-Identifier: Apache-2.0
 *
 * All tests of the burst pipeline; the last line says how many passed.
 */
#include "tests.h"

int main(int argc, char **argv)
{
	check_begin(argc, argv);
	test_hash();
	test_rss();
	harness_eal();
	test_tables();
	test_flows();
	test_crowd();
	test_store();
	test_bursts();
	test_fast();
	test_flood();
	test_icmp();
	test_router();
	test_still();
	test_lists();
	test_source_limits();
	test_automatic();
	test_counts();
	test_capture();
	test_remember();
	test_bad();
	test_card();
	return check_summary();
}
