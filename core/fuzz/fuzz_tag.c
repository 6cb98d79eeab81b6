/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags and confirmations of any bytes: nothing is read outside, nothing is accepted that no key
 * made, and removing a tag restores the segment.
 *
 * Input: what (1 byte), then a frame with or without a tag, or a confirmation. With
 * `what` odd a frame's tag is first made genuine, so that what follows is reached.
 */
#include "fuzz.h"
#include "../tag.h"

static const struct tg_siphash_key key = {21, 22};

static void confirmation(const uint8_t *p, uint32_t len)
{
	struct tg_confirm c = {0}, again = {0};
	uint8_t out[TG_CONFIRM_LEN];
	uint64_t mac = 0;

	if (tg_confirm_read(p, len, p + len, &c, &mac) != TG_TAG_READ)
		return;
	PROMISE(len == TG_CONFIRM_LEN && (c.family == 4 || c.family == 6));
	tg_confirm_write(out, &c, tg_confirm_mac(&c, &key));
	PROMISE(tg_confirm_read(out, sizeof(out), out + sizeof(out), &again, &mac) == TG_TAG_READ);
	PROMISE(memcmp(&c, &again, sizeof(c)) == 0 && tg_mac_equal(mac, tg_confirm_mac(&again, &key)));
}

/* Removes the tag from a copy of the frame and adds it again. */
static void there_and_back(const uint8_t *frame, uint32_t len, struct tg_packet *pkt)
{
	uint8_t *bare = malloc(len), *again = malloc(len);
	uint32_t at = pkt->l4_off + TG_TCP_HDR_LEN, words[TG_TAG_WORDS];

	memcpy(words, frame + at, TG_TAG_LEN);
	memcpy(bare, frame, at);
	memcpy(bare + at, frame + at + TG_TAG_LEN, len - at - TG_TAG_LEN);
	if (tg_tag_fix(bare + pkt->l3_off, bare + pkt->l4_off, pkt->family, words, false,
		       pkt->l4_len)) {
		memcpy(again, bare, at);
		memcpy(again + at, words, TG_TAG_LEN);
		memcpy(again + at + TG_TAG_LEN, bare + at, len - at - TG_TAG_LEN);
		PROMISE(tg_tag_fix(again + pkt->l3_off, again + pkt->l4_off, pkt->family, words,
				   true, pkt->l4_len - TG_TAG_LEN));
		/* 0 and 0xffff are the same sum; everything else must be the same bytes. */
		memcpy(again + pkt->l4_off + 16, frame + pkt->l4_off + 16, 2);
		if (pkt->family == 4)
			memcpy(again + pkt->l3_off + 10, frame + pkt->l3_off + 10, 2);
		PROMISE(memcmp(again, frame, len) == 0);
	}
	free(bare);
	free(again);
}

static void segment(uint8_t *frame, uint32_t len, bool genuine)
{
	struct tg_packet pkt = {0};
	struct tg_tag t = {0};
	uint32_t at, options;
	uint64_t mac = 0;

	if (tg_packet_parse(&pkt, frame, frame + len) != TG_PARSE_TCP)
		return;
	tg_packet_measure(&pkt, len);
	if (!tg_host_ack_is_whole(&pkt, len))
		return;
	at = pkt.l4_off + TG_TCP_HDR_LEN;
	options = (uint32_t)pkt.tcp_hdr_len - TG_TCP_HDR_LEN;
	if (tg_tag_read(frame + at, options, frame + len, &t, &mac) != TG_TAG_READ)
		return;
	PROMISE(options >= TG_TAG_LEN && t.edge >= 1 && t.edge <= TG_TAG_EDGE_MAX);
	PROMISE(t.what == TG_TAG_SETUP || t.what == TG_TAG_PROBE);
	if (genuine) {
		uint32_t words[TG_TAG_WORDS];

		tg_tag_words(words, &t, tg_tag_mac(&pkt, 0, &t, &key));
		memcpy(frame + at, words, TG_TAG_LEN);
		PROMISE(tg_tag_read(frame + at, options, frame + len, &t, &mac) == TG_TAG_READ);
		PROMISE(tg_mac_equal(mac, tg_tag_mac(&pkt, 0, &t, &key)));
	} else {
		PROMISE(!tg_mac_equal(mac, tg_tag_mac(&pkt, 0, &t, &key)));
	}
	there_and_back(frame, len, &pkt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (size < 2)
		return 0;
	copy = malloc(size - 1);
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 2)
		confirmation(copy, (uint32_t)size - 1);
	else
		segment(copy, (uint32_t)size - 1, data[0] & 1);
	free(copy);
	return 0;
}
