/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The patrol's judgement (Terminus): which sources a customer may
 * use, which traffic somebody has asked not to get, and the true-source
 * codepoint. Plane-neutral: a plane brings tables, clock and frames.
 *
 * Must never: look at anything above IP (except the type of neighbour discovery), keep state of its
 * own, or forward a marked packet that did not come from an allowed source.
 */
#ifndef TG_PATROL_H
#define TG_PATROL_H

#include "checksum.h"
#include "host.h"

enum tg_patrol_direction {
	TG_FROM_CUSTOMER = 0, /* to the rest of the world; the paper's BP */
	TG_TO_CUSTOMER = 1,   /* to customers' hosts; the paper's EP */
};

/* What a port does to the codepoint of what comes in through it. */
enum tg_patrol_mark {
#define TG_ABI_MARK(name, number, word, help) TG_MARK_##name = number,
#include "abi.def"
};

/* What a filter does. One filter has one of these. */
enum tg_filter_action {
	TG_FILTER_NONE = 0,
	TG_FILTER_BLOCK = 1,
	TG_FILTER_BLOCK_TS0 = 2, /* block where the codepoint is not set */
	TG_FILTER_CLEAR_TS = 3,  /* let pass, without the codepoint */
	TG_FILTER_ALLOW = 4,     /* exception: no filter applies */
};

enum tg_patrol_parse_result {
	TG_PATROL_OTHER, /* not IP: ARP and its like */
	TG_PATROL_IP,
	TG_PATROL_BROKEN, /* IP with an inconsistent or truncated header */
	TG_PATROL_LINK_LOCAL, /* from a link-local address to beyond the link: not routable */
};

struct tg_patrol_packet {
	union tg_addr src, dst;
	uint32_t l3_off;
	uint8_t family;  /* 4 or 6 */
	uint8_t tclass;  /* DSCP and ECN */
	bool link_scope; /* lives on this link alone: never filtered, never marked */
};

TG_INLINE uint8_t tg_patrol_dscp(const struct tg_patrol_packet *pkt)
{
	return pkt->tclass >> 2;
}

TG_INLINE bool tg_patrol_is_fe80(uint32_t word)
{
	return (word & TG_WIRE32(0xff, 0xc0, 0, 0)) == TG_WIRE32(0xfe, 0x80, 0, 0);
}

/* Addresses with which no router forwards a packet: neighbour discovery, DHCP
 * (RFC 1812 section 5.3.4, RFC 4291 sections 2.5.6 and 2.7). */
TG_INLINE bool tg_patrol_is_link_scope(const struct tg_patrol_packet *pkt)
{
	uint32_t src = pkt->src.w[0], dst = pkt->dst.w[0];

	if (pkt->family == 4)
		return dst == 0xffffffffU ||
		       (dst & 0x00ffffffU) == TG_WIRE32(224, 0, 0, 0); /* 224.0.0.0/24 */
	return tg_patrol_is_fe80(dst) ||
	       (dst & TG_WIRE32(0xff, 0x0f, 0, 0)) == TG_WIRE32(0xff, 0x02, 0, 0) ||
	       (tg_patrol_is_fe80(src) &&
		(dst & TG_WIRE32(0xff, 0, 0, 0)) == TG_WIRE32(0xff, 0, 0, 0));
}

#define TG_ICMP6_ROUTER_SOLICIT 133 /* the first of neighbour discovery's five types */
#define TG_ICMP6_REDIRECT 137       /* the last */

/* True if the IPv6 packet at `ip` is neighbour discovery that has never been forwarded
 * (RFC 4861: hop limit 255). It asks for a global address from a link-local one, too. */
TG_INLINE bool tg_patrol_is_discovery(const uint8_t *ip, const uint8_t *end)
{
	return ip[TG_IPV6_NEXT] == 58 /* ICMPv6 */ && ip[TG_IPV6_HOPS] == 255 &&
	       ip + TG_IPV6_HDR_LEN + 1 <= end && ip[TG_IPV6_HDR_LEN] >= TG_ICMP6_ROUTER_SOLICIT &&
	       ip[TG_IPV6_HDR_LEN] <= TG_ICMP6_REDIRECT;
}

