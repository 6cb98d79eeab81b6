/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst that begins with a flood's SYNs, and what ends it, at each place: it comes out as without the fast path; the
 * groups in front of it are answered by flood.h, and none behind.
 */
#include "../bench/traffic.h"
#include "talk.h"
#include "tests.h"

#define BURST 32
#define IP TG_ETH_HDR_LEN
#define TCP (IP + TG_IPV4_HDR_LEN)

/* What a frame differs in from those of the flood. */
enum end {
	NOTHING,
	OTHER_SERVER,
	UNKNOWN_SERVER,
	OTHER_SENDER, /* by its MAC address */
	TO_A_GROUP,
	BAD_TCP_SUM,
	BAD_IP_SUM,
	NO_OPTIONS,
	OTHER_OPTIONS, /* a number: still one of the flood */
	A_SEGMENT,
	LOOPBACK,
	FROM_A_SERVICE,
	DENIED,
	CONNECTED,
	VERIFIED,
	FOR_THE_DRIVER, /* its buffer says something to the driver that sends it */
	CARD_SAYS_BAD,
	ENDS,
};

static const char *const names[ENDS] = {"nothing",
					"another server",
					"a server that is to be asked",
					"another sender",
					"a group",
					"a TCP checksum",
					"an IP checksum",
					"no options",
					"another option",
					"a segment",
					"a loopback address",
					"a service's port",
					"a denied address",
					"a connection",
					"a verified source",
					"a flag to send by",
					"a checksum that the card found wrong"};

/* Puts a frame's checksums right after a change. */
static void put_right(uint8_t *f, uint32_t len)
{
	const uint32_t tcp_len = len - TCP;
	uint64_t sum = TG_WIRE32(0, TG_IPPROTO_TCP, 0, tcp_len);

	tg_store16(f + IP + 10, 0);
	tg_store16(f + IP + 10, tg_csum_finish(tg_csum_add(0, f + IP, TG_IPV4_HDR_LEN)));
	tg_store16(f + TCP + TG_TCP_SUM, 0);
	sum = tg_csum_add(sum, f + IP + 12, 8);
	tg_store16(f + TCP + TG_TCP_SUM, tg_csum_finish(tg_csum_add(sum, f + TCP, tcp_len)));
}

static struct rte_mbuf *make(struct harness *h, uint16_t port, uint32_t number, enum end end)
{
	struct talk t = {
		.family = 4, .ts = true, .port = port, .number = number, .client_isn = number * 7919};
	uint8_t f[TALK_FRAME_MAX];
	struct rte_mbuf *m;
	struct tg_packet pkt = {0};
	uint32_t len;

	t.ts = end != NO_OPTIONS;
	len = end == A_SEGMENT ? talk_segment(f, &t, TG_TO_SERVER, 1, 2, TG_TCP_ACK, 0)
			       : talk_syn(f, &t);
	if (end == OTHER_SERVER || end == UNKNOWN_SERVER)
		f[IP + 19] += end == OTHER_SERVER ? 1 : 2;
	if (end == LOOPBACK)
		f[IP + 12] = 127;
	if (end == FROM_A_SERVICE)
		tg_store16(f + TCP, tg_swap16(81));
	if (end == OTHER_OPTIONS)
		f[TCP + 23] ^= 0x11;
	if (end == DENIED)
		tg_store32(f + IP + 12, TG_WIRE32(11, 99, 1, 1));
	put_right(f, len);
	if (end == OTHER_SENDER)
		f[11] ^= 1;
	if (end == TO_A_GROUP)
		f[0] |= 1;
	if (end == BAD_TCP_SUM)
		f[TCP + TG_TCP_SUM] ^= 0x40;
	if (end == BAD_IP_SUM)
		f[IP + 10] ^= 0x40;
	(void)tg_packet_parse(&pkt, f, f + len);
	if (end == CONNECTED) {
		struct tg_flow flow = {.service = 1, .state = TG_FLOW_READY};
		struct tg_flow_key key = tg_flow_key_of(&pkt, TG_TO_SERVER);

		(void)tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow);
	}
	if (end == VERIFIED)
		(void)tg_whitelist_put(&h->w->white, tg_white_key(&pkt.src, 4, ~0U, ~0ULL));
	m = harness_roomy(h, f, len);
	if (end == FOR_THE_DRIVER)
		m->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4;
	if (end == CARD_SAYS_BAD)
		m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_BAD;
	return m;
}

/* True if such a frame ends the flood of SYNs to this port. */
static bool ends(enum end end, uint16_t port)
{
	if (end == VERIFIED)
		return port != 80; /* cookie does not ask the whitelist */
	return end != NOTHING && end != OTHER_OPTIONS;
}

/* Sends two bursts with one such frame, at place `at`, of SYNs to a port: the first is looked at in blocks, the second, if
 * the first had others in a block, group by group. No client is `seen` before. */
static void send_bursts(struct harness *h, uint16_t port, enum end end, uint32_t at, uint32_t seen)
{
	struct rte_mbuf *m[BURST];
	uint32_t i, turn;

	h->w->fast.floods = h->w->fast.no_block = 0;
	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < BURST; i++)
			m[i] = make(h, port, seen++, i == at ? end : NOTHING);
		h->w->fast.no_flood = h->w->fast.apart = 0;
		harness_burst(h, m, BURST, 0);
	}
}

static struct harness *begin(test_pipeline *p, bool off)
{
	struct harness *h = harness_new(NULL, 255, 1024);
	struct tg_learned l = {
		.asked_ms = h->now_ms, .mss = 1400, .wscale = 9, .sack = 1, .timestamps = 1};
	struct tg_server_key other = {.addr = {.w = {TG_WIRE32(198, 18, 1, 2)}}, .family = 4};
	uint16_t port;

	talk_services(h);
	for (port = 80; port < 80 + TALK_SERVICES; port++) {
		other.port_be = tg_swap16(port);
		tg_servers_put(&h->w->servers, &other, &l);
	}
	talk_deny(h, TG_WIRE32(11, 99, 0, 0), 16, 128);
	h->w->burst = p;
	h->w->fast.off = off;
	return h;
}

/* `wide`: how many SYNs this variant answers at once; 0: one. */
static void each_end(test_pipeline *p, const char *name, uint32_t wide)
{
	static const uint16_t ports[] = {80, 81, 82}; /* cookie, auth-cookie, auth-full */
	struct harness *slow, *fast;
	uint32_t at, end, i, floods;

	for (i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		for (end = 0; end < ENDS; end++) {
			slow = begin(p, true), fast = begin(p, false);
			for (at = 0; at < BURST; at++) {
				send_bursts(slow, ports[i], end, at, 1 + at * 2 * BURST);
				send_bursts(fast, ports[i], end, at, 1 + at * 2 * BURST);
				floods = ends(end, ports[i]) && wide ? at / wide * wide : BURST;
				floods = wide ? 2 * floods : 0;
				/* Presence bits may be another client's: then there are fewer. */
				CHECK(fast->w->fast.floods == floods ||
					      ((end == CONNECTED || end == VERIFIED) && at > 8 &&
					       fast->w->fast.floods < floods),
				      "%s, port %u: with %s at place %u, %llu of %u SYNs by "
				      "flood.h",
				      name, ports[i], names[end], at,
				      (unsigned long long)fast->w->fast.floods, floods);
			}
			talk_compare(slow, fast, names[end]);
			harness_free(slow);
			harness_free(fast);
		}
	}
}

void test_flood(void)
{
	test_each_pipeline(each_end);
}
