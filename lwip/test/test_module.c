/* SPDX-License-Identifier: Apache-2.0
 *
 * The module inside a real lwIP, on a network in memory: one program for each
 * policy and layout. Handshakes by hand and by lwIP's own client, floods,
 * replays, exhausted pools, clocks that wrap; after each case lwIP must hold
 * exactly the memory that it held before.
 */
#include <stdlib.h>

#include "check.h"
#include "expect.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "net.h"

#define BACKLOG 4
#define FLOOD_PORT 1024

#define OPT_MSS(v) 2, 4, (u8_t)((v) >> 8), (u8_t)(v)
#define OPT_TS(v) 8, 10, (u8_t)((v) >> 24), (u8_t)((v) >> 16), (u8_t)((v) >> 8), (u8_t)(v), 0, 0, 0, 0

static u32_t rng_state = 1;

static u32_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 17;
	rng_state ^= rng_state << 5;
	return rng_state;
}

static const u8_t secret[TG_LWIP_SECRET_LEN] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3,
						2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5};

static struct net_usage idle_usage;

/* Every case begins with no connections and a clock that starts anew. */
static void begin(void)
{
	net_abort_all();
	net_sent_clear();
	tg_lwip_init(secret);
}

static void check_no_leak(const char *what)
{
	struct net_usage u;

	net_abort_all();
	u = net_usage();
	CHECK(memcmp(&u, &idle_usage, sizeof(u)) == 0,
	      "%s: pcb %u seg %u pbuf %u pool %u heap %u (before: %u %u %u %u %u)", what, u.tcp_pcb,
	      u.tcp_seg, u.pbuf, u.pbuf_pool, u.heap, idle_usage.tcp_pcb, idle_usage.tcp_seg,
	      idle_usage.pbuf, idle_usage.pbuf_pool, idle_usage.heap);
	CHECK_EQ(net_bad_checksums(), 0, what);
}

static void flood_syn(int family)
{
	struct segment s = net_segment(family, 1000 + rng() % 100000,
				       (u16_t)(FLOOD_PORT + rng() % 20000), TCP_SYN, rng(), 0);
	const u8_t opts[] = {OPT_MSS(1460)};

	memcpy(s.opts, opts, sizeof(opts));
	s.opts_len = sizeof(opts);
	net_inject(&s);
}

static void fill_queue(int family)
{
	int i;

	for (i = 0; i < BACKLOG; i++)
		flood_syn(family);
	net_sent_clear();
}

/* Sends a SYN and returns its answer, or NULL. */
static struct segment *syn(int family, u16_t port, u32_t isn, const u8_t *opts, u8_t opts_len)
{
	struct segment s = net_segment(family, 1, port, TCP_SYN, isn, 0), *answer;

	if (opts_len)
		memcpy(s.opts, opts, opts_len);
	s.opts_len = opts_len;
	net_sent_clear();
	net_inject(&s);
	while ((answer = net_sent()) != NULL)
		if (answer->dst_port == port)
			return answer;
	return NULL;
}

/* The ACK that completes a handshake, with some data. */
static struct segment ack_for(int family, const struct segment *synack, u16_t data_len)
{
	struct segment s = net_segment(family, 1, synack->dst_port, TCP_ACK, synack->ack,
				       synack->seq + 1);

	s.data_len = data_len;
	memset(s.data, 'x', data_len);
	return s;
}

static int established(u16_t port)
{
	struct tcp_pcb *pcb = net_pcb(port);

	return pcb != NULL && pcb->state == ESTABLISHED;
}

/* The client's RST ends the connection at once, in one packet. */
static void reset_from_client(int family, u16_t port)
{
	struct tcp_pcb *pcb = net_pcb(port);
	struct segment s;

	if (pcb == NULL)
		return;
	s = net_segment(family, 1, port, TCP_RST, pcb->rcv_nxt, 0);
	net_inject(&s);
}

static int sent_flags(u16_t port)
{
	struct segment *s;
	int flags = 0;

	while ((s = net_sent()) != NULL)
		if (s->dst_port == port)
			flags |= s->flags | 0x100;
	return flags;
}

/* ---- handshakes ---- */

static err_t client_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	LWIP_UNUSED_ARG(err);
	if (p == NULL)
		return tcp_close(pcb);
	*(u32_t *)arg += p->tot_len;
	tcp_recved(pcb, p->tot_len);
	pbuf_free(p);
	return ERR_OK;
}

