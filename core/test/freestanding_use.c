/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses all of core/ from end to end, so that freestanding.sh can look at what the
 * compiled code calls. Never run.
 */
#include "../capture.h"
#include "../cookie_smartcookie.h"
#include "../edge.h"
#include "../halfsiphash.h"
#include "../host.h"
#include "../live_sockets.h"
#include "../near_flow.h"
#include "../proxy.h"
#include "../signed.h"
#include "../over_limit.h"
#include "../proven.h"
#include "../source_limit.h"
#include "../splitmix.h"
#include "../syn_cache_front.h"
#include "../tuple_filter.h"

int tg_use_syn(uint8_t *frame, uint32_t frame_len, const struct tg_service *svc,
	       const uint8_t secret[TG_SECRET_LEN], uint64_t epoch);
int tg_use_ack(const uint8_t *frame, uint32_t frame_len, struct tg_siphash_key key, uint64_t epoch,
	       struct tg_agreed *agreed);
uint32_t tg_use_rest(const uint64_t keys[TG_FILTER_KEYS], const struct tg_packet *pkt,
		     uint64_t now_ns, const uint8_t *data, uint32_t len);

int tg_use_flow(uint8_t *tcp, const struct tg_packet *pkt, const struct tg_service *svc,
		struct tg_flow *f, struct tg_options_cursor *c, struct tg_writer w);
int tg_use_edge(const struct tg_packet *pkt, const uint64_t *words, struct tg_bloom_key key,
		struct tg_allowance *a, uint64_t now_ns);

int tg_use_edge(const struct tg_packet *pkt, const uint64_t *words, struct tg_bloom_key key,
		struct tg_allowance *a, uint64_t now_ns)
{
	struct tg_bloom_at at = tg_bloom_locate(tg_bloom_hash(pkt, TG_BLOOM_FROM_SERVER, &key), 20);
	enum tg_edge_kind kind = tg_edge_kind(pkt);

	if (tg_edge_expires(pkt->flags, 16) ||
	    tg_bloom_known(words[at.word[0]], words[at.word[1]], words[at.word[2]], &at))
		return (int)(tg_bloom_bit(&at, 0, 1) & tg_bloom_plane(1));
	return (int)tg_edge_judge(kind, tg_allowance_take(a, 1000, now_ns) ? TG_EDGE_ALLOWED
									   : TG_EDGE_UNKNOWN)
		       .counter +
	       (int)tg_signed_judge_at(pkt->flags, pkt->seq, a, now_ns).verdict +
	       (int)tg_epoch_verifying(now_ns, 1, 2) + (int)tg_bloom_fp_ppb(now_ns, 20);
}

int tg_use_flow(uint8_t *tcp, const struct tg_packet *pkt, const struct tg_service *svc,
		struct tg_flow *f, struct tg_options_cursor *c, struct tg_writer w)
{
	struct tg_tcp_options o = tg_tcp_options_parse(c);
	struct tg_siphash_key key = {1, 2};
	struct tg_segment s[5] = {tg_flow_ack(pkt, f, &o), tg_flow_window(pkt, f, &o, 1),
				  tg_flow_refusal(pkt, f), tg_reset_for(pkt),
				  tg_challenge(pkt, svc, 64, &key, false)};
	uint64_t sum = 0;
	int i, wrong = 0;

	tg_translate_header(tcp, f, TG_TO_SERVER, &sum);
	tg_translate_timestamps(tcp + 24, f, true, TG_TO_CLIENT, &sum);
	tg_translate_options(c, f, true, TG_TO_SERVER, &sum);
	tg_translate_quoted(tcp, f, TG_TO_CLIENT, &sum);
	if (tg_setup_judge(pkt, 1) == TG_SETUP_READY)
		tg_flow_ready(f, pkt, &o, 1);
	tg_flow_restart(f, pkt);
	for (i = 0; i < 5; i++)
		wrong += !tg_segment_write(w, &s[i]);
	return wrong +
	       (int)tg_flow_track(f, pkt, TG_TO_SERVER, tg_flow_is_reset(f, pkt, TG_TO_SERVER, 1), 1) +
	       tg_translate_checksum(1, sum) + tg_proxy_judge_syn(pkt, TG_PARSE_TCP, 60).counter +
	       (int)tg_flow_key4(pkt, TG_TO_CLIENT).ports +
	       (int)tg_flow_key6(pkt, TG_TO_SERVER).ports +
	       (int)tg_white_key(&pkt->src, pkt->family, 1, 1) + tg_challenge_answered(pkt, 1, &key);
}

#ifndef __arm__ /* heads are 64 bits: a Cortex-M3 cannot swap them, and has no use for it */
int tg_use_halfopen(struct tg_halfopen_bucket *b, const struct tg_packet *pkt,
		    const struct tg_tcp_options *o, const struct tg_synack *a,
		    const struct tg_ack *ack_info, const struct tg_siphash_key *key,
		    const uint8_t *frame, struct tg_writer w);

