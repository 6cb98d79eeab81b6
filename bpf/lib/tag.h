/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Tags on frames, in XDP: find, verify, remove and insert one. After tg_tag_take no trace of it is
 * left: lengths and checksums are those of the segment that the client sent.
 */
#ifndef TG_BPF_TAG_H
#define TG_BPF_TAG_H

#include "tag_keys.h"

/* All headers but TCP's options. */
#define TG_HEADERS_ROOM (TG_HEADERS_MAX - TG_TCP_OPTIONS_MAX_LEN)

struct tg_tag_work {
	uint8_t room[TG_HEADERS_ROOM];
	__u32 words[TG_TAG_WORDS];
};

/* What can be wrong with a tag, apart from not being one. */
enum tg_tag_wrong {
	TG_TAG_UNKNOWN = 1, /* cut, of another version, of no kind or edge that is known */
	TG_TAG_STALE = 2,
	TG_TAG_FORGED = 3,
};

/* Where a frame's bytes are moved, one CPU's own: a program's stack is too small. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_tag_work);
} tg_tag_room SEC(".maps");

/* Moves the headers by the length of a tag, forward over it (`add` false) or
 * backward to make room for it, and corrects them. */
static __always_inline int tg_tag_move(struct xdp_md *ctx, struct tg_packet *pkt,
				       struct tg_tag_work *w, bool add)
{
	__u32 len = pkt->l4_off + TG_TCP_HDR_LEN;
	__u8 *data, *end, *ip, *tcp;

	if (len > TG_HEADERS_ROOM || len == 0)
		return -TG_EINVAL;
	if (bpf_xdp_load_bytes(ctx, 0, w->room, len) ||
	    bpf_xdp_adjust_head(ctx, add ? -TG_TAG_LEN : TG_TAG_LEN))
		return -TG_ENOENT;
	TG_HIDE(len);
	if (len > TG_HEADERS_ROOM || len == 0)
		return -TG_EINVAL;
	if (bpf_xdp_store_bytes(ctx, 0, w->room, len))
		return -TG_ENOENT;
	if (add && bpf_xdp_store_bytes(ctx, len, w->words, TG_TAG_LEN))
		return -TG_ENOENT;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	ip = data + (pkt->l3_off & 31);
	tcp = data + (pkt->l4_off & TG_L4_OFF_MAX);
	if (ip + TG_IPV6_HDR_LEN > end || tcp + TG_TCP_HDR_LEN > end ||
	    !tg_tag_fix(ip, tcp, pkt->family, w->words, add, pkt->l4_len))
		return -TG_EINVAL;
	pkt->l4_len = add ? pkt->l4_len + TG_TAG_LEN : pkt->l4_len - TG_TAG_LEN;
	pkt->tcp_hdr_len = (__u8)(add ? pkt->tcp_hdr_len + TG_TAG_LEN
				      : pkt->tcp_hdr_len - TG_TAG_LEN);
	return 0;
}

/* True if a segment's options begin with what may be a tag, of whatever version. */
static __always_inline bool tg_tag_is_there(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const __u8 *at = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;

	return pkt->tcp_hdr_len >= TG_TCP_HDR_LEN + 4 && at + 4 <= (__u8 *)(long)ctx->data_end &&
	       at[0] == TG_TAG_OPTION && at[2] == 'T' && at[3] == 'G';
}

/* The `len` bytes of options at `off`: their timestamps, if they have any. A function
 * of its own: the stacks of nested functions add up. */
TG_GLOBAL int tg_timestamps_at(struct xdp_md *ctx, __u32 off, __u32 len, struct tg_tcp_options *o)
{
	const __u8 *at = (void *)(long)ctx->data + (off & TG_L4_OFF_MAX);
	struct tg_options_cursor c;

	if (!o)
		return -TG_EINVAL;
	o->ts_ok = false;
	o->tsval = 0;
	o->tsecr = 0;
	if (len >= 12 && at + 12 <= (__u8 *)(long)ctx->data_end &&
	    tg_tcp_timestamps_aligned(tg_load32(at), tg_load32(at + 4), tg_load32(at + 8),
				      &o->tsval, &o->tsecr)) {
		o->ts_ok = true;
		return 0;
	}
	if (len == 0)
		return 0;
	if (len > TG_TCP_OPTIONS_MAX_LEN)
		return -TG_EINVAL;
	c.at = 0;
	c.len = len;
	if (bpf_xdp_load_bytes(ctx, off, c.bytes, len))
		return -TG_EINVAL;
	return tg_options_read(&c, o);
}

/* Verifies the tag that is there and takes it off. `o` are the timestamps behind it.
 * 0, or enum tg_tag_wrong; then the frame is as it was. */
TG_GLOBAL int tg_tag_take(struct xdp_md *ctx, struct tg_packet *pkt, const struct tg_tcp_options *o,
			  struct tg_tag *t)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_tag_epoch *keys;
	struct tg_tag_work *w;
	const __u8 *at, *end;
	__u32 zero = 0, len;
	uint64_t mac = 0;

	if (!pkt || !t || !o || pkt->l4_off > TG_L4_OFF_MAX)
		return TG_TAG_UNKNOWN;
	len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	at = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;
	end = (void *)(long)ctx->data_end;
	if (len > TG_TCP_OPTIONS_MAX_LEN || at + TG_TAG_LEN > end ||
	    tg_tag_read(at, len, end, t, &mac) != TG_TAG_READ)
		return TG_TAG_UNKNOWN;
	keys = tg_tag_keys_find(settings, t->epoch);
	if (!keys)
		return TG_TAG_STALE;
	if (!tg_mac_equal(mac, tg_tag_mac(pkt, o->tsecr, t, &keys->tag)))
		return TG_TAG_FORGED;
	w = bpf_map_lookup_elem(&tg_tag_room, &zero);
	if (!w)
		return TG_TAG_UNKNOWN;
	tg_tag_words(w->words, t, mac);
	return tg_tag_move(ctx, pkt, w, false) ? TG_TAG_UNKNOWN : 0;
}

/* Puts a tag on the segment in hand; `o` are its timestamps. Negative if it has no room for one; then the
 * frame is as it was, or (too short of headroom for the move) of no use. */
TG_GLOBAL int tg_tag_put(struct xdp_md *ctx, struct tg_packet *pkt, const struct tg_tcp_options *o,
			 const struct tg_tag *t)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_tag_epoch *keys;
	struct tg_tag_work *w;
	__u32 zero = 0, len;

	if (!pkt || !t || !o || pkt->l4_off > TG_L4_OFF_MAX)
		return -TG_EINVAL;
	len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	keys = tg_tag_keys_find(settings, t->epoch);
	w = bpf_map_lookup_elem(&tg_tag_room, &zero);
	if (!keys || !w || len > TG_TCP_OPTIONS_MAX_LEN - TG_TAG_LEN)
		return -TG_EINVAL;
	tg_tag_words(w->words, t, tg_tag_mac(pkt, o->tsecr, t, &keys->tag));
	return tg_tag_move(ctx, pkt, w, true);
}

#endif
