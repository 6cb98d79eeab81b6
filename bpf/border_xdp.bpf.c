/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP before a border manager: answers requests that have no nonce with one
 * (docs/ifp.md), so that a flood of them costs the daemon nothing. All else goes to
 * the daemon: VLAN tags, IP options, extension headers, fragments, other messages, and
 * frames in more than one buffer (a large MTU).
 *
 * Must never: keep anything, or answer with more bytes than came.
 */
#include "lib/kernel.h"
#include "../core/host.h"
#include "../core/ifp.h"

#define TG_UDP_HDR_LEN 8
#define TG_IPPROTO_UDP 17
#define TG_IFP_WORDS ((TG_IFP_MAX_LEN - TG_IFP_HDR_LEN) / 8)

/* Written by the daemon once a second. */
struct tg_border_settings {
	struct tg_siphash_key key; /* of the present epoch */
	union tg_addr addr4, addr6; /* where the daemon listens; all zero: nowhere */
	__u64 until_ns; /* CLOCK_MONOTONIC; later the key is too old */
	__u32 parity;
	__u16 port_be;
	__u8 tclass; /* of answers */
	__u8 reserved;
};

struct tg_counter_row {
	__u64 count[TG_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_border_settings);
} tg_if_settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_counter_row);
} tg_counters SEC(".maps");

/* The hash of head and filters. The filters begin at data + OFF.
 *
 * The loop may end after any of 172 words. So that the verifier looks at what follows once, and not for each, nothing that follows
 * depends on where it ended: the bytes behind the last whole word are found by the length, and the loop's pointer has an offset
 * that the verifier does not know to be zero, so that what it learns of the one it does not learn of `data`. */
#define TG_DEFINE_HASH(name, OFF)                                                                   \
	static __always_inline __u64 name(const struct tg_border_settings *s, const uint64_t *head, \
					  const __u8 *data, const __u8 *end, __u32 len)             \
	{                                                                                           \
		struct tg_siphash h = tg_siphash_begin(&s->key);                                    \
		__u64 tail = (__u64)(len + 8 * TG_IFP_HEAD_WORDS) << 56;                            \
		__u32 i, left = len & 7, whole = len & 0x7f8, zero = 0;                             \
		const __u8 *p;                                                                      \
                                                                                                    \
		TG_FORGET(zero, len);                                                               \
		p = data + (OFF) + (zero & 7);                                                      \
		for (i = 0; i < TG_IFP_HEAD_WORDS; i++)                                             \
			tg_siphash_word(&h, head[i]);                                               \
		for (i = 0; i < TG_IFP_WORDS; i++) {                                                \
			if (8 * i + 8 > len || p + 8 > end)                                         \
				break;                                                              \
			tg_siphash_word(&h, tg_load64(p));                                          \
			p += 8;                                                                     \
		}                                                                                   \
		p = data + (OFF) + whole;                                                           \
		for (i = 0; i < 7; i++) {                                                           \
			if (i >= left || p + 1 > end)                                               \
				break;                                                              \
			tail |= (__u64) * p++ << (8 * i);                                           \
		}                                                                                   \
		return tg_siphash_end(&h, tail);                                                    \
	}
TG_DEFINE_HASH(tg_border_hash4, TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN)
TG_DEFINE_HASH(tg_border_hash6, TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN)

static __always_inline void tg_border_swap_mac(__u8 *data)
{
	__u32 a = tg_load32(data), b = tg_load32(data + TG_ETH_SRC);
	__u16 c = tg_load16(data + TG_MAC_LO), d = tg_load16(data + TG_ETH_SRC + TG_MAC_LO);

	tg_store32(data, b);
	tg_store16(data + TG_MAC_LO, d);
	tg_store32(data + TG_ETH_SRC, a);
	tg_store16(data + TG_ETH_SRC + TG_MAC_LO, c);
}

/* True if the message at `m` is a request without a nonce of `len` bytes. */
static __always_inline bool tg_border_is_first(const __u8 *m, __u32 len)
{
	return m[0] == TG_IFP_VERSION && m[1] >= TG_IFP_INSTALL && m[1] <= TG_IFP_CONDITIONAL &&
	       tg_load64(m + 16) == 0 && tg_swap16(tg_load16(m + 2)) == len &&
	       len >= TG_IFP_HDR_LEN && len <= TG_IFP_MAX_LEN;
}

