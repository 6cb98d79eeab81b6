/* SPDX-License-Identifier: Apache-2.0
 *
 * The module inside a real lwIP, on a network in memory: one program for each
 * policy and layout. After each case lwIP must hold exactly the memory that it
 * held before.
 */
#include "peer.h"

int main(int argc, char **argv)
{
	int family;

	check_begin(argc, argv);
	net_init();
	net_listen(NET_PORT, BACKLOG);
	begin();
	remember_usage();
	for (family = 4; family <= 6; family += 2) {
		test_lwip_client(family, 0);
		test_lwip_client(family, 1);
		test_every_offer(family);
		test_bad_acks(family);
		test_flood(family);
	}
	test_bad_flags();
	test_malformed_options();
	if (TG_LWIP_POLICY == TG_LWIP_POLICY_RECYCLE_OLDEST)
		test_recycle();
	if (TG_LWIP_POLICY != TG_LWIP_POLICY_DROP)
		test_lost_ack();
	if (COOKIES) {
		test_replay();
		test_one_packet();
		test_wraps();
		test_pool_exhausted();
		test_heap_exhausted();
		test_accept_queue();
	}
	return check_summary();
}
