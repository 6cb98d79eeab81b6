/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshakes: by lwIP's own client and by hand, with every offer of options that
 * real stacks make, and with the third segment lost.
 */
#include "peer.h"

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
void test_lwip_client(int family, int under_flood)
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
	{{
		 OPT_MSS(8960),
		 1,
		 3,
		 3,
		 14,
		 4,
		 2,
		 OPT_TS(0xfffffff0),
	 },
	 20,
	 8960,
	 14,
	 1,
	 1},
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

/* True if four bytes of the SYN's timestamp follow those of ours. */
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
	CHECK(find_option(a, 2, &v) && v == (family == 4 ? 1460u : 1440u), "MSS offered: %u", v);
	CHECK_EQ(find_option(a, 3, &v), KEEPS_OPTIONS && o->wscale != 15, "window scale");
	CHECK_EQ(find_option(a, 4, &v), KEEPS_OPTIONS && o->sack, "SACK permitted");
	CHECK_EQ(find_option(a, 8, &v), o->ts, "timestamps");
	if (o->ts) {
		CHECK_EQ(v, net_now_ms(), "TSval");
		CHECK(echoes_timestamp(a, o), "TSecr is not the SYN's TSval");
	}
}

/* The client's options in the PCB made from a cookie. */
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

/* Every offer, in one pbuf and split at every byte of its options. */
void test_every_offer(int family)
{
	unsigned i;
	int cut;

	for (i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		cut = 0;
		do
			test_options(family, &offers[i], cut);
		while (++cut < offers[i].len);
	}
}

/* SYN+FIN and SYN+RST are not SYNs. lwIP itself treats SYN+FIN as one. */
void test_bad_flags(void)
{
	static const u8_t bad[] = {TCP_SYN | TCP_FIN, TCP_SYN | TCP_RST, TCP_SYN | TCP_FIN | TCP_RST};
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

/* The third segment is lost and data arrive in its place; then data with a FIN. */
void test_lost_ack(void)
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
