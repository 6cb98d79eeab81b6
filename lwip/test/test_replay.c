/* SPDX-License-Identifier: Apache-2.0
 *
 * Cookies that come back: in time, too late, twice, tampered with, across every
 * clock that wraps; and ACKs that are no cookies.
 */
#include "peer.h"

/* Makes a connection from a cookie at a phase of the period, ends it, and returns
 * the ACK that made it: one packet that an attacker may replay. */
static struct segment earn_cookie(u32_t phase_ms, u16_t port)
{
	struct segment *a, ack;

	begin();
	net_time_set(net_now_ms() + phase_ms);
	fill_queue(4);
	a = syn(4, port, 1000, (const u8_t[]){OPT_MSS(1460)}, 4);
	CHECK(a != NULL, "no cookie");
	if (a == NULL)
		return net_segment(4, 1, port, TCP_ACK, 0, 0);
	ack = ack_for(4, a, 64);
	net_inject(&ack);
	CHECK(established(port), "the cookie is refused when new");
	reset_from_client(4, port);
	CHECK(net_pcb(port) == NULL, "the connection did not end");
	return ack;
}

/* True if the one packet makes a connection and delivers its data. */
static int one_packet_connects(struct segment ack)
{
	u32_t before = net_received();
	int connects;

	net_sent_clear();
	net_inject(&ack);
	connects = established(ack.src_port);
	CHECK_EQ(net_received() - before, connects ? 64 : 0, "data of a replayed packet");
	if (!connects)
		CHECK(sent_flags(ack.src_port) & TCP_RST, "a refused ACK is answered by a RST");
	reset_from_client(4, ack.src_port);
	return connects;
}

/* Another client gets a cookie now, so that older ones are judged by clock and
 * hash, not refused because none is outstanding. */
static void keep_outstanding(void)
{
	fill_queue(4);
	CHECK(syn(4, 6999, 1, NULL, 0) != NULL, "no cookie for the other client");
}

/* A cookie is valid until the end of the period after its own, whenever in its own
 * period it was made; not a millisecond longer. */
void test_replay(void)
{
	static const u32_t phases_ms[] = {0, 1, PERIOD_MS / 2, PERIOD_MS - 1};
	unsigned i;

	for (i = 0; i < sizeof(phases_ms) / sizeof(phases_ms[0]); i++) {
		struct segment ack = earn_cookie(phases_ms[i], 6000);
		u32_t start = net_now_ms() - phases_ms[i];

		CHECK(one_packet_connects(ack), "replayed at once");
		net_time_set(start + PERIOD_MS);
		CHECK(one_packet_connects(ack), "replayed in the next period");
		net_time_set(start + 2 * PERIOD_MS - 1);
		keep_outstanding();
		CHECK(one_packet_connects(ack), "replayed in its last millisecond");
		net_time_set(start + 2 * PERIOD_MS);
		keep_outstanding();
		CHECK(!one_packet_connects(ack), "replayed too late");
		check_no_leak("replay");
	}
}

/* The paper's one-packet establishment: a cookie kept for 14 s still opens a
 * connection under linux and freebsd, and no longer under hybrid after 2 s. */
void test_one_packet(void)
{
	struct segment ack = earn_cookie(0, 6001);
	int hybrid = TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID;

	net_advance(2000);
	CHECK_EQ(one_packet_connects(ack), !hybrid, "one packet after 2 s");
	net_advance(12000);
	CHECK_EQ(one_packet_connects(ack), !hybrid, "one packet after 14 s");
	check_no_leak("one packet");
}

