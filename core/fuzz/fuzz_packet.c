/* SPDX-License-Identifier: Apache-2.0
 *
 * Any frame through the whole SYN path: nothing is read outside the frame; what is
 * answered is answered with a frame that parses as the SYN-ACK of just that SYN.
 */
#include "fuzz.h"

static const struct tg_service svc = {
	.mss_v4 = 1460,
	.mss_v6 = 1440,
	.window = 65535,
	.wscale = 7,
	.sack = 1,
	.timestamps = 1,
	.ecn = 1,
	.mode = TG_MODE_ALWAYS,
};

static void check_answer(const uint8_t *out, uint32_t len, const struct tg_packet *syn,
			 const struct tg_siphash_key *key)
{
	struct tg_options_cursor c = {.len = 0};
	struct tg_packet p = {0}, ack = *syn;
	struct tg_tcp_options o;

	PROMISE(tg_packet_parse(&p, out, out + len) == TG_PARSE_TCP);
	PROMISE((p.flags & ~TG_TCP_ECE) == (TG_TCP_SYN | TG_TCP_ACK));
	PROMISE(p.ack == syn->seq + 1 && p.l4_off + p.l4_len == len && p.tcp_hdr_len == p.l4_len);
	PROMISE(p.ports == (syn->ports << 16 | syn->ports >> 16));
	PROMISE(memcmp(&p.src, &syn->dst, 16) == 0 && memcmp(&p.dst, &syn->src, 16) == 0);
	c.len = (uint32_t)p.tcp_hdr_len - TG_TCP_HDR_LEN;
	memcpy(c.bytes, out + p.l4_off + TG_TCP_HDR_LEN, c.len);
	o = tg_tcp_options_parse(&c);
	ack.seq += 1;
	PROMISE(tg_cookie_verify(&ack, (struct tg_cookie){p.seq, o.tsval}, o.ts_ok, 7, key));
}

static void answer(const uint8_t *frame, const struct tg_packet *syn)
{
	struct tg_options_cursor c = {.len = (uint32_t)syn->tcp_hdr_len - TG_TCP_HDR_LEN};
	struct tg_siphash_key key = {11, 12};
	struct tg_tcp_options offered;
	struct tg_synack a;
	uint32_t len;
	uint8_t *out;

	PROMISE(c.len <= TG_TCP_OPTIONS_MAX_LEN);
	memcpy(c.bytes, frame + syn->l4_off + TG_TCP_HDR_LEN, c.len);
	offered = tg_tcp_options_parse(&c);
	a = tg_synack_agree(syn, &offered, &svc);
	len = syn->l3_off + tg_synack_len(syn, &a);
	out = malloc(len);
	memcpy(out, frame, syn->l3_off);
	PROMISE(tg_synack_write((struct tg_writer){out + syn->l3_off, out + len}, syn, &a,
				tg_cookie_make(syn, a.option_bits, a.options.ts_ok, 7, &key)));
	tg_ethernet_reflect(out);
	PROMISE(memcmp(out, frame + 6, 6) == 0 && memcmp(out + 6, frame, 6) == 0);
	check_answer(out, len, syn, &key);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *frame = malloc(size ? size : 1);
	struct tg_packet pkt = {0};
	enum tg_parse_result result;

	memcpy(frame, data, size);
	result = tg_packet_parse(&pkt, frame, frame + size);
	if (result == TG_PARSE_TCP || result == TG_PARSE_FRAGMENT) {
		PROMISE(pkt.l3_off < pkt.l4_off && pkt.l4_off + TG_TCP_HDR_LEN <= size);
		tg_packet_measure(&pkt, (uint32_t)size);
		PROMISE(pkt.l4_len >= TG_TCP_HDR_LEN);
		if (tg_host_is_syn(&pkt) &&
		    tg_host_judge_syn(&pkt, result, (uint32_t)size).verdict == TG_REPLY)
			answer(frame, &pkt);
	} else {
		(void)tg_host_judge_parse(result);
	}
	free(frame);
	return 0;
}