/* Writes the answer over the UDP header at `udp`; sums what was written. */
static __always_inline __u64 tg_border_answer(__u8 *udp, __u64 nonce)
{
	__u8 *m = udp + TG_UDP_HDR_LEN;
	__u32 ports = tg_load32(udp), i;
	__u64 sum = 0;

	tg_store32(udp, ports << 16 | ports >> 16);
	tg_store16(udp + TG_UDP_LEN, tg_swap16(TG_UDP_HDR_LEN + TG_IFP_HDR_LEN));
	tg_store16(udp + TG_UDP_SUM, 0);
	tg_store32(m, TG_WIRE32(TG_IFP_VERSION, TG_IFP_NONCE, 0, TG_IFP_HDR_LEN));
	tg_store32(m + 4, 0); /* the request number stays */
	tg_store32(m + 16, tg_swap32((__u32)(nonce >> 32)));
	tg_store32(m + 20, tg_swap32((__u32)nonce));
	for (i = 0; i < TG_UDP_HDR_LEN + TG_IFP_HDR_LEN; i += 4)
		sum += tg_load32(udp + i);
	return sum;
}

static __always_inline int tg_border_v4(struct xdp_md *ctx, const struct tg_border_settings *s,
					struct tg_counter_row *row)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + TG_ETH_HDR_LEN, *udp = ip + TG_IPV4_HDR_LEN;
	__u32 len, frame_len = (__u32)(end - data), src, dst;
	uint64_t head[TG_IFP_HEAD_WORDS];
	union tg_addr from = {};

	if (udp + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN > end || ip[0] != 0x45 ||
	    ip[TG_IPV4_PROTO] != TG_IPPROTO_UDP || tg_load16(udp + TG_UDP_DPORT) != s->port_be ||
	    tg_load32(ip + TG_IPV4_DST) != s->addr4.w[0] ||
	    (tg_swap16(tg_load16(ip + TG_IPV4_FRAG)) & 0x3fff))
		return XDP_PASS;
	len = tg_swap16(tg_load16(udp + TG_UDP_LEN)) - TG_UDP_HDR_LEN;
	if (!tg_border_is_first(udp + TG_UDP_HDR_LEN, len) ||
	    TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + len > frame_len ||
	    bpf_xdp_get_buff_len(ctx) != frame_len) {
		row->count[TG_COUNT_ifp_passed]++;
		return XDP_PASS;
	}
	from.w[0] = src = tg_load32(ip + TG_IPV4_SRC);
	dst = tg_load32(ip + TG_IPV4_DST);
	tg_ifp_nonce_head(head, 4, &from, tg_load16(udp), udp + TG_UDP_HDR_LEN);
	tg_border_answer(
		udp, tg_ifp_nonce_finish(tg_border_hash4(s, head, data, end, len - TG_IFP_HDR_LEN),
					 s->parity));
	tg_border_swap_mac(data);
	/* UDP without a checksum: the nonce is one (RFC 768) */
	tg_store32(ip,
		   TG_WIRE32(0x45, s->tclass, 0, TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN));
	tg_store32(ip + TG_IPV4_ID, 0);
	tg_store32(ip + TG_IPV4_TTL, TG_WIRE32(64, TG_IPPROTO_UDP, 0, 0));
	tg_store32(ip + TG_IPV4_SRC, dst);
	tg_store32(ip + TG_IPV4_DST, src);
	tg_store16(ip + TG_IPV4_SUM,
		   tg_csum_finish((__u64)tg_load32(ip) + tg_load32(ip + TG_IPV4_TTL) + src + dst));
	if (frame_len > TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN &&
	    bpf_xdp_adjust_tail(
		    ctx, (int)(TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN) -
				 (int)frame_len)) {
		row->count[TG_COUNT_ifp_drop]++;
		return XDP_DROP;
	}
	row->count[TG_COUNT_ifp_nonce_sent]++;
	return XDP_TX;
}

