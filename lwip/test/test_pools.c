/* SPDX-License-Identifier: Apache-2.0
 *
 * Floods, and everything of which lwIP can run out.
 */
#include "peer.h"

/* 30 s at 200 SYN/s while one honest client a second connects. */
static u32_t flood_success(int family, u32_t rtt_ms)
{
	struct segment *a, ack;
	u32_t ok = 0, tick, attempt, t;

	begin();
	for (attempt = 0; attempt < 30; attempt++) {
		u16_t port = (u16_t)(30000 + attempt);
		int answered = 0;

		for (tick = 0; tick < 200; tick++) {
			flood_syn(family);
			net_advance(5);
			t = tick * 5;
			if (t == 500) {
				a = syn(family, port, rng(), (const u8_t[]){OPT_MSS(1460)}, 4);
				if (a != NULL) {
					ack = ack_for(family, a, 10);
					answered = 1;
				}
			}
			if (answered && t >= 500 + rtt_ms) {
				net_inject(&ack);
				ok += established(port);
				reset_from_client(family, port);
				answered = 0;
			}
			net_sent_clear();
		}
	}
	check_no_leak("flood");
	return ok;
}

void test_flood(int family)
{
	u32_t near = flood_success(family, 5), far = flood_success(family, 100);

	printf("IPv%d, 200 SYN/s, queue %d: %u/30 clients at 5 ms, %u/30 at 100 ms\n", family,
	       BACKLOG, near, far);
	if (TG_LWIP_POLICY == TG_LWIP_POLICY_DROP) {
		CHECK(near <= 1 && far <= 1, "drop serves less than 5 %%: %u, %u", near, far);
	} else if (COOKIES) {
		CHECK_EQ(near, 30, "clients at 5 ms");
		CHECK_EQ(far, 30, "clients at 100 ms");
	} else {
		/* Four entries at 200/s live for 20 ms: clients with a longer RTT lose. */
		CHECK_EQ(near, 30, "clients at 5 ms");
		CHECK_EQ(far, 0, "clients at 100 ms");
	}
}

/* Random option bytes of every length, whole and split in two. */
void test_malformed_options(void)
{
	struct segment s;
	u32_t i, k, family;

	begin();
	for (i = 0; i < 20000; i++) {
		family = rng() % 2 ? 4 : 6;
		s = net_segment((int)family, rng() % 50000, (u16_t)rng(), TCP_SYN, rng(), 0);
		s.opts_len = (u8_t)(rng() % 11 * 4);
		for (k = 0; k < s.opts_len; k++)
			s.opts[k] = (u8_t)(rng() % 3 ? rng() % 12 : rng());
		net_inject_cut(&s, (int)(rng() % 40));
		net_sent_clear();
		if (i % 100 == 0)
			net_advance(250);
	}
	check_no_leak("malformed options");
}

/* Every PCB is used by a real connection: a valid cookie must wait, and still be
 * valid when the client retransmits its data. */
void test_pool_exhausted(void)
{
	struct segment *a, acks[MEMP_NUM_TCP_PCB + 1];
	u32_t i, before;

	begin();
	fill_queue(4);
	for (i = 0; i <= MEMP_NUM_TCP_PCB; i++) {
		a = syn(4, (u16_t)(8000 + i), i, (const u8_t[]){OPT_MSS(1460)}, 4);
		CHECK(a != NULL, "no cookie, %u", i);
		if (a == NULL)
			return;
		acks[i] = ack_for(4, a, 20);
		net_inject(&acks[i]);
		CHECK_EQ(established((u16_t)(8000 + i)), i < MEMP_NUM_TCP_PCB, "established");
	}
	CHECK_EQ(net_pcb_count(ESTABLISHED), MEMP_NUM_TCP_PCB, "connections");
	CHECK_EQ(net_pcb_count(SYN_RCVD), 0, "half-open ones gave way");
	i = MEMP_NUM_TCP_PCB;
	net_sent_clear();
	net_inject(&acks[i]);
	CHECK_EQ(sent_flags((u16_t)(8000 + i)), 0, "no RST: the client will retry");
	reset_from_client(4, 8003);
	before = net_received();
	net_inject(&acks[i]);
	CHECK(established((u16_t)(8000 + i)), "the client retried");
	CHECK_EQ(net_received() - before, 20, "and its data arrived");
	check_no_leak("pool exhausted");
}

/* lwIP's heap is empty: no SYN-ACK can be built, but nothing is lost permanently. */
void test_heap_exhausted(void)
{
	void *blocks[512];
	unsigned n = 0;
	u32_t nomem = tg_lwip_stats.cookie_nomem;
	struct segment *a;

	begin();
	fill_queue(4);
	while (n < 512 && (blocks[n] = mem_malloc(256)) != NULL)
		n++;
	while (n < 512 && (blocks[n] = mem_malloc(16)) != NULL)
		n++;
	CHECK(syn(4, 8100, 5, (const u8_t[]){OPT_MSS(1460)}, 4) == NULL, "no memory");
	CHECK_EQ(tg_lwip_stats.cookie_nomem, nomem + 1, "SYNs without an answer");
	while (n)
		mem_free(blocks[--n]);
	a = syn(4, 8101, 5, (const u8_t[]){OPT_MSS(1460)}, 4);
	CHECK(a != NULL, "memory is back and yet no cookie");
	check_no_leak("heap exhausted");
}

/* The application accepts no connection: the accept queue, not the pool, is the limit. */
void test_accept_queue(void)
{
	struct segment *a, acks[BACKLOG + 1];
	u32_t i;

	begin();
	net_delay_accept = 1;
	for (i = 0; i <= BACKLOG; i++) {
		a = syn(4, (u16_t)(8200 + i), i, (const u8_t[]){OPT_MSS(1460)}, 4);
		CHECK(a != NULL, "no answer, %u", i);
		if (a == NULL)
			break;
		acks[i] = ack_for(4, a, 0);
		net_inject(&acks[i]);
		CHECK_EQ(established((u16_t)(8200 + i)), i < BACKLOG, "accepted");
	}
	net_delay_accept = 0;
	tcp_backlog_accepted(net_pcb(8200));
	net_inject(&acks[BACKLOG]);
	CHECK(established(8200 + BACKLOG), "room in the accept queue, the client retried");
	check_no_leak("accept queue");
}

/* Two listeners share the pool; a flood on one must not harm the other. */
void test_recycle(void)
{
	struct tcp_pcb *oldest;
	struct segment *a;
	u32_t i;

	begin();
	a = syn(4, 8300, 5, (const u8_t[]){OPT_MSS(1460)}, 4);
	CHECK(a != NULL, "room in the queue");
	net_advance(1000);
	for (i = 0; i < BACKLOG - 1; i++)
		flood_syn(4);
	oldest = net_pcb(8300);
	CHECK(oldest != NULL && oldest->state == SYN_RCVD, "half-open");
	flood_syn(4);
	CHECK(net_pcb(8300) == NULL, "the oldest was not the one to go");
	CHECK_EQ(net_pcb_count(SYN_RCVD), BACKLOG, "half-open connections");
	for (i = 0; i < 10000; i++) {
		flood_syn(4);
		net_sent_clear();
	}
	CHECK_EQ(net_pcb_count(-1), BACKLOG, "the queue does not grow");
	check_no_leak("recycle");
}
