/* SPDX-License-Identifier: Apache-2.0
 *
 * ICMP errors of our own.
 */
#include "icmp_error.h"

#include "frame.h"

#define TTL 64
#define QUOTE4 (576 - TG_IPV4_HDR_LEN - TG_ICMP_HDR_LEN)
#define QUOTE6 (1280 - TG_IPV6_HDR_LEN - TG_ICMP_HDR_LEN)

/* RFC 792, RFC 4443: type and code, in the order of enum tg_icmp_kind. */
static const uint8_t codes[2][4][2] = {
	{{11, 0}, {3, 4}, {3, 0}, {3, 1}},
	{{3, 0}, {2, 0}, {1, 0}, {1, 3}},
};

/* True if an error about the packet at `ip`, of `len` bytes, may be sent. */
static bool tg_icmp_error_may(const uint8_t *ip, uint32_t len, uint8_t family)
{
	const uint8_t *src = ip + (family == 4 ? 12 : 8), *dst = ip + (family == 4 ? 16 : 24);
	uint32_t hdr_len = family == 4 ? (ip[0] & 15U) * 4 : TG_IPV6_HDR_LEN;

	if (family == 4) {
		if ((ip[TG_IPV4_FRAG] & 0x1f) | ip[TG_IPV4_FRAG + 1] || src[0] == 0 ||
		    src[0] == 127 || src[0] >= 224 || dst[0] >= 224)
			return false;
		return ip[TG_IPV4_PROTO] != TG_IPPROTO_ICMP ||
		       (hdr_len < len && !tg_icmp_is_error(4, ip[hdr_len]));
	}
	if (src[0] == 0xff || dst[0] == 0xff || (tg_load64(src) | tg_load64(src + 8)) == 0)
		return false;
	return ip[TG_IPV6_NEXT] != TG_IPPROTO_ICMPV6 || (hdr_len < len && ip[hdr_len] >= 128);
}

/* The address to send errors from: the port's, otherwise any other port's. A packet to
 * one of our own addresses is left to the kernel. */
static const union tg_addr *tg_icmp_error_source(const struct tg_worker *w, uint16_t port,
						 uint8_t family, const uint8_t *dst)
{
	const union tg_addr *found = NULL;
	uint32_t i;

	for (i = 0; i < TG_PORTS_MAX; i++) {
		const struct tg_link *l = &w->config->links[i];
		const union tg_addr *a = family == 4 ? &l->addr4 : &l->addr6;

		if (!(a->d[0] | a->d[1]))
			continue;
		if (memcmp(a, dst, family == 4 ? 4 : 16) == 0)
			return NULL;
		if (!found || i == port)
			found = a;
	}
	return found;
}

/* Writes the headers at `ip` before a quote of `quoted` bytes, which is already there. */
static void tg_icmp_error_write(uint8_t *ip, uint8_t family, const union tg_addr *from,
				const uint8_t *to, enum tg_icmp_kind kind, uint32_t mtu,
				uint32_t quoted)
{
	uint32_t len = TG_ICMP_HDR_LEN + quoted,
		 hdr_len = family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN;
	uint8_t *icmp = ip + hdr_len;
	uint64_t sum = 0;

	memset(ip, 0, hdr_len + TG_ICMP_HDR_LEN);
	if (family == 4) {
		ip[0] = 0x45;
		ip[TG_IPV4_TOS] = 0xc0; /* RFC 1812 section 4.3.2.5: precedence of internetwork control */
		tg_store16(ip + TG_IPV4_LEN, tg_swap16((uint16_t)(hdr_len + len)));
		ip[TG_IPV4_TTL] = TTL;
		ip[TG_IPV4_PROTO] = TG_IPPROTO_ICMP;
		tg_store32(ip + TG_IPV4_SRC, from->w[0]);
		memcpy(ip + TG_IPV4_DST, to, 4);
		tg_store16(ip + TG_IPV4_SUM, tg_csum_finish(tg_csum_add(0, ip, hdr_len)));
	} else {
		ip[0] = 0x60;
		tg_store16(ip + TG_IPV6_LEN, tg_swap16((uint16_t)len));
		ip[TG_IPV6_NEXT] = TG_IPPROTO_ICMPV6;
		ip[TG_IPV6_HOPS] = TTL;
		memcpy(ip + TG_IPV6_SRC, from, 16);
		memcpy(ip + TG_IPV6_DST, to, 16);
		sum = tg_csum_add(TG_WIRE32(0, 0, len >> 8, len), ip + TG_IPV6_SRC, 32) +
		      tg_swap16(TG_IPPROTO_ICMPV6);
	}
	memcpy(icmp, codes[family == 6][kind], 2);
	tg_store32(icmp + TG_ICMP_REST,
		   tg_swap32(mtu)); /* IPv4: it has 16 bits of these, the upper ones are zero */
	tg_store16(icmp + TG_ICMP_SUM, tg_csum_finish(tg_csum_add(sum, icmp, len)));
}

void tg_icmp_error_send(struct tg_worker *w, const struct rte_mbuf *m, uint16_t port,
			uint32_t l3_off, uint8_t family, enum tg_icmp_kind kind, uint32_t mtu)
{
	const uint8_t *data = TG_DATA(m), *ip = data + l3_off;
	uint32_t ip_len = family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN,
		 room = family == 4 ? QUOTE4 : QUOTE6;
	uint32_t quoted = m->data_len - l3_off, off = l3_off + ip_len + TG_ICMP_HDR_LEN;
	const union tg_addr *from;
	struct rte_mbuf *n;

	if (m->data_len < l3_off + ip_len || data[0] & 1 ||
	    !tg_icmp_error_may(ip, quoted, family) || !w->icmp_allowed)
		return;
	from = tg_icmp_error_source(w, port, family, ip + (family == 4 ? 16 : 24));
	if (!from)
		return;
	quoted = quoted < room ? quoted : room;
	n = rte_pktmbuf_alloc(w->pool);
	if (!n || !rte_pktmbuf_append(n, (uint16_t)(off + quoted))) {
		rte_pktmbuf_free(n);
		tg_count(w, 0, TG_COUNT_drop_no_buffer);
		return;
	}
	memcpy(TG_DATA(n), data, l3_off);
	tg_ethernet_reflect(TG_DATA(n));
	memcpy(TG_DATA(n) + off, ip, quoted);
	tg_icmp_error_write(TG_DATA(n) + l3_off, family, from, ip + (family == 4 ? 12 : 8), kind,
			    mtu, quoted);
	w->icmp_allowed--;
	w->icmp_errors++;
	tg_send(w, port, n);
}
