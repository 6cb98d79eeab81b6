/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * `tidegate capture`: which packets are looked at, and which of these are reported. A plane saves the
 * counters of a packet's services, lets the gate decide, and notes which counters have moved: they
 * are the decision's reasons.
 *
 * Must never: change a packet or a verdict; look at more packets than the budget allows.
 */
#ifndef TG_CAPTURE_H
#define TG_CAPTURE_H

#include "host.h"
#include "service.h"

#define TG_CAPTURE_SNAP 256
#define TG_CAPTURE_REASONS 8
#define TG_CAPTURE_SERVICES                                                                        \
	3 /* of no service, of the destination, of the source: a server's answer */
#define TG_CAPTURE_WORDS 4

/* A CPU looks at TG_CAPTURE_BUDGET packets at the most in each 2^TG_CAPTURE_WINDOW ns: 30,000 a
 * second, a few percent of its time, however large the flood. */
#define TG_CAPTURE_WINDOW 24
#define TG_CAPTURE_BUDGET 512

_Static_assert(TG_COUNTERS <= 64 * TG_CAPTURE_WORDS,
	       "the set of reasons has room for every counter");

enum tg_capture_hook {
	TG_CAPTURE_XDP,
	TG_CAPTURE_INGRESS,
	TG_CAPTURE_EGRESS,
	TG_CAPTURE_DPDK,
};

/* What became of a packet; the same names for all planes. */
enum tg_capture_verdict {
	TG_CAPTURE_PASS, /* to the kernel */
	TG_CAPTURE_DROP,
	TG_CAPTURE_TX,       /* back out of the interface */
	TG_CAPTURE_REDIRECT, /* out of another one */
	TG_CAPTURE_HOLD,     /* kept until its server or its next hop is known */
};

struct tg_capture_settings {
	uint64_t until_ns; /* CLOCK_MONOTONIC: the lease, where there is one */
	uint64_t reasons[TG_CAPTURE_WORDS]; /* counters, a bit for each; one must be among a packet's */
	union tg_addr net;
	uint8_t net_family; /* 0: any */
	uint8_t net_len;
	uint16_t port_be; /* 0: any */
	uint32_t any_reason;
	uint32_t verdicts; /* 1 << enum tg_capture_verdict */
	uint32_t sample; /* one of so many is looked at */
	uint32_t part; /* 1: of the adopter beside a translating server, whose services have other numbers */
};

/* What the packet path counts of it. */
struct tg_capture_counts {
	int64_t left; /* packets that are still wanted */
	uint64_t lost; /* there was no room for them */
	uint64_t beyond; /* not looked at: beyond the budget */
};

struct tg_capture_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t ifindex; /* under DPDK, the port */
	uint32_t len; /* of the frame */
	uint32_t service;
	uint16_t kept; /* bytes of the frame that follow */
	uint8_t hook; /* enum tg_capture_hook */
	uint8_t verdict;
	uint8_t bare; /* it begins with its IP header */
	uint8_t reasons; /* how many moved; the first are listed */
	uint8_t part;
	uint8_t requeued; /* the gate has seen it before and put it, or a copy, at the end of the queue */
	uint16_t reason[TG_CAPTURE_REASONS];
	uint8_t frame[TG_CAPTURE_SNAP];
};

/* Which packets are looked at, on one CPU. */
struct tg_capture_turn {
	uint32_t turn; /* of sample */
	uint32_t used; /* of the budget, */
	uint64_t window; /* in this window */
};

enum tg_capture_take {
	TG_CAPTURE_NOT_NOW,
	TG_CAPTURE_LOOK,
	TG_CAPTURE_BEYOND,
};

/* Whether it is this packet's turn, and the CPU's budget allows it. */
TG_INLINE enum tg_capture_take tg_capture_take(struct tg_capture_turn *t, uint32_t sample,
					       uint64_t now_ns)
{
	uint64_t window = now_ns >> TG_CAPTURE_WINDOW;

	if (++t->turn < sample)
		return TG_CAPTURE_NOT_NOW;
	t->turn = 0;
	if (t->window != window) {
		t->window = window;
		t->used = 0;
	}
	return ++t->used > TG_CAPTURE_BUDGET ? TG_CAPTURE_BEYOND : TG_CAPTURE_LOOK;
}

TG_INLINE bool tg_capture_in_net(const struct tg_capture_settings *s, const union tg_addr *addr)
{
	union tg_addr net = tg_addr_mask(*addr, s->net_family, s->net_len);
	int i;

	for (i = 0; i < (s->net_family == 4 ? 1 : 4); i++)
		if (net.w[i] != s->net.w[i])
			return false;
	return true;
}

/* Whether a packet is from or to the prefix and port that are wanted. */
TG_INLINE bool tg_capture_wants(const struct tg_capture_settings *s, const struct tg_packet *pkt,
				bool tcp)
{
	if (s->net_family && (s->net_family != pkt->family || (!tg_capture_in_net(s, &pkt->src) &&
							       !tg_capture_in_net(s, &pkt->dst))))
		return false;
	return !s->port_be ||
	       (tcp && (s->port_be == TG_SRC_PORT_BE(pkt) || s->port_be == TG_DST_PORT_BE(pkt)));
}

/* A counter has moved, of a service or (0) of none. True if it is a reason that is wanted. */
TG_INLINE bool tg_capture_reason(struct tg_capture_event *e, const struct tg_capture_settings *s,
				 uint32_t counter, uint32_t service)
{
	uint32_t at = e->reasons;

	if (service)
		e->service = service;
	e->reasons = (uint8_t)(at + 1);
	if (at < TG_CAPTURE_REASONS)
		e->reason[TG_BOUND(at, TG_CAPTURE_REASONS)] = (uint16_t)counter;
	return s->reasons[counter / 64 & (TG_CAPTURE_WORDS - 1)] & 1ULL << (counter & 63);
}

/* Whether what has been decided is reported. `wanted`: it has a reason that is. */
TG_INLINE bool tg_capture_reports(const struct tg_capture_settings *s,
				  const struct tg_capture_event *e, bool wanted)
{
	if (!e->reasons && (e->verdict == TG_CAPTURE_PASS || e->requeued))
		return false; /* nothing was decided about what its sender has sent */
	return (wanted || s->any_reason) && (s->verdicts & 1U << (e->verdict & 7));
}

#endif
