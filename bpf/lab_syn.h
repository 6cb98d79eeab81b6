/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The frames of the lab's flood: SYNs as the clients of several systems send them, from random public
 * sources, and the Ethernet and IP headers of all that the generator sends.
 *
 * Must never: know when a frame is due.
 */
#define ETH_LEN 14
#define IP4_LEN 20
#define IP6_LEN 40
#define TCP_LEN 20
#define TCP_FLAGS_AT 13
#define OPT_LEN_MAX 40
#define WORDS_MAX ((TCP_LEN + OPT_LEN_MAX) / 4)
#define FRAME_LEN_MAX (ETH_LEN + IP6_LEN + TCP_LEN + OPT_LEN_MAX)

#define ETHERTYPE_IP4 0x0800
#define ETHERTYPE_IP6 0x86dd
#define PROTO_TCP 6
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_ACK 0x10

/* Option sets: what the clients of these systems send. */
enum tg_lab_kind {
	KIND_LINUX, /* MSS, SACK, TS, NOP, WS         20 bytes */
	KIND_MACOS, /* MSS, NOP, WS, 2 NOP, TS, SACK, 2 EOL  24 bytes */
	KIND_WINDOWS, /* MSS, NOP, WS, 2 NOP, SACK    12 bytes */
	KIND_BARE, /* none                             0 bytes */
	KIND_ODD, /* TS, SACK, MSS, WS, NOP           20 bytes; no system's, and no option begins a word */
	KIND_MANY, /* 20 options that say nothing      40 bytes */
	KIND_DATA, /* as Linux, and 20 bytes of data   40 bytes behind the header */
	KIND_STAMPS, /* 2 NOP, TS                      12 bytes: segments after the SYN */
	KIND_STAMPS_FIRST, /* TS, 2 NOP                12 bytes; no system's */
};

/* Which kinds a flood uses; the Go side has the same numbers. */
enum tg_lab_mix {
	MIX_ALL, /* 1/2 Linux, 1/4 Windows, 1/8 macOS, 1/8 bare */
	MIX_TS, /* Linux only */
	MIX_NOTS, /* Windows only */
	MIX_BARE,
	MIX_MACOS,
	MIX_ODD,
	MIX_MANY,
	MIX_DATA,
};

struct tg_flood_cfg {
	__u8 mac_dst[6];
	__u8 mac_src[6];
	__u16 port_be;
	__u8 ipv6; /* 0: IPv4, 1: IPv6 */
	__u8 mix; /* enum tg_lab_mix */
	__u32 ip4_dst_be;
	__u32 ip6_dst_be[4];
	__u8 tcp_flags; /* of every segment; without SYN it has options only for MIX_TS, MIX_ODD and MIX_MANY */
	__u8 pad[3];
};

volatile const struct tg_flood_cfg flood_cfg = {};

