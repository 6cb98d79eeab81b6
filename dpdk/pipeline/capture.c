/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.h.
 */
#include "capture.h"

#include <time.h>

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t); /* no system call: vDSO */
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The frame's first bytes in one piece: where they stand, or in the event. */
static const uint8_t *first_bytes(struct tg_capturing *c, const struct rte_mbuf *m, uint32_t *len)
{
	*len = m->pkt_len < TG_CAPTURE_SNAP ? m->pkt_len : TG_CAPTURE_SNAP;
	return rte_pktmbuf_read(m, 0, *len, c->event.frame);
}

/* Whose counters a packet may move. */
static void find_services(struct tg_capturing *c, const struct tg_config *config,
			  const struct tg_packet *pkt)
{
	struct tg_packet reply = *pkt;

	reply.dst = pkt->src;
	reply.ports = pkt->ports << 16;
	c->services[0] = 0;
	c->services[1] = tg_config_service_find(config, pkt);
	c->services[2] = tg_config_service_find(config, &reply);
	if (c->services[2] == c->services[1])
		c->services[2] = 0;
}

/* Whether the frame is looked at; its first bytes are then in the event. */
static bool choose(struct tg_worker *w, struct tg_capturing *c, const struct rte_mbuf *m)
{
	const struct tg_capture_settings *s = &c->all->settings;
	struct tg_packet pkt = {0};
	uint32_t len;
	const uint8_t *data = first_bytes(c, m, &len);
	enum tg_parse_result parsed;
	enum tg_capture_take take;
	bool tcp;

	if (!data || !len || atomic_load_explicit(&c->all->left, memory_order_relaxed) <= 0)
		return false;
	parsed = tg_packet_parse(&pkt, data, data + len);
	tcp = parsed == TG_PARSE_TCP || parsed == TG_PARSE_FRAGMENT;
	if (!tg_capture_wants(s, &pkt, tcp))
		return false;
	take = tg_capture_take(&c->turn, s->sample, w->now_ns);
	if (take == TG_CAPTURE_BEYOND)
		atomic_fetch_add_explicit(&c->all->beyond, 1, memory_order_relaxed);
	if (take != TG_CAPTURE_LOOK)
		return false;
	if (data != c->event.frame)
		memcpy(c->event.frame, data, len);
	memset(c->services, 0, sizeof(c->services));
	if (tcp)
		find_services(c, w->config, &pkt);
	c->event.kept = (uint16_t)len;
	c->event.len = m->pkt_len;
	return true;
}

/* Saves what the frame may change. */
static void begin(struct tg_worker *w, struct tg_capturing *c, uint16_t port)
{
	uint32_t i;

	for (i = 0; i < TG_CAPTURE_SERVICES; i++)
		if (i == 0 || c->services[i])
			c->before[i] = w->rows[c->services[i]];
	c->waiting = tg_waiting_frames(&w->waiting);
	c->event.time_ns = monotonic_ns();
	c->event.ifindex = port;
	c->event.service = 0;
	c->event.hook = TG_CAPTURE_DPDK;
	c->event.reasons = 0;
	c->port = port;
	c->back = c->on = false;
}

static uint32_t transmit(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n)
{
	struct tg_capturing *c = w->capture;

	*(port == c->port ? &c->back : &c->on) = true;
	return c->transmit(w, port, m, n);
}

static void put(struct tg_capturing *c)
{
	uint32_t head = atomic_load_explicit(&c->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&c->tail, memory_order_acquire) == TG_CAPTURE_RING) {
		atomic_fetch_add_explicit(&c->all->lost, 1, memory_order_relaxed);
		return;
	}
	c->ring[head % TG_CAPTURE_RING] = c->event;
	atomic_store_explicit(&c->head, head + 1, memory_order_release);
}

/* Reports what became of the frame, if that is wanted. */
static void end(struct tg_worker *w, struct tg_capturing *c)
{
	const struct tg_capture_settings *s = &c->all->settings;
	bool wanted = false, held = tg_waiting_frames(&w->waiting) > c->waiting;
	uint32_t i, n;

	for (i = 0; i < TG_CAPTURE_SERVICES; i++) {
		if (i && !c->services[i])
			continue;
		for (n = 0; n < TG_COUNTERS; n++) {
			if (w->rows[c->services[i]].count[n] == c->before[i].count[n])
				continue;
			wanted |= tg_capture_reason(&c->event, s, n, c->services[i]);
			held |= n == TG_COUNT_store_kept;
		}
	}
	c->event.verdict = c->on     ? TG_CAPTURE_REDIRECT
			   : c->back ? TG_CAPTURE_TX
			   : held    ? TG_CAPTURE_HOLD
				     : TG_CAPTURE_DROP;
	if (tg_capture_reports(s, &c->event, wanted) &&
	    atomic_fetch_sub_explicit(&c->all->left, 1, memory_order_relaxed) > 0)
		put(c);
}

static void burst(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port)
{
	struct tg_capturing *c = w->capture;
	uint32_t from = 0, i;

	for (i = 0; i < n; i++) {
		if (!choose(w, c, m[i]))
			continue;
		if (from < i)
			c->burst(w, m + from, i - from, port);
		begin(w, c, port);
		w->transmit = transmit;
		c->burst(w, m + i, 1, port);
		w->transmit = c->transmit;
		end(w, c);
		from = i + 1;
	}
	if (from < n)
		c->burst(w, m + from, n - from, port);
}

void tg_capture_turn_to(struct tg_worker *w, struct tg_capturing *c)
{
	if (w->capture)
		w->burst = w->capture->burst;
	w->capture = c;
	if (!c)
		return;
	c->burst = w->burst;
	c->transmit = w->transmit;
	w->burst = burst;
}

const struct tg_capture_event *tg_capturing_oldest(struct tg_capturing *c)
{
	uint32_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&c->head, memory_order_acquire))
		return NULL;
	return &c->ring[tail % TG_CAPTURE_RING];
}

void tg_capturing_take(struct tg_capturing *c)
{
	atomic_fetch_add_explicit(&c->tail, 1, memory_order_release);
}
