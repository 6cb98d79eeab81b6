/* SPDX-License-Identifier: Apache-2.0
 *
 * What replay.c does with a frame of one translated connection, segment or ICMP error:
 * the calls into core/ of bpf/lib/proxy_forward.h and bpf/lib/proxy_icmp.h, so that the
 * vectors of translation can be replayed natively, under the sanitizers.
 *
 * Must never: know what a field of a segment should become; core/translate.h does.
 */
#ifndef TG_REPLAY_TRANSLATE_H
#define TG_REPLAY_TRANSLATE_H

#include <stdbool.h>
#include <string.h>

#include "../packet.h"
#include "../translate.h"

/* As tg_translate and tg_translate_slow. False: the header is not whole. */
static inline bool translate_segment(uint8_t *frame, uint32_t len, const struct tg_packet *pkt,
				     const struct tg_flow *f, enum tg_direction dir)
{
	struct tg_options_cursor c = {.len = (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN};
	uint8_t *tcp = frame + pkt->l4_off, *options = tcp + TG_TCP_HDR_LEN;
	bool ack = pkt->flags & TG_TCP_ACK;
	uint64_t sum = 0;

	if (c.len > TG_TCP_OPTIONS_MAX_LEN || pkt->l4_off + pkt->tcp_hdr_len > len)
		return false;
	tg_translate_header(tcp, f, dir, &sum);
	if (c.len == 12 && tg_translate_is_aligned(options)) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(options + 4, f, ack, dir, &sum);
	} else if (c.len) {
		memcpy(c.bytes, options, c.len);
		tg_translate_options(&c, f, ack, dir, &sum);
		memcpy(options, c.bytes, c.len);
	}
	tg_store16(tcp + 16, tg_translate_checksum(tg_load16(tcp + 16), sum));
	return true;
}

/* As tg_proxy_icmp, for IPv4 with headers of 20 bytes. `dir` is where the error goes: what
 * it quotes went the other way. False: it quotes too little. */
static inline bool translate_error(uint8_t *frame, uint32_t len, uint32_t l3_off,
				   const struct tg_flow *f, enum tg_direction dir)
{
	enum tg_direction quoted = dir == TG_TO_SERVER ? TG_TO_CLIENT : TG_TO_SERVER;
	uint32_t icmp = l3_off + TG_IPV4_HDR_LEN, tcp = icmp + 8 + TG_IPV4_HDR_LEN;
	uint64_t sum = 0;

	if (frame[l3_off] != 0x45 || len < tcp + (quoted == TG_TO_CLIENT ? 8 : 12) ||
	    frame[l3_off + 9] != 1 || frame[icmp] != 3 || frame[icmp + 8] != 0x45)
		return false;
	tg_translate_quoted(frame + tcp, f, quoted, &sum);
	tg_store16(frame + icmp + 2, tg_translate_checksum(tg_load16(frame + icmp + 2), sum));
	return true;
}

/* Translates the frame in its place. False: it is not one that a flow may have. */
static inline bool translate_frame(uint8_t *frame, uint32_t len, const struct tg_flow *f,
				   enum tg_direction dir)
{
	struct tg_packet pkt = {0};

	switch (tg_packet_parse(&pkt, frame, frame + len)) {
	case TG_PARSE_TCP:
		tg_packet_measure(&pkt, len);
		return translate_segment(frame, len, &pkt, f, dir);
	case TG_PARSE_OTHER:
		return pkt.l3_off && translate_error(frame, len, pkt.l3_off, f, dir);
	default:
		return false;
	}
}

#endif