/* Reads Ethernet, VLAN tags and the IP header of the frame [data, end). */
TG_INLINE enum tg_patrol_parse_result tg_patrol_parse(struct tg_patrol_packet *pkt,
						      const uint8_t *data, const uint8_t *end)
{
	struct tg_packet eth = {0};
	tg_ethertype type = tg_packet_ethernet(&eth, data, end);
	const uint8_t *ip = data + eth.l3_off;

	pkt->l3_off = eth.l3_off;
	if (type == TG_ETHERTYPE_IPV4) {
		if (ip + TG_IPV4_HDR_LEN > end || ip[0] >> 4 != 4 || (ip[0] & 0xf) < 5)
			return TG_PATROL_BROKEN;
		pkt->family = 4;
		pkt->tclass = ip[TG_IPV4_TOS];
		pkt->src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		pkt->src.d[1] = 0;
		pkt->dst.d[0] = tg_load32(ip + TG_IPV4_DST);
		pkt->dst.d[1] = 0;
	} else if (type == TG_ETHERTYPE_IPV6) {
		if (ip + TG_IPV6_HDR_LEN > end || ip[0] >> 4 != 6)
			return TG_PATROL_BROKEN;
		pkt->family = 6;
		pkt->tclass = (uint8_t)(ip[0] << 4 | ip[TG_IPV6_TCLASS] >> 4);
		pkt->src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		pkt->src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		pkt->dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		pkt->dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	} else {
		/* truncated, or more tags than are parsed: not honest traffic */
		return type == 0 || tg_ethertype_is_vlan(type) ? TG_PATROL_BROKEN : TG_PATROL_OTHER;
	}
	pkt->link_scope = tg_patrol_is_link_scope(pkt);
	if (pkt->family == 6 && !pkt->link_scope && tg_patrol_is_fe80(pkt->src.w[0])) {
		if (!tg_patrol_is_discovery(ip, end))
			return TG_PATROL_LINK_LOCAL;
		pkt->link_scope = true;
	}
	return TG_PATROL_IP;
}

/* Writes the DSCP of the header at `ip` (at least the fixed header long) and
 * keeps ECN. The IPv4 checksum follows by RFC 1624. */
TG_INLINE void tg_patrol_set_dscp(uint8_t *ip, struct tg_patrol_packet *pkt, uint8_t dscp)
{
	uint8_t tclass = (uint8_t)(dscp << 2 | (pkt->tclass & 3));

	if (tclass == pkt->tclass)
		return;
	if (pkt->family == 4) {
		uint16_t from = tg_load16(ip), to;

		ip[TG_IPV4_TOS] = tclass;
		to = tg_load16(ip);
		tg_store16(ip + TG_IPV4_SUM, tg_csum_update16(tg_load16(ip + TG_IPV4_SUM), from, to));
	} else {
		ip[0] = (uint8_t)(0x60 | tclass >> 4);
		ip[TG_IPV6_TCLASS] = (uint8_t)(tclass << 4 | (ip[TG_IPV6_TCLASS] & 0xf));
	}
	pkt->tclass = tclass;
}

/* --- allowed sources ------------------------------------------------------
 *
 * IPv4 in two steps, as a poptrie (Asai, Ohara 2015) whose next hops are yes and no, so that
 * 100,000 scattered prefixes stay in a core's second-level cache. One word for each /14 says what
 * holds for its sixteen /18s. A /18 that is neither allowed nor forbidden as a whole has a word
 * with a bit for each /24; these words stand one behind another, without gaps. A /24 of which only a
 * part is allowed has its 256 bits elsewhere. 128 KiB, and 8 bytes for each such /18: at most
 * 2.1 MiB a generation, whatever the number of prefixes.
 */
enum tg_source_class {
	TG_SOURCE_NONE = 0,
	TG_SOURCE_ALL = 1,
	TG_SOURCE_PART = 2, /* perhaps: the /24's own bits say, if it has any */
	TG_SOURCE_LEAF = 3, /* the word of its /18 says */
};

