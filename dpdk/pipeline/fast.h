/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fast path knows. Nearly all frames of a flood, and of the connections that live through
 * it, look alike: they are recognised by comparing words, and need neither struct tg_item nor its
 * parser. fast_syn.h answers SYNs out of templates, fast_flow.h translates segments; any other
 * frame, or one whose handling depends on a table, takes the slow path, with the same result.
 *
 * The templates are made by core/: here are only the places of what differs.
 */
#ifndef TG_DPDK_FAST_H
#define TG_DPDK_FAST_H

#include <rte_mbuf.h>

#include "config.h"
#include "siphash_burst.h"

/* A flood to all addresses of a network is answered like one to a single address as long as this has places for them: each
 * server has two, of one set. */
#define TG_FAST_SETS_LOG2 10
#define TG_FAST_SERVERS (2U << TG_FAST_SETS_LOG2) /* of each family */
#define TG_FAST_ROOM 128 /* bytes from the frame's begin that a buffer must have */

/* Which path a frame of the burst takes. */
enum tg_fast_path {
	TG_SLOW_PATH, /* its struct tg_item is set */
	TG_FAST_SYN,
	TG_FAST_SEGMENT,
	TG_FAST_FORWARD, /* fast_forward.h */
	/* The last ones: of several frames at once. */
	TG_FAST_WIDE, /* a SYN, together with others: fast_wide.h */
	TG_FAST_WIDE_V6, /* fast_wide_v6.h */
	TG_FAST_WIDE_FORWARD, /* a segment that is forwarded, together with others: fast_wide_forward.h */
	TG_FAST_WIDE_SEGMENT, /* a segment that is translated, together with others: fast_wide_flow.h */
};

/* The answer to all SYNs to one server that offer the same kinds of options. */
struct tg_form {
	uint8_t bytes[80]; /* from the IP header; zero where a SYN's own numbers are inserted */
	uint64_t ts_mask; /* all ones if it has timestamps */
	uint32_t option_bits; /* of the cookie: all but the client's MSS and shift */
	uint32_t flow_key; /* of the flow label, which the template lacks */
	uint16_t len; /* bytes; 0: not made yet */
	uint16_t ip_sum, tcp_sum; /* of the template, not complemented */
	bool ts, wscale;
} __attribute__((aligned(64)));

/* What the clients of one server are offered. */
struct tg_fast_server {
	uint64_t addr[2]; /* as on the wire; IPv4: in the low half of addr[0] */
	uint32_t round; /* of struct tg_fast when this was learned; 0: never */
	uint32_t burst; /* the last burst that used it: during that it is not replaced */
	uint16_t port_be;
	uint16_t id;
	uint8_t strategy;
	bool answers; /* false: take the slow path */
	struct tg_service advertised;
	struct tg_siphash begin; /* of its cookies, after what is the same in all: tg_cookie_begin */
	uint64_t begin_no; /* of this state; each has another */
	struct tg_form form[8]; /* by what is offered: timestamps 4, SACK 2, window scale 1 */
};

/* What the first stage passes to the last one for a frame. */
struct tg_fast_frame {
	struct rte_mbuf *m;
	uint8_t *ip;
	const struct tg_fast_server *server; /* of a SYN */
	const struct tg_form *form;
	uint64_t white_key; /* of a segment that is forwarded if its source has verified; 0: whoever sends it */
	uint32_t presence; /* of its tuple, tg_presence_flow */
	uint32_t white; /* of its source, tg_presence_source */
	uint32_t option_bits;
	uint32_t tsval; /* the client's, as on the wire */
	uint32_t slot; /* of a segment's flow, most likely */
	int16_t lane; /* of its hash */
	int16_t half_lane; /* of a SYN's hash for the SYN cache */
	uint8_t l3_off;
	uint8_t dir; /* enum tg_direction */
	bool v6;
};

/* Hashes of cookies, each continued from its server's state. A lane keeps the state of its last
 * message: under a flood to one server all of them have it already. */
struct tg_fast_cookies {
	struct tg_siphash_batch batch;
	uint64_t begin_no[TG_LANES_MAX]
		__attribute__((aligned(64))); /* whose state the lane has; 0: none's */
};

/* Of SYNs that are answered several at once: the words of the cookies' messages, and the MACs. */
struct tg_wide_cookies {
	uint64_t m[4][TG_LANES_MAX] __attribute__((aligned(64)));
	uint64_t mac[TG_LANES_MAX] __attribute__((aligned(64)));
};