static err_t client_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
	LWIP_UNUSED_ARG(arg);
	LWIP_UNUSED_ARG(err);
	return tcp_write(pcb, "tide gate", 9, TCP_WRITE_FLAG_COPY);
}

/* A whole connection by lwIP's own client: handshake, echo, close. */
static void test_lwip_client(int family, int under_flood)
{
	struct tcp_pcb *pcb;
	u32_t echoed = 0;
	int expected = !under_flood || TG_LWIP_POLICY != TG_LWIP_POLICY_DROP;

	begin();
	if (under_flood)
		fill_queue(family);
	pcb = tcp_new_ip_type(family == 4 ? IPADDR_TYPE_V4 : IPADDR_TYPE_V6);
	tcp_arg(pcb, &echoed);
	tcp_recv(pcb, client_recv);
	tcp_bind(pcb, net_client_ip(family), 0);
	tcp_connect(pcb, net_server_ip(family), NET_PORT, client_connected);
	net_advance(1000);
	CHECK_EQ(echoed, expected ? 9 : 0, "bytes echoed to lwIP's client");
	if (expected) {
		tcp_close(pcb);
		net_advance(2000);
		CHECK_EQ(net_pcb_count(ESTABLISHED), 0, "closed");
	}
	check_no_leak("lwIP's client");
}

struct offer {
	u8_t bytes[40], len;
	unsigned mss, wscale; /* 0 and 15: absent */
	int sack, ts;
};

static const struct offer offers[] = {
	{{0}, 0, 0, 15, 0, 0},
	{{OPT_MSS(1460)}, 4, 1460, 15, 0, 0},
	{{OPT_MSS(1400), 1, 3, 3, 7}, 8, 1400, 7, 0, 0},
	{{OPT_MSS(1200), 1, 1, 4, 2}, 8, 1200, 15, 1, 0},
	{{OPT_MSS(1460), 4, 2, OPT_TS(77777), 1, 3, 3, 10}, 20, 1460, 10, 1, 1}, /* Linux */
	{{OPT_MSS(1460), 1, 3, 3, 8, 1, 1, 4, 2}, 12, 1460, 8, 1, 0},            /* Windows */
	{{OPT_MSS(1440), 1, 3, 3, 6, 1, 1, OPT_TS(1), 4, 2, 0, 0}, 24, 1440, 6, 1, 1}, /* macOS */
	{{OPT_MSS(8960), 1, 3, 3, 14, 4, 2, OPT_TS(0xfffffff0), }, 20, 8960, 14, 1, 1},
	{{1, 1, OPT_TS(5)}, 12, 0, 15, 0, 1},
};

static int find_option(const struct segment *s, u8_t kind, u32_t *value)
{
	unsigned i = 0, k;

	while (i < s->opts_len && s->opts[i] != 0) {
		if (s->opts[i] == 1) {
			i++;
			continue;
		}
		if (s->opts[i] == kind) {
			*value = 0;
			for (k = 2; k < s->opts[i + 1]; k++)
				*value = k < 6 ? *value << 8 | s->opts[i + k] : *value;
			return 1;
		}
		i += s->opts[i + 1];
	}
	return 0;
}

/* True if four bytes of the SYN's timestamp stand behind those of ours. */
static int echoes_timestamp(const struct segment *a, const struct offer *o)
{
	unsigned i, k;

	for (i = 0; i + 10 <= o->len && (o->bytes[i] != 8 || o->bytes[i + 1] != 10); i++)
		;
	for (k = 0; k + 10 <= a->opts_len; k++)
		if (a->opts[k] == 8 && a->opts[k + 1] == 10)
			return memcmp(a->opts + k + 6, o->bytes + i + 2, 4) == 0;
	return 0;
}

