/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Where the answer to a SYN goes: to where the kernel's own answer would go, by its route to
 * the client. Often that is where the SYN came from. Behind LVS-DR, with two routers or with
 * policy routing it is not.
 *
 * The plane supplies what the kernel's tables say. Where they do not tell, or name another
 * interface, the kernel gets the SYN, within an allowance. Beyond the allowance the answer leaves by
 * that interface or, where none is known, goes to where the SYN came from, so that a flood that
 * exhausts the allowance leaves all other clients served.
 *
 * Must never: look anything up.
 */
#ifndef TG_REPLY_H
#define TG_REPLY_H

#include "host.h"

/* What a route says. */
enum tg_hop_kind {
	TG_HOP_NONE,    /* no route, or an unreachable one: the kernel does not answer */
	TG_HOP_VIA,     /* by one of the gateways in `paths` */
	TG_HOP_LINK, /* the client is on the link of paths[0]: its own MAC address is asked for */
	TG_HOP_UNKNOWN, /* by something that is not modelled: a tunnel, an encapsulation */
};

#define TG_HOP_PATHS 4

/* A segment is a link that ports of this machine are on: the number of an interface of the
 * kernel, the master's for ports of a bond or a bridge. */
struct tg_reply_path {
	uint64_t mac; /* first byte lowest; 0: not resolved */
	uint32_t segment;
	uint32_t vid; /* VLAN; 0: none */
	uint32_t dev; /* the interface that the route names */
	uint32_t covered; /* 1: programs of ours see what leaves by it */
};

struct tg_reply_hop {
	uint32_t kind; /* enum tg_hop_kind */
	uint32_t dev; /* LINK: the interface that neighbours are known by */
	uint32_t count; /* of paths */
	uint32_t pad;
	struct tg_reply_path paths[TG_HOP_PATHS];
};

/* A neighbour on the link. */
struct tg_reply_neighbour {
	uint64_t mac;
	uint64_t sure; /* 0: not confirmed for a long time */
};

enum tg_reply {
	TG_REPLY_BACK, /* to the MAC address that the SYN came from */
	TG_REPLY_NEXT, /* on the same link to another MAC address */
	TG_REPLY_UNRESOLVED, /* on the same link to a MAC address that is not known for certain */
	TG_REPLY_ELSEWHERE, /* on another link, or it is not known where */
	TG_REPLY_NOWHERE, /* no route */
	TG_REPLY_STALE, /* as NEXT, when this was last known */
	TG_REPLY_ACROSS, /* on another link, by an interface that is known */
};

struct tg_reply_route {
	enum tg_reply reply;
	uint64_t mac; /* of NEXT and STALE; of ACROSS tg_reply_across */
};

#define TG_REPLY_ROUTE(r, m) ((struct tg_reply_route){.reply = (r), .mac = (m)})

/* By another interface: its index, and above it whether programs of ours see what leaves by it. */
#define TG_ACROSS_COVERED (1ULL << 32)
TG_INLINE struct tg_reply_route tg_reply_across(const struct tg_reply_path *p)
{
	return TG_REPLY_ROUTE(p->dev ? TG_REPLY_ACROSS : TG_REPLY_ELSEWHERE,
			      p->dev ? p->dev | (p->covered ? TG_ACROSS_COVERED : 0) : 0);
}

/* An answer may leave by another interface if what the stack sends later needs no translation, or
 * gets it there. */
TG_INLINE enum tg_reply tg_reply_crossing(enum tg_reply reply, uint64_t across,
					  enum tg_takeover takeover)
{
	return reply != TG_REPLY_ACROSS || takeover == TG_TAKEOVER_ADOPT || across & TG_ACROSS_COVERED
		       ? reply
		       : TG_REPLY_ELSEWHERE;
}

/* To a client by gateways, for a SYN that came in on `segment` and `vid` from `from`. Any
 * gateway of several is right. */
TG_INLINE struct tg_reply_route tg_reply_via(const struct tg_reply_hop *hop, uint32_t segment,
					     uint32_t vid, uint64_t from)
{
	struct tg_reply_route route = TG_REPLY_ROUTE(TG_REPLY_ELSEWHERE, 0);
	uint32_t i;

	for (i = 0; i < TG_HOP_PATHS; i++) {
		const struct tg_reply_path *p = &hop->paths[i];

		if (i >= hop->count)
			break;
		if (p->segment != segment || p->vid != vid) {
			if (route.reply == TG_REPLY_ELSEWHERE)
				route = tg_reply_across(p);
			continue;
		}
		if (p->mac == from)
			return TG_REPLY_ROUTE(TG_REPLY_BACK, 0);
		if (route.reply != TG_REPLY_NEXT)
			route = p->mac ? TG_REPLY_ROUTE(TG_REPLY_NEXT, p->mac)
				       : TG_REPLY_ROUTE(TG_REPLY_UNRESOLVED, 0);
	}
	return route;
}

/* To a client on the link, by what is known of it; NULL: nothing. */
TG_INLINE struct tg_reply_route tg_reply_link(const struct tg_reply_neighbour *n, uint64_t from)
{
	if (!n)
		return TG_REPLY_ROUTE(TG_REPLY_UNRESOLVED, 0);
	if (n->mac == from)
		return TG_REPLY_ROUTE(TG_REPLY_BACK, 0);
	return n->sure ? TG_REPLY_ROUTE(TG_REPLY_NEXT, n->mac)
		       : TG_REPLY_ROUTE(TG_REPLY_UNRESOLVED, 0);
}

/* The daemon counts as gone when it has not updated this for so long: then any route but the way
 * back may have changed, and the kernel decides. */
#define TG_REPLY_STALE_NS 30000000000ULL

TG_INLINE struct tg_reply_route tg_reply_aged(struct tg_reply_route route, uint64_t updated_ns,
					      uint64_t now_ns)
{
	if (now_ns < updated_ns + TG_REPLY_STALE_NS)
		return route;
	if (route.reply == TG_REPLY_NEXT)
		route.reply = TG_REPLY_STALE;
	else if (route.reply == TG_REPLY_NOWHERE)
		route.reply = TG_REPLY_ELSEWHERE;
	return route;
}

/* True if an allowance is asked for. */
TG_INLINE bool tg_reply_asks(enum tg_reply reply)
{
	return reply != TG_REPLY_BACK && reply != TG_REPLY_NEXT;
}

/* What becomes of a SYN that would be answered. `allowed` counts where tg_reply_asks;
 * `strict`: the kernel drops what comes in on another link than its route leads to (rp_filter). */
TG_INLINE struct tg_decision tg_reply_judge(enum tg_reply reply, bool allowed, bool strict)
{
	if (reply == TG_REPLY_BACK)
		return TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
	if (reply == TG_REPLY_NEXT)
		return TG_DECIDE(TG_REPLY, TG_COUNT_reply_routed);
	if (allowed)
		return TG_DECIDE(TG_PASS, reply == TG_REPLY_UNRESOLVED ? TG_COUNT_pass_neighbour
								       : TG_COUNT_pass_route);
	if (reply == TG_REPLY_NOWHERE ||
	    ((reply == TG_REPLY_ELSEWHERE || reply == TG_REPLY_ACROSS) && strict))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_route);
	if (reply == TG_REPLY_ACROSS)
		return TG_DECIDE(TG_REPLY, TG_COUNT_reply_across);
	if (reply == TG_REPLY_STALE)
		return TG_DECIDE(TG_REPLY, TG_COUNT_reply_routed);
	return TG_DECIDE(TG_REPLY, TG_COUNT_reply_unsure);
}

#endif
