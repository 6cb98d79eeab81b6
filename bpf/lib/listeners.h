/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The listeners that a gate knows of (core/listener.h), for those services whose addresses and
 * ports are not all alike, and a notification that makes userspace look before its next regular
 * interval.
 *
 * Must never: notify twice before userspace has looked.
 */
#ifndef TG_BPF_LISTENERS_H
#define TG_BPF_LISTENERS_H

#include "gate.h"

#define TG_LISTENERS_MAX (1 << 16)

/* Every place of a protected port where something listens. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_LISTENERS_MAX);
	__type(key, struct tg_listener_key);
	__type(value, struct tg_listener_entry);
} tg_listeners SEC(".maps");

/* Why userspace has to look. */
enum tg_bell_reason {
	TG_BELL_LISTENER = 1, /* something began or ceased to listen */
	TG_BELL_ORPHAN = 2,   /* a verified ACK met no listener */
	TG_BELL_REFUSED = 3,  /* an adoption was refused */
};

struct tg_bell_event {
	__u32 reason;
	__u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} tg_bell SEC(".maps");

/* 1: userspace has been notified; it clears this before it looks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} tg_bell_rung SEC(".maps");

static __always_inline void tg_bell_ring(enum tg_bell_reason reason, __u32 port)
{
	struct tg_bell_event event = {.reason = reason, .port = port};
	__u32 zero = 0;
	__u32 *rung = bpf_map_lookup_elem(&tg_bell_rung, &zero);

	if (!rung || *rung)
		return;
	*rung = 1;
	bpf_ringbuf_output(&tg_bell, &event, sizeof(event), 0);
}

/* enum tg_listener of the place `at`. The kernel, too, prefers a listener on the address
 * itself to one on the wildcard. */
TG_GLOBAL int tg_listener_look(const struct tg_listener_key *at)
{
	struct tg_listener_key key;
	struct tg_listener_entry *e;

	if (!at)
		return TG_LISTENER_NONE;
	key = *at;
	e = bpf_map_lookup_elem(&tg_listeners, &key);
	if (!e) {
		key.addr.d[0] = key.addr.d[1] = 0;
		e = bpf_map_lookup_elem(&tg_listeners, &key);
	}
	return tg_listener_at(e, e && e->paused_until_ns ? TG_CLOCK_NS() : 0);
}

/* The entry of a place, as the kernel would choose; NULL: nobody listens. */
static __always_inline struct tg_listener_entry *tg_listener_entry_at(const struct tg_listener_key *at)
{
	struct tg_listener_key key = *at;
	struct tg_listener_entry *e = bpf_map_lookup_elem(&tg_listeners, &key);

	if (e)
		return e;
	key.addr.d[0] = key.addr.d[1] = 0;
	return bpf_map_lookup_elem(&tg_listeners, &key);
}

/* 1 if a connection may be adopted at a place that is TG_LISTENER_OK; `may_prove`: also to find out
 * whether that works again. */
TG_GLOBAL int tg_listener_try(const struct tg_listener_key *at, __u32 may_prove)
{
	struct tg_listener_entry *e = at ? tg_listener_entry_at(at) : 0;

	return !e || ((may_prove || e->refusals < TG_REFUSALS_PROVE) &&
		      tg_listener_tries(e, TG_CLOCK_NS()));
}

/* An adoption at a place has produced a socket. */
TG_GLOBAL int tg_listener_made(const struct tg_listener_key *at)
{
	struct tg_listener_entry *e = at ? tg_listener_entry_at(at) : 0;

	if (e)
		tg_listener_adopted(e);
	return 0;
}

/* An adoption has produced none, and its translation has; `client` distinguishes clients. 1 if that
 * changes how connections are taken over there. */
TG_GLOBAL int tg_listener_fails(const struct tg_listener_key *at, __u32 client)
{
	struct tg_listener_entry *e = at ? tg_listener_entry_at(at) : 0;

	return e && e->state == TG_LISTENER_OK && tg_listener_unproven(e, client, TG_CLOCK_NS());
}

/* What listens where a packet of a service goes to. */
static __always_inline enum tg_listener tg_listener_of(const struct tg_service *svc,
						       const struct tg_packet *pkt)
{
	enum tg_listener listener = tg_service_listener(svc, pkt->family);
	/* Not the packet itself: what is passed to a function is kept in memory from the program's
	 * first instruction on, and the fast path of a SYN would pay for that. */
	struct tg_listener_key at;

	if (TG_LIKELY(listener != TG_LISTENER_VARIES))
		return listener;
	at = (struct tg_listener_key){
		.addr = pkt->dst, .port_be = TG_DST_PORT_BE(pkt), .family = pkt->family};
	return (enum tg_listener)tg_listener_look(&at);
}

#endif
