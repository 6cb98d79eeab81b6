/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the module with lwIP linked in. An input is a list of
 * things that happen to a listener: SYNs with any option bytes in one pbuf or
 * two, ACKs good, tampered and random, whole packets of any bytes, time that
 * passes or jumps, memory that runs out. Afterwards lwIP must hold exactly what
 * it held before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lwip/mem.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "net.h"
#include "tg_lwip.h"

#define EVENTS_MAX 200
#define BLOCKS_MAX 64

struct input {
	const u8_t *at, *end;
};

static u8_t take(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static u32_t take32(struct input *in)
{
	u32_t v = take(in);

	v = v << 8 | take(in);
	v = v << 8 | take(in);
	return v << 8 | take(in);
}

static void *blocks[BLOCKS_MAX];
static struct segment last_ack;

static void take_options(struct input *in, struct segment *s)
{
	u8_t i;

	s->opts_len = (u8_t)(take(in) % 11 * 4);
	for (i = 0; i < s->opts_len; i++)
		s->opts[i] = take(in);
}

static void take_data(struct input *in, struct segment *s)
{
	s->data_len = (u16_t)(take(in) * 5);
	memset(s->data, take(in), s->data_len);
}

/* A SYN with arbitrary contents, and perhaps the ACK that completes the handshake. */
static void event_syn(struct input *in, int family, int finish)
{
	u8_t peer = take(in);
	struct segment s = net_segment(family, peer % 8, (u16_t)(1000 + peer / 8), TCP_SYN,
				       take32(in), 0),
		       *answer;
	int cut = take(in) % 41;

	take_options(in, &s);
	take_data(in, &s);
	net_sent_clear();
	net_inject_cut(&s, cut);
	if (!finish)
		return;
	while ((answer = net_sent()) != NULL)
		if (answer->dst_port == s.src_port && (answer->flags & TCP_SYN))
			break;
	if (answer == NULL)
		return;
	s.flags = (u8_t)(TCP_ACK | (take(in) & (TCP_FIN | TCP_PSH)));
	s.seq = answer->ack;
	s.ack = answer->seq + 1;
	take_options(in, &s);
	take_data(in, &s);
	last_ack = s;
	net_inject_cut(&s, cut);
}

static void event_replay(struct input *in)
{
	struct segment s = last_ack;

	if (s.dst_port != NET_PORT)
		return;
	if (take(in) & 1)
		s.ack ^= 1u << (take(in) & 31);
	if (take(in) & 1)
		s.src_port = (u16_t)(s.src_port + take(in));
	take_data(in, &s);
	net_inject_cut(&s, take(in) % 41);
}

static void event_segment(struct input *in, int family)
{
	u8_t peer = take(in);
	struct segment s = net_segment(family, peer % 8, (u16_t)(1000 + peer / 8), take(in),
				       take32(in), take32(in));

	s.wnd = (u16_t)take32(in);
	take_options(in, &s);
	take_data(in, &s);
	net_inject_cut(&s, take(in) % 41);
}

static void event_packet(struct input *in)
{
	u8_t bytes[128], len = take(in) % sizeof(bytes), i;

	for (i = 0; i < len; i++)
		bytes[i] = take(in);
	net_inject_bytes(bytes, len);
}

/* Allocates or frees a piece of lwIP's heap. */
static void event_memory(struct input *in)
{
	u8_t i = take(in) % BLOCKS_MAX;
	u16_t len = (u16_t)(take(in) * 16 + 1);

	if (blocks[i] != NULL) {
		mem_free(blocks[i]);
		blocks[i] = NULL;
	} else {
		blocks[i] = mem_malloc(len);
	}
}

static void event(struct input *in)
{
	u8_t what = take(in);
	int family = what & 0x80 ? 6 : 4;

	switch (what & 7) {
	case 0:
		event_syn(in, family, 0);
		break;
	case 1:
		event_syn(in, family, 1);
		break;
	case 2:
		event_replay(in);
		break;
	case 3:
		event_segment(in, family);
		break;
	case 4:
		event_packet(in);
		break;
	case 5:
		event_memory(in);
		break;
	case 6:
		net_advance(take(in) * 16u);
		break;
	default:
		net_time_set(net_now_ms() + (take32(in) & 0xffffff));
		break;
	}
}

static void finish(const struct net_usage *before)
{
	struct net_usage after;
	int i;

	for (i = 0; i < BLOCKS_MAX; i++) {
		if (blocks[i] != NULL)
			mem_free(blocks[i]);
		blocks[i] = NULL;
	}
	net_abort_all();
	net_advance(61000); /* fragments under reassembly expire */
	net_abort_all();
	after = net_usage();
	if (memcmp(before, &after, sizeof(after)) != 0 || net_bad_checksums() != 0) {
		fprintf(stderr, "leak: pcb %u seg %u pbuf %u pool %u heap %u, bad checksums %u\n",
			after.tcp_pcb, after.tcp_seg, after.pbuf, after.pbuf_pool, after.heap,
			net_bad_checksums());
		abort();
	}
}

int LLVMFuzzerTestOneInput(const u8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const u8_t *data, size_t size)
{
	static const u8_t secret[TG_LWIP_SECRET_LEN] = {1, 2, 3};
	static struct net_usage before;
	static int started;
	struct input in = {data, data + size};
	int i;

	net_init();
	if (!started) {
		net_listen(NET_PORT, 4);
		net_abort_all();
		before = net_usage();
		started = 1;
	}
	net_time_set(1000);
	tg_lwip_init(secret);
	memset(&last_ack, 0, sizeof(last_ack));
	memset(&tg_lwip_stats, 0, sizeof(tg_lwip_stats));
	for (i = 0; i < EVENTS_MAX && in.at < in.end; i++)
		event(&in);
#ifdef TG_FUZZ_CANARY
	/* A planted leak: a connection from a valid cookie keeps one pbuf. */
	if (tg_lwip_stats.cookie_valid)
		pbuf_alloc(PBUF_RAW, 8, PBUF_RAM);
#endif
	finish(&before);
	return 0;
}