int tg_use_halfopen(struct tg_halfopen_bucket *b, const struct tg_packet *pkt,
		    const struct tg_tcp_options *o, const struct tg_synack *a,
		    const struct tg_ack *ack_info, const struct tg_siphash_key *key,
		    const uint8_t *frame, struct tg_writer w)
{
	uint64_t head = 0, hash = tg_halfopen_hash(pkt, key);
	uint32_t slot = tg_halfopen_find(b, hash, pkt, &head);
	struct tg_halfopen_front front = {hash, head};
	struct tg_segment s;
	struct tg_flow f;

	tg_halfopen_front_note(&front, head, hash);
	tg_halfopen_front_takes(&front, slot, tg_halfopen_home(pkt, hash, key));
	if (tg_halfopen_front_is_full(&front, tg_halfopen_home(pkt, hash, key), 1, hash))
		return 0;
	if (slot == TG_HALFOPEN_WAYS)
		slot = tg_halfopen_victim(b, TG_HALFOPEN_TICK(hash), &head) % TG_HALFOPEN_WAYS;
	if (tg_halfopen_is_due(head, 1) || !tg_halfopen_swap(&b->heads[slot], head, TG_HALFOPEN_BUSY))
		return -1;
	tg_halfopen_fill(&b->halfopens[slot], pkt, o, a, tg_halfopen_isn(hash, hash), frame);
	tg_halfopen_publish(&b->heads[slot], tg_halfopen_head(hash, 1, 1));
	s = tg_halfopen_answer(&b->halfopens[slot]);
	f = tg_flow_of_halfopen(&b->halfopens[slot], ack_info, 1, 1);
	return tg_halfopen_accepts(&b->halfopens[slot], pkt, ack_info) +
	       tg_halfopen_refused(&b->halfopens[slot], pkt) + tg_segment_write(w, &s) + f.state;
}
#endif

int tg_use_syn(uint8_t *frame, uint32_t frame_len, const struct tg_service *svc,
	       const uint8_t secret[TG_SECRET_LEN], uint64_t epoch)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result result = tg_packet_parse(&pkt, frame, frame + frame_len);
	struct tg_options_cursor cursor = {.len = 0};
	struct tg_siphash_key key = tg_epoch_key_derive(secret, epoch);
	struct tg_decision d = tg_host_judge_parse(result);
	struct tg_tcp_options offered;
	struct tg_synack answer;
	uint32_t i;

	if (d.verdict != TG_PASS || !tg_host_is_syn(&pkt))
		return d.verdict;
	d = tg_host_judge_listener(tg_service_listener(svc, pkt.family), false);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_syn(&pkt, result, frame_len);
	if (d.verdict != TG_REPLY)
		return (int)tg_host_judge_no_key(TG_STALE_DROP).counter;
	cursor.len = (uint32_t)pkt.tcp_hdr_len - TG_TCP_HDR_LEN;
	for (i = 0; i < cursor.len; i++)
		cursor.bytes[i] = frame[pkt.l4_off + TG_TCP_HDR_LEN + i];
	offered = tg_tcp_options_parse(&cursor);
	answer = tg_synack_agree(&pkt, &offered, svc);
	tg_ethernet_reflect(frame);
	return tg_synack_write(
		(struct tg_writer){frame + pkt.l3_off, frame + frame_len}, &pkt, &answer,
		tg_cookie_make(&pkt, answer.option_bits, answer.options.ts_ok, epoch, &key));
}

int tg_use_ack(const uint8_t *frame, uint32_t frame_len, struct tg_siphash_key key, uint64_t epoch,
	       struct tg_agreed *agreed)
{
	struct tg_packet pkt = {0};
	struct tg_tcp_options o = {0};
	struct tg_ack ack;

	if (tg_packet_parse(&pkt, frame, frame + frame_len) != TG_PARSE_TCP || !tg_host_is_ack(&pkt))
		return 0;
	o.ts_ok = tg_tcp_timestamps_aligned(tg_load32(frame), 0, 0, &o.tsval, &o.tsecr);
	ack = tg_host_read_ack(&pkt, &o);
	*agreed = tg_cookie_agreed(pkt.family, tg_cookie_claimed_bits(ack.cookie, ack.ts_ok),
				   ack.ts_ok);
	return tg_cookie_verify(&pkt, ack.cookie, ack.ts_ok, tg_cookie_epoch(ack.cookie.isn, epoch),
				&key);
}

uint32_t tg_use_rest(const uint64_t keys[TG_FILTER_KEYS], const struct tg_packet *pkt,
		     uint64_t now_ns, const uint8_t *data, uint32_t len)
{
	struct tg_filter_index at = tg_filter_index(keys, pkt->family, &pkt->src, &pkt->dst,
						    pkt->ports);
	struct tg_siphash_key key = {1, 2};
	struct tg_halfsiphash_key half = {1, 2};

	return at.first + at.second +
	       tg_live_slot(tg_filter_hash(keys, pkt->family, &pkt->src, &pkt->dst, pkt->ports)) +
	       tg_filter_cell_hit(at.first, tg_filter_tick(now_ns), 5) +
	       (uint32_t)tg_siphash24(&key, data, len) + tg_halfsiphash24(&half, data, len) +
	       tg_smart_make(pkt, len, now_ns, &half) + tg_smart_verify(pkt, now_ns, &half) +
	       tg_csum_update16(1, 2, 3) + tg_csum_update32(1, 2, 3) +
	       tg_csum_finish(tg_csum_add(0, data, len)) +
	       tg_addr_mask(pkt->src, pkt->family, 24).w[0];
}
