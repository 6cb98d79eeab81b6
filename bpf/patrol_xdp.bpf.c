/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The patrol between customers and the rest of the world: lets only allowed sources out, marks them
 * as true, drops what the destination has asked not to receive, and keeps or clears the mark of
 * what neighbours send. The judgement is core/patrol.h.
 *
 * Must never: wait for a daemon, touch a frame that is not IP, or look at a
 * filter for a packet that is dropped anyway.
 */
#include "lib/patrol_maps.h"

static __always_inline void tg_count(struct tg_counter_row *row, enum tg_counter counter)
{
	row->count[counter]++; /* softirqs are off */
}

static __always_inline __u32 tg_now_s(void)
{
	return (__u32)(bpf_ktime_get_coarse_ns() / 1000000000U);
}

static __always_inline bool tg_source4_allowed(__u32 gen, __u32 src)
{
	__u32 slash24 = tg_source_slash24(src), last = tg_swap32(src) & 255;
	__u32 half = (gen & 1) * TG_SOURCE_WORDS, index = half + tg_source_root(slash24);
	__u64 *root = bpf_map_lookup_elem(&tg_pf_src4, &index), *leaf, word;
	enum tg_source_class class;
	struct tg_source_part *part;

	if (!root)
		return false;
	word = *root;
	class = tg_source_ask_root(word, slash24, &index);
	if (class == TG_SOURCE_LEAF) {
		index += half + TG_SOURCE_ROOTS;
		leaf = bpf_map_lookup_elem(&tg_pf_src4, &index);
		class = leaf ? tg_source_ask_leaf(word, *leaf, slash24) : TG_SOURCE_NONE;
	}
	if (class != TG_SOURCE_PART)
		return class == TG_SOURCE_ALL;
	slash24 |= gen << 31;
	part = bpf_map_lookup_elem(&tg_pf_part4, &slash24);
	return part && (part->bits[last >> 6] >> (last & 63) & 1);
}

/* True if a customer may use this source. */
static __always_inline bool tg_source_allowed(const struct tg_patrol_settings *s,
					      const struct tg_patrol_packet *pkt)
{
	struct tg_source_key6 key = {.gen = s->sources_gen};
	int i;

	if (pkt->family == 4)
		return tg_source4_allowed(s->sources_gen, pkt->src.w[0]);
	for (i = 0; i < TG_SOURCE_LENS_MAX; i++) {
		__u8 len = s->source_lens_v6[i];

		if (len > 128)
			break;
		key.addr = tg_addr_mask(pkt->src, 6, len);
		key.prefix_len = len;
		if (bpf_map_lookup_elem(&tg_pf_src6, &key))
			return true;
	}
	return false;
}

/* The place of a tag in a bucket; negative if it is not there. */
static __always_inline int tg_bucket_find(const struct tg_patrol_bucket *b, __u32 tag)
{
	int i;

#pragma unroll
	for (i = 0; i < TG_BUCKET_TAGS; i++)
		if (TG_UNLIKELY(b->tag[i] == tag))
			return i;
	return -1;
}

/* The filter for exactly these masked addresses. */
static __always_inline struct tg_patrol_filter *tg_filter_find(const struct tg_patrol_settings *s,
							       __u32 shape, const union tg_addr *src,
							       const union tg_addr *dst)
{
	struct tg_patrol_place at = tg_patrol_place(s->keys, shape, src, dst, s->buckets);
	int round;

	for (round = 0; round < 2; round++) {
		struct tg_patrol_bucket *b = bpf_map_lookup_elem(&tg_pf_tags, &at.bucket);
		struct tg_patrol_filter *f;
		__u32 index;
		int i;

		if (!b)
			return 0;
		i = tg_bucket_find(b, at.tag);
		if (i >= 0) {
			index = at.bucket * TG_BUCKET_SLOTS + (__u32)i;
			f = bpf_map_lookup_elem(&tg_pf_filters, &index);
			if (f && tg_patrol_same(f, shape, src, dst))
				return f;
		}
		if (!b->spilled)
			return 0;
		at.bucket = tg_patrol_other(at.bucket, at.tag, s->buckets);
	}
	return 0;
}

static __always_inline void tg_addr_and(union tg_addr *to, const union tg_addr *a,
					const union tg_addr *mask)
{
	to->d[0] = a->d[0] & mask->d[0];
	to->d[1] = a->d[1] & mask->d[1];
}

/* True if an exception covers the packet. Checked only when a filter matches. */
TG_GLOBAL int tg_patrol_excepted(const struct tg_patrol_packet *pkt, __u32 direction)
{
	struct tg_patrol_settings *s = &tg_pf_settings;
	__u32 family, i;

	if (!pkt)
		return 0;
	family = pkt->family == 6;
	for (i = 0; i < TG_PATROL_SHAPES; i++) {
		const struct tg_patrol_shape *shape = &s->allow[direction & 1][family][i];
		union tg_addr src, dst;

		if (!shape->id)
			break;
		if (shape->id == TG_SHAPE_HOLE)
			continue;
		tg_addr_and(&src, &pkt->src, &shape->src_mask);
		tg_addr_and(&dst, &pkt->dst, &shape->dst_mask);
		if (tg_filter_find(s, shape->id, &src, &dst))
			return 1;
	}
	return 0;
}

