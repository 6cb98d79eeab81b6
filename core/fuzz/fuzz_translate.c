/* SPDX-License-Identifier: Apache-2.0
 *
 * Any segment of any flow, translated one way and as any: nothing is read or written
 * outside it, its length and what is not to be changed stay, its checksum is as right
 * or as wrong as before, and translating back by the negative differences restores
 * it. Any SYN through the SYN cache: what was kept is found, answered with a
 * segment that parses, and its ACK accepted; forged ones are not.
 *
 * Input: 16 bytes that choose the flow, then a frame.
 */
#include "fuzz.h"
#include "../proxy.h"

static uint16_t sum16(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0, i;

	for (i = 0; i < len; i++) {
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

/* As a plane does, on a TCP header of `len` bytes with its options. */
static void translate(uint8_t *tcp, uint32_t len, const struct tg_flow *f, enum tg_direction dir)
{
	bool ack = tcp[13] & TG_TCP_ACK;
	uint64_t sum = 0;

	tg_translate_header(tcp, f, dir, &sum);
	if (len == 32 && tg_translate_is_aligned(tcp + 20)) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(tcp + 24, f, ack, dir, &sum);
	} else if (len > 20) {
		struct tg_options_cursor c = {.len = len - 20};

		memcpy(c.bytes, tcp + 20, len - 20);
		tg_translate_options(&c, f, ack, dir, &sum);
		PROMISE(c.at <= c.len);
		memcpy(tcp + 20, c.bytes, len - 20);
	}
	tg_store16(tcp + 16, tg_translate_checksum(tg_load16(tcp + 16), sum));
}

static void check_translation(const uint8_t *data, size_t size)
{
	struct tg_flow f = {.state = TG_FLOW_READY}, back;
	enum tg_direction dir = data[0] & 1 ? TG_TO_CLIENT : TG_TO_SERVER;
	uint32_t len = 20 + 4 * (data[1] % 11);
	uint8_t *tcp, *was;

	memcpy(&f.seq_delta, data + 2, 4);
	memcpy(&f.ts_delta, data + 6, 4);
	f.flags = data[0] & 2 ? TG_FLOW_TS : 0;
	f.window_up = data[0] & 4 ? data[10] % 15 : 0;
	f.window_down = data[0] & 8 ? (int8_t)(data[11] % 29) - 14 : 0;
	if (size < 16 + len)
		return;
	tcp = malloc(len);
	was = malloc(len);
	memcpy(tcp, data + 16, len);
	memcpy(was, tcp, len);
	translate(tcp, len, &f, dir);
	PROMISE(memcmp(tcp, was, 4) == 0 && memcmp(tcp + 12, was + 12, 2) == 0);
	PROMISE(memcmp(tcp + 18, was + 18, 2) == 0); /* urgent pointer */
	PROMISE(sum16(tcp, len) % 0xffff == sum16(was, len) % 0xffff);
	if (!f.window_up && !f.window_down) {
		back = f;
		back.seq_delta = 0U - f.seq_delta;
		back.ts_delta = 0U - f.ts_delta;
		translate(tcp, len, &back, dir);
		PROMISE(memcmp(tcp, was, 16) == 0 && memcmp(tcp + 18, was + 18, len - 18) == 0);
	}
	free(tcp);
	free(was);
}

static void check_cache(const uint8_t *data, const uint8_t *frame, uint32_t len)
{
	static const struct tg_service svc = {
		.mss_v4 = 1460, .mss_v6 = 1440, .wscale = 7, .sack = 1, .timestamps = 1, .ecn = 1};
	static struct tg_halfopen_bucket b;
	struct tg_siphash_key key = {1, 2};
	struct tg_packet syn = {0}, ack, p = {0};
	struct tg_options_cursor c = {.len = 0};
	struct tg_tcp_options offered;
	struct tg_synack a;
	struct tg_segment s;
	struct tg_ack ack_info;
	uint64_t now_ns, hash, head = 0;
	uint8_t out[22 + 40 + 60];
	uint32_t slot;

	if (tg_packet_parse(&syn, frame, frame + len) != TG_PARSE_TCP || !tg_host_is_syn(&syn) ||
	    tg_proxy_judge_syn(&syn, TG_PARSE_TCP, len).verdict != TG_REPLY)
		return;
	memcpy(&now_ns, data + 8, 8);
	c.len = (uint32_t)syn.tcp_hdr_len - TG_TCP_HDR_LEN;
	memcpy(c.bytes, frame + syn.l4_off + TG_TCP_HDR_LEN, c.len);
	offered = tg_tcp_options_parse(&c);
	a = tg_synack_agree(&syn, &offered, &svc);
	hash = tg_halfopen_hash(&syn, &key);
	slot = tg_halfopen_find(&b, hash, &syn, &head);
	if (slot == TG_HALFOPEN_WAYS)
		slot = tg_halfopen_victim(&b, TG_HALFOPEN_TICK(now_ns), &head);
	PROMISE(slot < TG_HALFOPEN_WAYS && tg_halfopen_swap(&b.heads[slot], head, TG_HALFOPEN_BUSY));
	tg_halfopen_fill(&b.halfopens[slot], &syn, &offered, &a, tg_halfopen_isn(hash, now_ns),
			 frame);
	tg_halfopen_publish(&b.heads[slot], tg_halfopen_head(hash, TG_HALFOPEN_TICK(now_ns), 1));
	PROMISE(tg_halfopen_find(&b, hash, &syn, &head) == slot);
	s = tg_halfopen_answer(&b.halfopens[slot]);
	memcpy(out, b.halfopens[slot].link, s.l3_off);
	PROMISE(tg_segment_write((struct tg_writer){out + s.l3_off, out + sizeof(out)}, &s));
	PROMISE(tg_packet_parse(&p, out, out + s.l3_off + tg_segment_len(&s)) == TG_PARSE_TCP);
	PROMISE(p.seq == s.seq && p.ack == syn.seq + 1 && memcmp(&p.dst, &syn.src, 16) == 0);
	ack = syn;
	ack.flags = TG_TCP_ACK;
	ack.seq++;
	ack.ack = s.seq + 1;
	ack_info = (struct tg_ack){.cookie = {s.seq, s.options.tsval}, .ts_ok = s.options.ts_ok};
	PROMISE(tg_halfopen_accepts(&b.halfopens[slot], &ack, &ack_info));
	PROMISE(tg_flow_of_halfopen(&b.halfopens[slot], &ack_info, 1, 1).client_isn == syn.seq);
	ack.ack += 1 + data[0];
	PROMISE(!tg_halfopen_accepts(&b.halfopens[slot], &ack, &ack_info));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *frame;

	if (size < 16)
		return 0;
	check_translation(data, size);
	frame = malloc(size - 16 ? size - 16 : 1);
	memcpy(frame, data + 16, size - 16);
	if (size - 16 >= TG_HALFOPEN_LINK_LEN)
		check_cache(data, frame, (uint32_t)(size - 16));
	free(frame);
	return 0;
}
