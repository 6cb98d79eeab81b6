/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.h.
 */
#include "traffic.h"

/* An address that can be a client: 11.0.0.0 to 126.255.255.255. */
static uint32_t client(uint64_t r)
{
	return TG_WIRE32(11 + (r >> 24 & 0xff) % 116, r >> 16, r >> 8, r);
}

static void put(struct tg_mem_port *p, uint32_t at, const struct tg_segment *s)
{
	static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
	uint8_t *f = p->frames + (size_t)at * p->stride;
	uint32_t len = TG_ETH_HDR_LEN + tg_segment_len(s);

	memcpy(f, macs, sizeof(macs));
	tg_store16(f + TG_ETH_TYPE, s->family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6);
	(void)tg_segment_write((struct tg_writer){f + TG_ETH_HDR_LEN, f + p->stride}, s);
	p->lens[at] = (uint16_t)len;
}

/* Servers stand one after another from TG_BENCH_SERVER on, whose last two bytes are 1. */
uint32_t tg_traffic_server(uint32_t n)
{
	return TG_WIRE32(198, 18, 1 + (n >> 8), 1 + n);
}

/* A SYN as Linux sends it, but for its addresses. */
static struct tg_segment syn(uint8_t family, uint32_t client_port, uint64_t numbers)
{
	return (struct tg_segment){
		.ports = client_port | (uint32_t)TG_BENCH_PORT_BE << 16,
		.seq = (uint32_t)numbers,
		.options = {.mss = family == 4 ? 1460 : 1440,
			    .wscale = 7,
			    .sack_ok = true,
			    .ts_ok = true,
			    .tsval = (uint32_t)(numbers >> 32)},
		.window = 64240,
		.flags = TG_TCP_SYN,
		.kind = TG_SEGMENT_HANDSHAKE,
		.family = family,
		.ttl = 60,
	};
}

void tg_traffic_syns(struct tg_mem_port *p, uint64_t seed, uint32_t servers)
{
	uint32_t i;

	for (i = 0; i < p->frames_n; i++) {
		uint64_t a = tg_splitmix(&seed), b = tg_splitmix(&seed);
		struct tg_segment s = syn(4, (uint32_t)(a >> 32 & 0xffff), b);

		s.src.w[0] = client(a);
		s.dst.w[0] = tg_traffic_server(servers == 2 ? i % 2 : (uint32_t)(a >> 48) % servers);
		put(p, i, &s);
	}
}

union tg_addr tg_traffic_server_v6(void)
{
	return (union tg_addr){.w = {TG_WIRE32(0x20, 1, 0x0d, 0xb8), 0, 0, TG_BENCH_SERVER}};
}

void tg_traffic_syns_v6(struct tg_mem_port *p, uint64_t seed)
{
	uint32_t i;

	for (i = 0; i < p->frames_n; i++) {
		uint64_t a = tg_splitmix(&seed), b = tg_splitmix(&seed);
		struct tg_segment s = syn(6, (uint32_t)(a >> 32 & 0xffff), b);

		s.src.w[0] = TG_WIRE32(0x20, 1, a >> 48, a >> 56); /* a site of its own */
		s.src.w[1] = (uint32_t)a;
		s.src.d[1] = tg_splitmix(&seed);
		s.dst = tg_traffic_server_v6();
		put(p, i, &s);
	}
}

struct tg_packet tg_traffic_flow(uint32_t i)
{
	return (struct tg_packet){
		.src = {.w = {TG_WIRE32(11, i >> 14, i >> 6, i << 2 | 1)}},
		.dst = {.w = {TG_BENCH_SERVER}},
		.ports = tg_swap16(1024 + i % 60000) | (uint32_t)TG_BENCH_PORT_BE << 16,
		.family = 4,
	};
}

static void segments(struct tg_mem_port *p, uint32_t flows, uint64_t seed, bool both)
{
	uint32_t i;

	for (i = 0; i < p->frames_n; i++) {
		uint64_t a = tg_splitmix(&seed), b = tg_splitmix(&seed);
		struct tg_packet flow = tg_traffic_flow((uint32_t)a % flows);
		bool back = both && a >> 63;
		struct tg_segment s = {
			.src = back ? flow.dst : flow.src,
			.dst = back ? flow.src : flow.dst,
			.ports = back ? flow.ports << 16 | flow.ports >> 16 : flow.ports,
			.seq = (uint32_t)b,
			.ack = (uint32_t)(b >> 32),
			.options = {.tsval = (uint32_t)a, .tsecr = (uint32_t)b},
			.window = 501,
			.flags = TG_TCP_ACK,
			.kind = TG_SEGMENT_TIMESTAMPS,
			.family = 4,
			.ttl = 60,
		};

		put(p, i, &s);
	}
}

void tg_traffic_segments(struct tg_mem_port *p, uint32_t flows, uint64_t seed)
{
	segments(p, flows, seed, true);
}

void tg_traffic_client_segments(struct tg_mem_port *p, uint32_t flows, uint64_t seed)
{
	segments(p, flows, seed, false);
}