#define TG_SOURCE_ROOTS (1U << 14)  /* a word for each /14 */
#define TG_SOURCE_LEAVES (1U << 18) /* at most one for each /18 */
#define TG_SOURCE_WORDS (TG_SOURCE_ROOTS + TG_SOURCE_LEAVES)

/* A root's bits: which /18s have a leaf; of those, which have a /24 allowed in part, and of the others, which
 * are allowed as a whole; the number of the first leaf. */
#define TG_SOURCE_ROOT_FLAGS 16
#define TG_SOURCE_ROOT_FIRST 32

TG_INLINE uint32_t tg_source_slash24(uint32_t src_be)
{
	return tg_swap32(src_be) >> 8;
}
TG_INLINE uint32_t tg_source_root(uint32_t slash24)
{
	return slash24 >> 10;
}

/* How many of 16 bits are set: BPF has no instruction for it. */
TG_INLINE uint32_t tg_bits16(uint32_t v)
{
	v -= v >> 1 & 0x5555;
	v = (v & 0x3333) + (v >> 2 & 0x3333);
	v = (v + (v >> 4)) & 0x0f0f;
	return (v + (v >> 8)) & 31;
}

/* What a root says of a /24; if its leaf must be asked, *leaf is the leaf's number. */
TG_INLINE enum tg_source_class tg_source_ask_root(uint64_t root, uint32_t slash24, uint32_t *leaf)
{
	uint32_t bit = 1U << (slash24 >> 6 & 15);

	if (!(root & bit))
		return root >> TG_SOURCE_ROOT_FLAGS & bit ? TG_SOURCE_ALL : TG_SOURCE_NONE;
	*leaf = (uint32_t)(root >> TG_SOURCE_ROOT_FIRST) + tg_bits16((uint32_t)root & (bit - 1));
	return TG_SOURCE_LEAF;
}

TG_INLINE enum tg_source_class tg_source_ask_leaf(uint64_t root, uint64_t leaf, uint32_t slash24)
{
	if (leaf >> (slash24 & 63) & 1)
		return TG_SOURCE_ALL;
	return root >> TG_SOURCE_ROOT_FLAGS & (1U << (slash24 >> 6 & 15)) ? TG_SOURCE_PART
									  : TG_SOURCE_NONE;
}

/* --- filters ---------------------------------------------------------------
 *
 * A filter is one cache line. A bucket of 15 tags, one cache line too, says which: traffic without
 * filters costs one line for each shape (see below) in use, whatever the number of filters. A
 * bucket records that it overflows, and only then the other bucket of a tag is searched.
 */
struct tg_patrol_filter {
	union tg_addr src, dst; /* masked */
	uint64_t packets, bytes; /* that it has met */
	uint32_t expires_s; /* by CLOCK_MONOTONIC; 0: does not expire */
	uint8_t action; /* enum tg_filter_action */
	uint8_t shape;
	uint8_t floor_log2; /* expires when it meets less than 2^(n-1) packets/s; 0: never */
	uint8_t window_s; /* over which that is measured */
	uint32_t window_began_s;
	uint32_t window_mark; /* low bits of `packets` then */
};
_Static_assert(sizeof(struct tg_patrol_filter) == 64, "one cache line");

#define TG_BUCKET_TAGS 15

struct tg_patrol_bucket {
	uint32_t tag[TG_BUCKET_TAGS]; /* 0: free */
	uint32_t spilled; /* entries that belong here and stand in their other bucket */
};
_Static_assert(sizeof(struct tg_patrol_bucket) == 64, "one cache line");

#define TG_BUCKET_SLOTS 16 /* filters of bucket b: b * 16 and up; the last has their owners */

/* One pair of prefix lengths of one family and direction. */
struct tg_patrol_shape {
	union tg_addr src_mask, dst_mask;
	uint32_t id; /* 1-254 */
	uint32_t owner; /* userspace's; packets do not look at it */
};
#define TG_SHAPE_END 0U
#define TG_SHAPE_HOLE 255U /* was in use; the list goes on */