/* What the filters decide: the strictest that matches; each matching filter counts it. */
TG_GLOBAL int tg_patrol_judge(const struct tg_patrol_packet *pkt, __u32 direction, __u32 frame_len)
{
	struct tg_patrol_settings *s = &tg_pf_settings;
	__u32 family, i;
	int verdict = TG_FILTER_NONE;
	bool true_source;

	if (!pkt)
		return TG_FILTER_NONE;
	family = pkt->family == 6;
	true_source = tg_patrol_dscp(pkt) == s->codepoint;
	for (i = 0; i < TG_PATROL_SHAPES; i++) {
		const struct tg_patrol_shape *shape = &s->shapes[direction & 1][family][i];
		enum tg_filter_action action;
		struct tg_patrol_filter *f;
		union tg_addr src, dst;

		if (!shape->id)
			break;
		if (shape->id == TG_SHAPE_HOLE)
			continue;
		tg_addr_and(&src, &pkt->src, &shape->src_mask);
		tg_addr_and(&dst, &pkt->dst, &shape->dst_mask);
		f = tg_filter_find(s, shape->id, &src, &dst);
		if (TG_LIKELY(!f))
			continue;
		action = tg_patrol_ask(f, tg_now_s());
		if (tg_patrol_apply(action, true_source) == TG_FILTER_NONE)
			continue;
		if (tg_patrol_excepted(pkt, direction))
			return TG_FILTER_ALLOW;
		__sync_fetch_and_add(&f->packets, 1);
		__sync_fetch_and_add(&f->bytes, frame_len);
		if (action != TG_FILTER_CLEAR_TS)
			return action;
		verdict = action;
	}
	return verdict;
}

/* Forwards what may pass. */
static __always_inline int tg_patrol_forward(const struct tg_patrol_port *port)
{
	return port->peer ? bpf_redirect(port->peer, 0) : XDP_PASS;
}

/* Sets or takes the codepoint before filters are asked. False: drop. */
static __always_inline bool tg_patrol_admit(const struct tg_patrol_settings *s,
					    const struct tg_patrol_port *port, __u8 *ip,
					    struct tg_patrol_packet *pkt, struct tg_counter_row *row)
{
	bool marked = tg_patrol_dscp(pkt) == s->codepoint;
	__u8 mark = port->mark;

	if (port->direction == TG_FROM_CUSTOMER && !s->internal_ts) {
		if (!tg_source_allowed(s, pkt)) {
			tg_count(row, TG_COUNT_drop_spoofed);
			return false;
		}
		mark = TG_MARK_SET;
	}
	if (mark == TG_MARK_SET && !marked) {
		tg_patrol_set_dscp(ip, pkt, s->codepoint);
		tg_count(row, TG_COUNT_ts_set);
	} else if (mark == TG_MARK_CLEAR && marked) {
		tg_patrol_set_dscp(ip, pkt, s->plain);
		tg_count(row, TG_COUNT_ts_cleared);
	}
	return true;
}

SEC("xdp.frags")
int tg_patrol_xdp(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_patrol_packet pkt = {};
	__u32 zero = 0, ifindex = tg_ingress(ctx);
	struct tg_patrol_settings *s = &tg_pf_settings;
	struct tg_counter_row *row = bpf_map_lookup_elem(&tg_counters, &zero);
	struct tg_patrol_port *port = bpf_map_lookup_elem(&tg_pf_ports, &ifindex);
	enum tg_patrol_parse_result parsed;
	__u8 *ip;

	if (!row || !port)
		return XDP_PASS;
	parsed = tg_patrol_parse(&pkt, data, end);
	if (parsed == TG_PATROL_BROKEN) {
		tg_count(row, TG_COUNT_drop_broken_ip);
		return XDP_DROP;
	}
	if (parsed == TG_PATROL_LINK_LOCAL) {
		tg_count(row, TG_COUNT_drop_link_local);
		return XDP_DROP;
	}
	if (parsed == TG_PATROL_OTHER || pkt.link_scope) {
		tg_count(row, TG_COUNT_patrol_link);
		return tg_patrol_forward(port);
	}
	tg_count(row,
		 port->direction == TG_FROM_CUSTOMER ? TG_COUNT_patrol_from : TG_COUNT_patrol_to);
	ip = data + (pkt.l3_off & 63);
	if (ip + TG_IPV4_HDR_LEN > end)
		return XDP_PASS; /* impossible: parsed above */
	if (!tg_patrol_admit(s, port, ip, &pkt, row))
		return XDP_DROP;
	if (!s->filtering)
		return tg_patrol_forward(port);
	switch (tg_patrol_judge(&pkt, port->direction, (__u32)(end - data))) {
	case TG_FILTER_BLOCK:
		tg_count(row, TG_COUNT_filter_blocked);
		return XDP_DROP;
	case TG_FILTER_BLOCK_TS0:
		tg_count(row, TG_COUNT_filter_blocked_ts0);
		return XDP_DROP;
	case TG_FILTER_CLEAR_TS:
		tg_count(row, TG_COUNT_filter_cleared);
		tg_patrol_set_dscp(ip, &pkt, s->plain);
		break;
	case TG_FILTER_ALLOW:
		tg_count(row, TG_COUNT_filter_allowed);
		break;
	}
	return tg_patrol_forward(port);
}

char LICENSE[] SEC("license") = "GPL";