/* The SYN-ACK of a cookie, option by option. */
static void check_synack(const struct segment *a, const struct offer *o, int family, u32_t isn)
{
	u32_t v = 0;

	CHECK_EQ(a->flags, TCP_SYN | TCP_ACK, "flags");
	CHECK_EQ(a->ack, isn + 1, "acknowledges the SYN alone");
	CHECK_EQ(a->data_len, 0, "no data");
	CHECK_EQ(a->wnd, 16 * 1460, "window");
	CHECK(find_option(a, 2, &v) && v == (family == 4 ? 1460u : 1440u), "MSS told: %u", v);
	CHECK_EQ(find_option(a, 3, &v), KEEPS_OPTIONS && o->wscale != 15, "window scale");
	CHECK_EQ(find_option(a, 4, &v), KEEPS_OPTIONS && o->sack, "SACK permitted");
	CHECK_EQ(find_option(a, 8, &v), o->ts, "timestamps");
	if (o->ts) {
		CHECK_EQ(v, net_now_ms(), "TSval");
		CHECK(echoes_timestamp(a, o), "TSecr is not the SYN's TSval");
	}
}

/* What the PCB made from a cookie knows of the client. */
static void check_restored(const struct tcp_pcb *pcb, const struct offer *o, int family)
{
	int scaled = KEEPS_OPTIONS && o->wscale != 15;

	CHECK_EQ(pcb->mss, expect_mss(family, o->mss), "MSS restored");
	CHECK_EQ((pcb->flags & TF_WND_SCALE) != 0, scaled, "window scale restored");
	CHECK_EQ(pcb->snd_scale, scaled ? expect_wscale(o->wscale) : 0, "shift");
	CHECK_EQ(pcb->snd_wnd, 20000u << (scaled ? expect_wscale(o->wscale) : 0), "send window");
	CHECK_EQ((pcb->flags & TF_SACK) != 0, KEEPS_OPTIONS && o->sack, "SACK restored");
	CHECK_EQ((pcb->flags & TF_TIMESTAMP) != 0, o->ts, "timestamps restored");
	if (o->ts)
		CHECK_EQ(pcb->ts_recent, 4242, "TS.Recent");
}

static void test_options(int family, const struct offer *o, int cut)
{
	const u8_t ts[] = {1, 1, 8, 10, 0, 0, 4242 >> 8, 4242 & 0xff, 0, 0, 0, 0};
	u32_t isn = rng(), before = net_received();
	struct segment s = net_segment(family, 1, 5000, TCP_SYN, isn, 0), *a;

	begin();
	fill_queue(family);
	memcpy(s.opts, o->bytes, o->len);
	s.opts_len = o->len;
	net_inject_cut(&s, cut);
	do {
		a = net_sent();
	} while (a != NULL && a->dst_port != 5000);
	if (TG_LWIP_POLICY == TG_LWIP_POLICY_DROP) {
		CHECK(a == NULL, "the queue is full and yet a SYN was answered");
		check_no_leak("options");
		return;
	}
	CHECK(a != NULL, "no answer to a SYN");
	if (a == NULL)
		return;
	if (COOKIES)
		check_synack(a, o, family, isn);
	CHECK_EQ(net_pcb(5000) != NULL, !COOKIES, "a PCB before the handshake is complete");
	s = ack_for(family, a, 100);
	if (o->ts) {
		memcpy(s.opts, ts, sizeof(ts));
		s.opts_len = sizeof(ts);
	}
	net_inject_cut(&s, cut);
	CHECK(established(5000), "not established");
	CHECK_EQ(net_received() - before, 100, "data on the third segment");
	if (COOKIES && net_pcb(5000) != NULL)
		check_restored(net_pcb(5000), o, family);
	check_no_leak("options");
}

/* ---- replay ---- */

/* Makes a connection by cookie at a phase of the period, ends it, and returns
 * the ACK that did it: one packet that a greedy client may send again. */
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

/* Another client gets a cookie just now, so that the clock and the hash alone
 * decide on older ones, not that none is outstanding. */
static void keep_outstanding(void)
{
	fill_queue(4);
	CHECK(syn(4, 6999, 1, NULL, 0) != NULL, "no cookie for the other client");
}

/* A cookie is good until the period after its own is over, whenever in its own
 * period it was made; not a millisecond longer. */
static void test_replay(void)
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

/* The seed's one-packet establishment: a cookie kept for 14 s still opens a
 * connection under linux and freebsd, and no longer under hybrid after 2 s. */
static void test_one_packet(void)
{
	struct segment ack = earn_cookie(0, 6001);
	int hybrid = TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID;

	net_advance(2000);
	CHECK_EQ(one_packet_connects(ack), !hybrid, "one packet after 2 s");
	net_advance(12000);
	CHECK_EQ(one_packet_connects(ack), !hybrid, "one packet after 14 s");
	check_no_leak("one packet");
}

