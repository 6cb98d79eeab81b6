/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the kernel's interfaces.
 */
#include "kernel_frame.h"

#include "frame.h"

#define UDP 17

/* Fills in the checksum at `off` of a segment of `l4_len` bytes at `l4`. */
static void complete(uint8_t *l4, uint32_t l4_len, uint32_t off, uint8_t protocol,
		     const uint8_t *addrs, uint32_t addrs_len)
{
	uint64_t sum = tg_csum_add(TG_WIRE32(0, protocol, l4_len >> 8, l4_len), addrs, addrs_len);
	uint16_t full;

	if (TG_LIKELY(tg_load16(l4 + off) != tg_csum_fold(sum)))
		return;
	tg_store16(l4 + off, 0);
	full = tg_csum_finish(tg_csum_add(sum, l4, l4_len));
	tg_store16(l4 + off, full || protocol != UDP ? full : 0xffff);
}

/* Completes the frame as a wire would carry it. False: it is truncated. */
static bool repair(struct rte_mbuf *m)
{
	uint8_t *data = TG_DATA(m), *ip, protocol;
	uint32_t len = m->data_len, l3_off = TG_ETH_HDR_LEN, hdr_len, l4_len;
	tg_ethertype type;

	if (len < TG_ETH_HDR_LEN + TG_VLAN_TAG_LEN + TG_IPV4_HDR_LEN)
		return true;
	type = tg_load16(data + TG_ETH_TYPE);
	if (TG_UNLIKELY(tg_ethertype_is_vlan(type))) {
		type = tg_load16(data + TG_ETH_TYPE_TAGGED);
		l3_off += TG_VLAN_TAG_LEN;
	}
	ip = data + l3_off;
	if (type == TG_ETHERTYPE_IPV4) {
		hdr_len = (ip[0] & 15U) * 4;
		l4_len = tg_swap16(tg_load16(ip + TG_IPV4_LEN));
		if (l4_len > len - l3_off)
			return l4_len < 1500; /* truncated, but not for its length */
		protocol = ip[TG_IPV4_PROTO];
		if (hdr_len < TG_IPV4_HDR_LEN || l4_len < hdr_len ||
		    (ip[TG_IPV4_FRAG] & 0x3f) | ip[TG_IPV4_FRAG + 1])
			return true;
		l4_len -= hdr_len;
	} else if (type == TG_ETHERTYPE_IPV6 && len >= l3_off + TG_IPV6_HDR_LEN) {
		hdr_len = TG_IPV6_HDR_LEN;
		l4_len = tg_swap16(tg_load16(ip + TG_IPV6_LEN));
		if (l4_len > len - l3_off - hdr_len)
			return l4_len < 1500;
		protocol = ip[TG_IPV6_NEXT];
	} else {
		return true;
	}
	if (protocol == TG_IPPROTO_TCP && l4_len >= TG_TCP_HDR_LEN)
		complete(ip + hdr_len, l4_len, 16, protocol,
			 type == TG_ETHERTYPE_IPV4 ? ip + TG_IPV4_SRC : ip + TG_IPV6_SRC,
			 type == TG_ETHERTYPE_IPV4 ? 8 : 32);
	else if (protocol == UDP && l4_len >= 8)
		complete(ip + hdr_len, l4_len, 6, protocol,
			 type == TG_ETHERTYPE_IPV4 ? ip + TG_IPV4_SRC : ip + TG_IPV6_SRC,
			 type == TG_ETHERTYPE_IPV4 ? 8 : 32);
	return true;
}

uint32_t tg_kernel_frames(struct tg_worker *w, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i, left = 0;

	for (i = 0; i < n; i++) {
		if (TG_LIKELY(repair(m[i]))) {
			m[left++] = m[i];
			continue;
		}
		tg_count(w, 0, TG_COUNT_drop_cut_off);
		tg_drop(w, m[i]);
	}
	return left;
}