static __always_inline int tg_border_v6(struct xdp_md *ctx, const struct tg_border_settings *s,
					struct tg_counter_row *row)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + TG_ETH_HDR_LEN, *udp = ip + TG_IPV6_HDR_LEN;
	__u32 len, frame_len = (__u32)(end - data), i;
	uint64_t head[TG_IFP_HEAD_WORDS];
	union tg_addr from, to;
	__u64 sum;

	if (udp + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN > end || ip[0] >> 4 != 6 ||
	    ip[TG_IPV6_NEXT] != TG_IPPROTO_UDP || tg_load16(udp + TG_UDP_DPORT) != s->port_be)
		return XDP_PASS;
	for (i = 0; i < 2; i++) {
		from.d[i] = tg_load64(ip + TG_IPV6_SRC + 8 * i);
		to.d[i] = tg_load64(ip + TG_IPV6_DST + 8 * i);
	}
	if (to.d[0] != s->addr6.d[0] || to.d[1] != s->addr6.d[1])
		return XDP_PASS;
	len = tg_swap16(tg_load16(udp + TG_UDP_LEN)) - TG_UDP_HDR_LEN;
	if (!tg_border_is_first(udp + TG_UDP_HDR_LEN, len) ||
	    TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_UDP_HDR_LEN + len > frame_len ||
	    bpf_xdp_get_buff_len(ctx) != frame_len) {
		row->count[TG_COUNT_ifp_passed]++;
		return XDP_PASS;
	}
	tg_ifp_nonce_head(head, 6, &from, tg_load16(udp), udp + TG_UDP_HDR_LEN);
	sum = tg_border_answer(
		udp, tg_ifp_nonce_finish(tg_border_hash6(s, head, data, end, len - TG_IFP_HDR_LEN),
					 s->parity));
	tg_border_swap_mac(data);
	tg_store32(ip, TG_WIRE32(0x60 | s->tclass >> 4, s->tclass << 4, 0, 0));
	tg_store32(ip + TG_IPV6_LEN,
		   TG_WIRE32(0, TG_UDP_HDR_LEN + TG_IFP_HDR_LEN, TG_IPPROTO_UDP, 64));
	for (i = 0; i < 2; i++) {
		*(__u64 *)(ip + TG_IPV6_SRC +
			   8 * i) = to.d[i]; /* BPF: unaligned packet access is allowed */
		*(__u64 *)(ip + TG_IPV6_DST + 8 * i) = from.d[i];
	}
	for (i = 0; i < 4; i++)
		sum += (__u64)from.w[i] + to.w[i];
	sum += tg_swap16(TG_UDP_HDR_LEN + TG_IFP_HDR_LEN) + tg_swap16(TG_IPPROTO_UDP);
	i = tg_csum_finish(sum);
	tg_store16(udp + TG_UDP_SUM, i ? (__u16)i : 0xffff); /* RFC 8200 section 8.1 */
	if (frame_len > TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN &&
	    bpf_xdp_adjust_tail(
		    ctx, (int)(TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_UDP_HDR_LEN + TG_IFP_HDR_LEN) -
				 (int)frame_len)) {
		row->count[TG_COUNT_ifp_drop]++;
		return XDP_DROP;
	}
	row->count[TG_COUNT_ifp_nonce_sent]++;
	return XDP_TX;
}

SEC("xdp.frags")
int tg_border_xdp(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct tg_border_settings *s = bpf_map_lookup_elem(&tg_if_settings, &zero);
	struct tg_counter_row *row = bpf_map_lookup_elem(&tg_counters, &zero);

	if (!s || !row || data + TG_ETH_HDR_LEN > end || !s->port_be)
		return XDP_PASS;
	if (bpf_ktime_get_coarse_ns() > s->until_ns) {
		row->count[TG_COUNT_ifp_no_key]++;
		return XDP_PASS;
	}
	if (data[TG_ETH_SRC] & 1) /* sent by a group address: nobody's */
		return XDP_PASS;
	switch (tg_load16(data + TG_ETH_TYPE)) {
	case TG_ETHERTYPE_IPV4:
		return tg_border_v4(ctx, s, row);
	case TG_ETHERTYPE_IPV6:
		return tg_border_v6(ctx, s, row);
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