/* What SYNs offered last, all of a group the same, and the option bits of their cookies. */
struct tg_wide_options {
	uint64_t bits[8] __attribute__((aligned(64)));
	const struct tg_form *form; /* NULL: nothing */
	uint16_t mss_be;
	uint8_t wscale;
};

/* Which words of a front hashes of presence bits select, and which bits of these, modulo 64. */
struct tg_wide_places {
	uint64_t word[8] __attribute__((aligned(64))), bit[8] __attribute__((aligned(64)));
};

/* The hashes as well. */
struct tg_wide_hashes {
	uint64_t hash[8] __attribute__((aligned(64)));
	struct tg_wide_places places;
};

/* SYNs that are answered at once: eight with AVX-512, four with AVX2 (wide.h). */
struct tg_wide_group {
	uint64_t tsval[8] __attribute__((aligned(64))); /* the clients', as on the wire */
	struct tg_wide_hashes presence, white;
	const struct tg_fast_server *server[8]; /* of each; of all, if they are alike: the first */
	bool alike;
	bool v6;
};

/* Segments that are translated at once: the columns of wide.h that change, and what each is. */
struct tg_wide_segments {
	uint64_t q3[8] __attribute__((aligned(64))), q4[8] __attribute__((aligned(64)));
	uint64_t q5[8] __attribute__((aligned(64))), q6[8] __attribute__((aligned(64)));
	uint64_t lens[8] __attribute__((aligned(64))); /* the mbuf's words from pkt_len on */
	uint64_t slot[8] __attribute__((aligned(64))); /* of the flow, most likely */
	uint8_t to; /* a bit for each that goes to its server */
	uint8_t ts; /* a bit for each that has timestamps */
};

/* Segments that are forwarded at once. */
struct tg_wide_forwards {
	uint64_t key[8]
		__attribute__((aligned(64))); /* of the sources, tg_white_key; 0: whoever sends it */
	bool keyed; /* false: whoever sends any of them */
};

/* The presence bits of a table. */
struct tg_fast_bits {
	const uint64_t *of[2]; /* active's and history's */
	const uint64_t *front; /* of both */
};

struct tg_fast {
	bool off; /* for tests: everything takes the slow path */
	uint32_t round; /* goes up when anything changes that a template depends on */
	uint32_t burst_no;
	uint32_t apart,
		apart6; /* bursts in which no SYNs are answered together: they were to others than those it is for */
	uint32_t no_block; /* bursts in which it looks at one group at a time: in the last others were among the SYNs */
	uint32_t no_flood; /* bursts in which flood.h is not tried: the last did not begin with its SYNs */
	struct {
		uint16_t mss; /* looked up last */
		uint8_t index;
	} mss4, mss6;
	struct tg_fast_bits flow_bits, white_bits; /* as of this burst */
	uint64_t syns, segments; /* frames on the fast path */
	uint64_t wides, wide_segments, wide_forwards; /* of these, those processed several at once */
	uint64_t floods; /* of wides, those at the begin of a burst: flood.h */
	uint64_t wides6; /* of wides, those over IPv6 */
	uint64_t wides_mixed; /* of wides, those that were to more than one server */
	uint8_t path[TG_LANES_MAX];
	struct tg_fast_frame frame[TG_LANES_MAX];
	struct tg_fast_cookies cookies4, cookies6;
	struct tg_wide_cookies wide, wide6;
	uint64_t begin_no; /* of the state made last */
	struct tg_siphash_batch flows4, flows6, wide_flows; /* under the table's */
	struct tg_siphash_batch halves4, halves6, wide_halves,
		wide_halves6; /* under the SYN cache's */
	uint32_t forwards; /* frames of the burst that take this path */
	struct tg_wide_group group[TG_LANES_MAX / 4];
	struct tg_wide_options options; /* of this burst */
	struct tg_fast_server *wide_last; /* of the burst's last group over IPv4; NULL: none */
	struct tg_wide_segments segments8[TG_LANES_MAX / 4];
	struct tg_wide_forwards forwards8[TG_LANES_MAX / 4];
	struct tg_fast_server servers4[TG_FAST_SERVERS], servers6[TG_FAST_SERVERS];
};

#endif
