/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_frame.h.
 */
#include "replay_frame.h"

struct frame now;
static struct frame sent[8];
static uint32_t sent_n;

bool take(const char *hex)
{
	int len;

	now.at = now.room + MARGIN;
	len = unhex(hex, now.at, FRAME_MAX);
	now.len = len < 0 ? 0 : (uint32_t)len;
	sent_n = 0;
	return len >= 0;
}

void send_copy(void)
{
	struct frame *f = &sent[sent_n++];

	memcpy(f->room, now.at, now.len);
	f->at = f->room;
	f->len = now.len;
}

enum verdict verdict_of(enum tg_verdict v)
{
	return v == TG_REPLY ? VERDICT_TX : v == TG_DROP ? VERDICT_DROP : VERDICT_PASS;
}

void tell(enum verdict v)
{
	static const char *const names[] = {"pass", "drop", "tx", "setup", "redirect"};
	uint32_t i;

	print_frame(names[v], now.at, v == VERDICT_DROP ? 0 : now.len);
	for (i = 0; i < sent_n; i++)
		print_frame(" sent", sent[i].at, sent[i].len);
}

const struct tg_tag_epoch *tag_keys_of(uint64_t epoch)
{
	const struct tg_tag_epoch *k = &plane.tags[epoch % KEY_SLOTS];

	return k->epoch == epoch && epoch ? k : NULL;
}

bool tag_put(struct tg_packet *pkt, const struct tg_tag *t, uint64_t epoch, uint64_t flip)
{
	const struct tg_tag_epoch *keys = tag_keys_of(epoch);
	uint32_t words[TG_TAG_WORDS], options_len = (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	const uint8_t *options = now.at + pkt->l4_off + TG_TCP_HDR_LEN;
	struct tg_tcp_options o;

	if (!keys || options_len > TG_TCP_OPTIONS_MAX_LEN - TG_TAG_LEN ||
	    !timestamps_at(options, options_len, now.at + now.len, &o))
		return false;
	tg_tag_words(words, t, tg_tag_mac(pkt, o.tsecr, t, &keys->tag) ^ flip);
	memmove(now.at - TG_TAG_LEN, now.at, pkt->l4_off + TG_TCP_HDR_LEN);
	now.at -= TG_TAG_LEN;
	now.len += TG_TAG_LEN;
	memcpy(now.at + pkt->l4_off + TG_TCP_HDR_LEN, words, TG_TAG_LEN);
	return tg_tag_fix(now.at + pkt->l3_off, now.at + pkt->l4_off, pkt->family, words, true,
			  pkt->l4_len);
}

/* The frame with a tag, if it has room for one. */
bool do_tag(const char *args)
{
	struct tg_packet pkt = {0};
	uint32_t what, wscale, edge;
	uint64_t epoch, flip;
	struct tg_tag t;
	int at = 0;

	if (sscanf(args, "%" SCNu64 " %u %u %u %" SCNu64 " %n", &epoch, &what, &wscale, &edge,
		   &flip, &at) != 5 ||
	    !at || !take(args + at) ||
	    tg_packet_parse(&pkt, now.at, now.at + now.len) != TG_PARSE_TCP)
		return false;
	tg_packet_measure(&pkt, now.len);
	t = (struct tg_tag){.epoch = (uint32_t)epoch,
			    .edge = (uint16_t)edge,
			    .what = (uint8_t)what,
			    .wscale = (uint8_t)wscale};
	if (tg_host_ack_is_whole(&pkt, now.len))
		tag_put(&pkt, &t, epoch, flip);
	tell(VERDICT_PASS);
	return true;
}

bool do_tag_key(const char *args)
{
	char tag[33], confirm_key[33];
	uint8_t raw[2][16];
	uint64_t epoch;

	if (sscanf(args, "%" SCNu64 " %32s %32s", &epoch, tag, confirm_key) != 3 ||
	    unhex(tag, raw[0], 16) != 16 || unhex(confirm_key, raw[1], 16) != 16)
		return false;
	plane.tags[epoch % KEY_SLOTS] = (struct tg_tag_epoch){
		.epoch = epoch,
		.tag = {tg_load64(raw[0]), tg_load64(raw[0] + 8)},
		.confirm = {tg_load64(raw[1]), tg_load64(raw[1] + 8)},
	};
	return true;
}