/* The wrap of the counter, and that of sys_now() after 49.7 days. */
void test_wraps(void)
{
	struct segment *a, turn, wrap;
	u32_t start;

	begin();
	start = net_now_ms();
	fill_queue(4);
	net_time_set(start + TURN_S * 1000 - 500);
	a = syn(4, 6005, 99, NULL, 0);
	CHECK(a != NULL, "a cookie just before the turn");
	if (a == NULL)
		return;
	turn = ack_for(4, a, 64);
	net_time_set(net_now_ms() + 501);
	CHECK(one_packet_connects(turn), "a cookie across the turn of the counter");
	net_time_set(net_now_ms() + TURN_S * 1000);
	fill_queue(4);
	syn(4, 6006, 1, NULL, 0); /* cookies are outstanding again */
	CHECK(!one_packet_connects(turn), "a cookie of a whole turn ago");

	net_time_set(0xffffff00u);
	begin();
	fill_queue(4);
	a = syn(4, 6007, 5, NULL, 0);
	CHECK(a != NULL, "a cookie before sys_now() wraps");
	if (a == NULL)
		return;
	wrap = ack_for(4, a, 64);
	net_time_set(0x100u);
	CHECK(one_packet_connects(wrap), "a cookie across the wrap of sys_now()");
	net_time_set(0xffffff00u + 2 * PERIOD_MS);
	CHECK(!one_packet_connects(wrap), "stale across the wrap of sys_now()");
	check_no_leak("wraps");
}

void test_bad_acks(int family)
{
	struct segment *a, s, good;
	u32_t i, accepted = net_accepted(), hashed = tg_lwip_stats.cookie_invalid;

	/* Nothing is outstanding: no ACK is checked. */
	begin();
	for (i = 0; i < 1000; i++) {
		s = net_segment(family, rng() % 5000, (u16_t)rng(), TCP_ACK, rng(), rng());
		net_sent_clear();
		net_inject(&s);
	}
	CHECK_EQ(net_pcb_count(-1), 0, "PCBs after an ACK flood");
	CHECK(net_sent() != NULL, "lwIP answers with a RST");
	CHECK_EQ(tg_lwip_stats.cookie_invalid, hashed, "hashes spent on an ACK flood alone");

	/* Under attack: random ACKs, and every bit of a good one flipped. */
	fill_queue(family);
	a = syn(family, 7000, 5, (const u8_t[]){OPT_MSS(1460)}, 4);
	if (COOKIES) {
		CHECK(a != NULL, "no cookie");
		if (a == NULL)
			return;
		good = ack_for(family, a, 0);
		for (i = 0; i < 20000; i++) {
			s = net_segment(family, rng() % 5000, (u16_t)rng(), TCP_ACK, rng(), rng());
			net_sent_clear();
			net_inject(&s);
		}
		for (i = 0; i < 32; i++) {
			/* MSS bits of classic; the low two of the counter layouts */
			if ((TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_CLASSIC && i >= 24 && i < 27) ||
			    ((TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX ||
			      TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID) &&
			     i < 2))
				continue;
			s = good;
			s.ack = ((s.ack - 1) ^ 1u << i) + 1;
			net_inject(&s);
			CHECK(!established(7000), "bit %u of the cookie flipped", i);
		}
		CHECK_EQ(net_accepted(), accepted, "forged connections");
		net_sent_clear();
		net_inject(&good);
		CHECK(established(7000), "the valid one after the forged ones");

		/* When every cookie has expired, ACKs are no longer checked. */
		reset_from_client(family, 7000);
		hashed = tg_lwip_stats.cookie_invalid;
		net_time_set(net_now_ms() + 2 * PERIOD_MS - 1001);
		net_inject(&good);
		CHECK(tg_lwip_stats.cookie_invalid + tg_lwip_stats.cookie_valid > hashed,
		      "a cookie's last second");
		reset_from_client(family, 7000);
		hashed = tg_lwip_stats.cookie_invalid;
		net_time_set(net_now_ms() + 2001);
		net_inject(&good);
		CHECK_EQ(tg_lwip_stats.cookie_invalid, hashed, "hashes spent when none is left");
		CHECK(!established(7000), "a dead cookie");
	}
	check_no_leak("bad ACKs");
}