#define TG_PATROL_SHAPES 8
#define TG_PATROL_KEYS 9

struct tg_patrol_place {
	uint32_t bucket, tag;
};

/* Multiply-shift as in tuple_filter.h over all 64 bits, then mixed: without the keys nobody can
 * choose colliding addresses, and addresses in regular steps, which a linear hash would keep in
 * regular steps, fill the buckets evenly. (Without the mixing a table was full at half its size.)
 * src and dst are masked. */
TG_INLINE struct tg_patrol_place tg_patrol_place(const uint64_t keys[TG_PATROL_KEYS],
						 uint32_t shape, const union tg_addr *src,
						 const union tg_addr *dst, uint32_t buckets)
{
	uint64_t h = keys[0] * shape + keys[1] * src->w[0] + keys[2] * dst->w[0];
	uint32_t tag;

	if (src->d[0] >> 32 || src->d[1] || dst->d[0] >> 32 || dst->d[1])
		h += keys[3] * src->w[1] + keys[4] * src->w[2] + keys[5] * src->w[3] +
		     keys[6] * dst->w[1] + keys[7] * dst->w[2] + keys[8] * dst->w[3];
	h ^= h >> 32;
	h *= TG_MIX2;
	h ^= h >> 29;
	h *= TG_MIX3;
	h ^= h >> 32;
	tag = (uint32_t)(h >> 32);
	return (struct tg_patrol_place){
		.bucket = (uint32_t)((h & 0xffffffffU) * buckets >> 32),
		.tag = tag ? tag : 1,
	};
}

/* The other bucket of a tag; of that one, the first is the other: modulo `buckets`, both add up to a hash
 * of the tag. Now and then they are the same. `bucket` is less than `buckets`. */
TG_INLINE uint32_t tg_patrol_other(uint32_t bucket, uint32_t tag, uint32_t buckets)
{
	uint32_t sum = (uint32_t)((uint64_t)(tag * 0x9e3779b1U) * buckets >> 32);

	return sum >= bucket ? sum - bucket : sum + buckets - bucket;
}

TG_INLINE bool tg_patrol_same(const struct tg_patrol_filter *f, uint32_t shape,
			      const union tg_addr *src, const union tg_addr *dst)
{
	return f->shape == shape && f->src.d[0] == src->d[0] && f->src.d[1] == src->d[1] &&
	       f->dst.d[0] == dst->d[0] && f->dst.d[1] == dst->d[1];
}

/* What a filter says at this second; TG_FILTER_NONE when it has expired. A filter with a floor that
 * has matched too little over its window expires here, when the next packet arrives: until then
 * there is nothing to filter. */
TG_INLINE enum tg_filter_action tg_patrol_ask(struct tg_patrol_filter *f, uint32_t now_s)
{
	if (f->expires_s && (int32_t)(now_s - f->expires_s) >= 0)
		return TG_FILTER_NONE;
	if (f->floor_log2) {
		uint32_t elapsed_s = now_s - f->window_began_s;

		if (elapsed_s >= f->window_s && elapsed_s > 0) {
			uint32_t met = (uint32_t)f->packets - f->window_mark;
			uint64_t floor = (uint64_t)elapsed_s << ((f->floor_log2 - 1) & 31);

			if (met < floor) {
				f->expires_s = now_s ? now_s : 1;
				return TG_FILTER_NONE;
			}
			f->window_mark = (uint32_t)f->packets;
			f->window_began_s = now_s;
		}
	}
	return (enum tg_filter_action)f->action;
}

/* What an action does to a packet whose codepoint is set or not. A filter that does not apply to
 * this packet gives TG_FILTER_NONE, and the next one is tried. */
TG_INLINE enum tg_filter_action tg_patrol_apply(enum tg_filter_action action, bool true_source)
{
	if (action == TG_FILTER_BLOCK_TS0)
		return true_source ? TG_FILTER_NONE : TG_FILTER_BLOCK_TS0;
	if (action == TG_FILTER_CLEAR_TS)
		return true_source ? TG_FILTER_CLEAR_TS : TG_FILTER_NONE;
	return action;
}

#endif