static __always_inline __u16 fold16(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/*
 * A public unicast source. The /8s that hold private, shared, loopback,
 * link-local, documentation or benchmark ranges (the lab's own addresses are
 * among these) are mapped to 11..74, which hold none.
 */
static __always_inline __u32 random_ip4_be(__u32 r)
{
	__u32 top = 1 + ((r >> 24) * 223 >> 8);

	switch (top) {
	case 10:
	case 100:
	case 127:
	case 169:
	case 172:
	case 192:
	case 198:
	case 203:
		top = 11 + (r & 63);
	}
	return bpf_htonl(top << 24 | (r & 0xffffff));
}

static __always_inline enum tg_lab_kind pick_kind(__u64 r)
{
	if (flood_cfg.mix == MIX_MANY)
		return KIND_MANY;
	if (!(flood_cfg.tcp_flags & TCP_FLAG_SYN))
		return flood_cfg.mix == MIX_TS    ? KIND_STAMPS
		       : flood_cfg.mix == MIX_ODD ? KIND_STAMPS_FIRST
						  : KIND_BARE;
	if (flood_cfg.mix == MIX_TS)
		return KIND_LINUX;
	if (flood_cfg.mix == MIX_NOTS)
		return KIND_WINDOWS;
	if (flood_cfg.mix == MIX_BARE)
		return KIND_BARE;
	if (flood_cfg.mix == MIX_MACOS)
		return KIND_MACOS;
	if (flood_cfg.mix == MIX_ODD)
		return KIND_ODD;
	if (flood_cfg.mix == MIX_DATA)
		return KIND_DATA;
	switch (r & 7) {
	case 0:
		return KIND_BARE;
	case 1:
		return KIND_MACOS;
	case 2:
	case 3:
		return KIND_WINDOWS;
	default:
		return KIND_LINUX;
	}
}

/* Bytes behind the TCP header without options. */
static __always_inline __u32 opt_len(enum tg_lab_kind kind)
{
	switch (kind) {
	case KIND_LINUX:
	case KIND_ODD:
		return 20;
	case KIND_MACOS:
		return 24;
	case KIND_WINDOWS:
	case KIND_STAMPS:
	case KIND_STAMPS_FIRST:
		return 12;
	case KIND_MANY:
	case KIND_DATA:
		return 40;
	default:
		return 0;
	}
}

/* Of these, options. */
static __always_inline __u32 real_opt_len(enum tg_lab_kind kind)
{
	return kind == KIND_DATA ? 20 : opt_len(kind);
}

/* Words of options, and of data, for a kind. Unused words are left zero and not sent. */
static __always_inline void fill_opts(__u32 *w, enum tg_lab_kind kind, __u32 mss, __u32 tsval_be)
{
	__u32 mss_be = bpf_htonl(0x02040000 | mss);

	switch (kind) {
	case KIND_DATA:
#pragma unroll
		for (int i = 5; i < OPT_LEN_MAX / 4; i++)
			w[i] = tsval_be + i;
		/* fallthrough */
	case KIND_LINUX:
		w[0] = mss_be;
		w[1] = bpf_htonl(0x0402080a);
		w[2] = tsval_be;
		w[4] = bpf_htonl(0x01030307);
		break;
	case KIND_MACOS:
		w[0] = mss_be;
		w[1] = bpf_htonl(0x01030306);
		w[2] = bpf_htonl(0x0101080a);
		w[3] = tsval_be;
		w[5] = bpf_htonl(0x04020000);
		break;
	case KIND_WINDOWS:
		w[0] = mss_be;
		w[1] = bpf_htonl(0x01030308);
		w[2] = bpf_htonl(0x01010402);
		break;
	case KIND_ODD:
		w[0] = bpf_htonl(0x080a0000) | tsval_be << 16;
		w[1] = tsval_be >> 16;
		w[2] = bpf_htonl(0x00000402);
		w[3] = mss_be;
		w[4] = bpf_htonl(0x03030701);
		break;
	case KIND_MANY: /* kind 253, which stands for experiments (RFC 4727) */
#pragma unroll
		for (int i = 0; i < OPT_LEN_MAX / 4; i++)
			w[i] = bpf_htonl(0xfd02fd02);
		break;
	case KIND_STAMPS:
		w[0] = bpf_htonl(0x0101080a);
		w[1] = tsval_be;
		w[2] = ~tsval_be;
		break;
	case KIND_STAMPS_FIRST:
		w[0] = bpf_htonl(0x080a0000) | tsval_be << 16;
		w[1] = tsval_be >> 16 | ~tsval_be << 16;
		w[2] = ~tsval_be >> 16 | bpf_htonl(0x00000101);
		break;
	default:
		break;
	}
}

/*
 * Writes the TCP header and options of len bytes; sum is that of the pseudo
 * header. The words are summed and stored in memory order, so no swap is needed.
 */
static __always_inline int write_tcp(void *tcp, void *end, enum tg_lab_kind kind, __u32 mss,
				     __u64 sum, __u64 r0, __u64 r1)
{
	const __u32 words = (TCP_LEN + opt_len(kind)) / 4;
	__u32 window = kind == KIND_LINUX ? 64240 : kind == KIND_BARE ? 1024 : 65535;
	__u32 *out = tcp;
	__u32 w[WORDS_MAX] = {};

	w[0] = bpf_htonl((1024 + ((__u32)(r0 & 0xffff) * 64511 >> 16)) << 16) |
	       (__u32)flood_cfg.port_be << 16;
	w[1] = (__u32)(r0 >> 32);
	if (flood_cfg.tcp_flags & TCP_FLAG_ACK)
		w[2] = (__u32)(r1 ^ r0 >> 16);
	w[3] = bpf_htonl((TCP_LEN + real_opt_len(kind)) / 4 << 28 |
			 (__u32)flood_cfg.tcp_flags << 16 | window);
	fill_opts(w + 5, kind, mss, (__u32)r1);
#pragma unroll
	for (int i = 0; i < WORDS_MAX; i++)
		sum += w[i];
	w[4] = fold16(sum);
#pragma unroll
	for (int i = 0; i < WORDS_MAX; i++) {
		if (i >= words)
			break;
		if ((void *)(out + i + 1) > end)
			return -1;
		out[i] = w[i];
	}
	return 0;
}

static __always_inline int write_eth(void *data, void *end, __u16 ethertype)
{
	__u16 *w = data;

	if (data + ETH_LEN > end)
		return -1;
	for (int i = 0; i < 3; i++) {
		w[i] = (__u16)(flood_cfg.mac_dst[2 * i] | flood_cfg.mac_dst[2 * i + 1] << 8);
		w[3 + i] = (__u16)(flood_cfg.mac_src[2 * i] | flood_cfg.mac_src[2 * i + 1] << 8);
	}
	w[6] = bpf_htons(ethertype);
	return 0;
}

/* IPv4 at 16-bit granularity: the header begins two bytes off a word boundary. */
static __always_inline int write_ip4(void *ip, void *end, __u32 total_len, __u32 src_be, __u16 id,
				     __u8 ttl, __u64 *pseudo)
{
	__u32 dst_be = flood_cfg.ip4_dst_be;
	__u32 w[5];
	__u32 *out = ip;
	__u64 sum = 0;

	if (ip + IP4_LEN > end)
		return -1;
	w[0] = bpf_htonl(0x45000000 | total_len);
	w[1] = bpf_htonl((__u32)id << 16 | 0x4000); /* DF */
	w[2] = bpf_htonl((__u32)ttl << 24 | PROTO_TCP << 16);
	w[3] = src_be;
	w[4] = dst_be;
	for (int i = 0; i < 5; i++)
		sum += w[i];
	w[2] |= (__u32)fold16(sum) << 16;
	for (int i = 0; i < 5; i++)
		out[i] = w[i];
	*pseudo = (__u64)src_be + dst_be + bpf_htonl(PROTO_TCP) + bpf_htonl(total_len - IP4_LEN);
	return 0;
}

static __always_inline int write_ip6_from(void *ip, void *end, __u32 payload_len, __u32 flow,
					  __u8 hops, const __u32 *src_be, __u64 *pseudo)
{
	__u32 *out = ip;
	__u64 sum = 0;

	if (ip + IP6_LEN > end)
		return -1;
	out[0] = bpf_htonl(0x60000000 | flow);
	out[1] = bpf_htonl(payload_len << 16 | PROTO_TCP << 8 | hops);
	for (int i = 0; i < 4; i++) {
		out[2 + i] = src_be[i];
		out[6 + i] = flood_cfg.ip6_dst_be[i];
	}
	for (int i = 2; i < 10; i++)
		sum += out[i];
	*pseudo = sum + bpf_htonl(PROTO_TCP) + bpf_htonl(payload_len);
	return 0;
}

/* IPv6 with a source in 2400::/8 .. 2fff::/8: allocated unicast, never the lab's. */
static __always_inline int write_ip6(void *ip, void *end, __u32 payload_len, __u64 r0, __u64 r1,
				     __u64 *pseudo)
{
	__u32 src[4] = {bpf_htonl((0x24 + (__u32)(r0 >> 32) % 12) << 24 | (__u32)(r0 >> 40)),
			(__u32)(r0 >> 8), (__u32)r1, (__u32)(r1 >> 32)};

	return write_ip6_from(ip, end, payload_len, (__u32)(r0 & 0xfffff), 40 + (__u8)(r1 & 15),
			      src, pseudo);
}

static __always_inline int write_syn(void *data, void *end, enum tg_lab_kind kind, uint64_t *state)
{
	__u32 tcp_len = TCP_LEN + opt_len(kind);
	__u64 r0 = tg_splitmix(state), r1 = tg_splitmix(state);
	__u64 pseudo;

	if (flood_cfg.ipv6) {
		__u64 r2 = tg_splitmix(state), r3 = tg_splitmix(state);

		if (write_eth(data, end, ETHERTYPE_IP6) ||
		    write_ip6(data + ETH_LEN, end, tcp_len, r2, r3, &pseudo))
			return -1;
		return write_tcp(data + ETH_LEN + IP6_LEN, end, kind, 1440, pseudo, r0, r1);
	}
	if (write_eth(data, end, ETHERTYPE_IP4) ||
	    write_ip4(data + ETH_LEN, end, IP4_LEN + tcp_len, random_ip4_be((__u32)(r1 >> 32)),
		      (__u16)(r0 >> 16), 40 + ((__u8)(r0 >> 16) & 15), &pseudo))
		return -1;
	return write_tcp(data + ETH_LEN + IP4_LEN, end, kind, 1460, pseudo, r0, r1);
}