/* The counter that comes round, and sys_now() that wraps after 49.7 days. */
static void test_wraps(void)
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

/* ---- bad ACKs ---- */

static void test_bad_acks(int family)
{
	struct segment *a, s, good;
	u32_t i, accepted = net_accepted(), hashed = tg_lwip_stats.cookie_invalid;

	/* Nothing is outstanding: no ACK is even looked at. */
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
		CHECK(established(7000), "the good one after all that");

		/* Once every cookie has died, ACKs are not looked at any more. */
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

/* SYN+FIN and SYN+RST are no SYNs. lwIP itself takes SYN+FIN for one. */
static void test_bad_flags(void)
{
	static const u8_t bad[] = {TCP_SYN | TCP_FIN, TCP_SYN | TCP_RST,
				   TCP_SYN | TCP_FIN | TCP_RST};
	struct segment s;
	unsigned i;

	begin();
	for (i = 0; i < sizeof(bad); i++) {
		s = net_segment(4, 1, 7100, bad[i], 1, 0);
		net_inject(&s);
	}
	if (TG_LWIP_POLICY != TG_LWIP_POLICY_DROP) {
		CHECK_EQ(net_pcb_count(-1), 0, "PCBs for SYN+FIN");
		CHECK(net_sent() == NULL, "an answer to SYN+FIN");
	}
	check_no_leak("bad flags");
}

/* The third segment is lost and data comes in its place; then data with a FIN. */
static void test_lost_ack(void)
{
	struct segment *a, s;
	u32_t before;

	begin();
	fill_queue(4);
	a = syn(4, 7200, 5, (const u8_t[]){OPT_MSS(1460)}, 4);
	CHECK(a != NULL, "no answer");
	if (a == NULL)
		return;
	before = net_received();
	s = ack_for(4, a, 500);
	s.flags = TCP_ACK | TCP_PSH | TCP_FIN;
	net_inject(&s);
	CHECK_EQ(net_received() - before, 500, "data with FIN in the first segment that arrives");
	CHECK(net_pcb(7200) != NULL && net_pcb(7200)->state == LAST_ACK, "the FIN is honoured");
	check_no_leak("lost ACK");
}

/* ---- floods and pools ---- */

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

static void test_flood(int family)
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
		/* Four entries at 200/s live for 20 ms: what is farther loses. */
		CHECK_EQ(near, 30, "clients at 5 ms");
		CHECK_EQ(far, 0, "clients at 100 ms");
	}
}

/* Random option bytes of every length, whole and cut in two. */
static void test_malformed_options(void)
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

/* Every PCB is in use by a real connection: a good cookie must wait, and be
 * good when the client's data comes again. */
static void test_pool_exhausted(void)
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
	CHECK_EQ(sent_flags((u16_t)(8000 + i)), 0, "no RST: the client will try again");
	reset_from_client(4, 8003);
	before = net_received();
	net_inject(&acks[i]);
	CHECK(established((u16_t)(8000 + i)), "the client tried again");
	CHECK_EQ(net_received() - before, 20, "and its data arrived");
	check_no_leak("pool exhausted");
}

/* lwIP's heap is empty: no SYN-ACK can be built, nothing is lost for good. */
static void test_heap_exhausted(void)
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

/* The application accepts nobody: the accept queue, not the pool, is the limit. */
static void test_accept_queue(void)
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
	CHECK(established(8200 + BACKLOG), "room in the accept queue, the client tried again");
	check_no_leak("accept queue");
}

/* Two listeners share the pool; the flood on one must not harm the other. */
static void test_recycle(void)
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

int main(int argc, char **argv)
{
	unsigned i;
	int family;

	net_init();
	net_listen(NET_PORT, BACKLOG);
	begin();
	idle_usage = net_usage();
	for (family = 4; family <= 6; family += 2) {
		test_lwip_client(family, 0);
		test_lwip_client(family, 1);
		for (i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
			int cut;

			for (cut = 0; cut < offers[i].len; cut++)
				test_options(family, &offers[i], cut);
			if (offers[i].len == 0)
				test_options(family, &offers[i], 0);
		}
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
	return check_summary(argc, argv);
}
