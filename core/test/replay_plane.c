/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plane without a kernel does with a frame, to be read beside bpf/host_xdp.bpf.c and
 * bpf/host_tc.bpf.c.
 */
#include "replay_plane.h"

#include <stdlib.h>

#include "commands.h"

struct plane plane;

void count(uint32_t id, enum tg_counter counter)
{
	if (counter < TG_COUNTERS)
		plane.counters[id][counter]++;
}

uint32_t service_find(const struct tg_packet *pkt)
{
	uint32_t entry = plane.ports[tg_swap16(TG_DST_PORT_BE(pkt))];
	int family = pkt->family == 6;
	uint32_t i, n;

	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	for (i = 0; i < plane.lens_count[family]; i++) {
		uint8_t len = (uint8_t)plane.lens[family][i];
		union tg_addr masked = tg_addr_mask(pkt->dst, pkt->family, len);

		for (n = 0; n < plane.prefix_count; n++) {
			const struct prefix *p = &plane.prefixes[n];

			if (p->key.family == pkt->family && p->key.prefix_len == len &&
			    p->key.port_be == TG_DST_PORT_BE(pkt) &&
			    memcmp(&p->key.addr, &masked, sizeof(masked)) == 0)
				return p->id;
		}
	}
	return TG_PORT_SERVICE(entry);
}

const struct tg_siphash_key *key_find(uint64_t epoch)
{
	struct tg_epoch_key *k = &plane.keys[epoch % KEY_SLOTS];

	return k->epoch == epoch && (k->key.k0 || k->key.k1) ? &k->key : NULL;
}

static bool same_tuple(const struct tg_packet *a, const struct tg_packet *b)
{
	return a->family == b->family && a->ports == b->ports &&
	       memcmp(&a->src, &b->src, sizeof(a->src)) == 0 &&
	       memcmp(&a->dst, &b->dst, sizeof(a->dst)) == 0;
}

/* vectors/README.md: the peers that have a socket already. */
static enum socket_state socket_find(const struct tg_packet *pkt)
{
	static const uint8_t v6[16] = {0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0};
	bool peer = pkt->ports == (tg_swap16(45678) | (uint32_t)tg_swap16(80) << 16) &&
		    (pkt->family == 4 ? pkt->src.w[0] == TG_WIRE32(192, 0, 2, 200)
				      : memcmp(&pkt->src, v6, 16) == 0);

	if (same_tuple(pkt, &plane.adopted))
		return SOCKET_ESTABLISHED;
	if (peer || plane.socket == SOCKET_NONE)
		return plane.socket;
	return SOCKET_LISTENER;
}

uint8_t *copy_of(const uint8_t *data, uint32_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* never larger: the sanitizer watches its end */

	if (!copy)
		abort();
	memcpy(copy, data, len);
	return copy;
}

/* As tg_syn_options in bpf/host_xdp.bpf.c. False: malformed. */
bool syn_options(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *syn,
		 struct tg_tcp_options *offered)
{
	struct tg_options_cursor options = {.len = (uint32_t)syn->tcp_hdr_len - TG_TCP_HDR_LEN};

	if (options.len > TG_TCP_OPTIONS_MAX_LEN ||
	    syn->l4_off + TG_TCP_HDR_LEN + options.len > frame_len)
		return false;
	memcpy(options.bytes, frame + syn->l4_off + TG_TCP_HDR_LEN, options.len);
	*offered = tg_tcp_options_parse(&options);
	return true;
}

/* As tg_syn_answer. */
static void syn_answer(const uint8_t *frame, const struct tg_packet *syn,
		       const struct tg_service *svc, const struct tg_tcp_options *offered,
		       uint64_t epoch, const struct tg_siphash_key *key)
{
	struct tg_synack answer;
	struct tg_cookie cookie;
	uint32_t len;
	uint8_t *out;

	answer = tg_synack_agree(syn, offered, svc);
	cookie = tg_cookie_make(syn, answer.option_bits, answer.options.ts_ok, epoch, key);
	len = syn->l3_off + tg_synack_len(syn, &answer);
	out = malloc(len);
	if (!out)
		abort();
	memcpy(out, frame, syn->l3_off);
	if (!tg_synack_write((struct tg_writer){out + syn->l3_off, out + len}, syn, &answer, cookie))
		abort();
	tg_ethernet_reflect(out);
	print_frame("tx", out, len);
	free(out);
}

/* As tg_intact in bpf/lib/intact.h. */
enum tg_intact intact(const uint8_t *frame, const struct tg_packet *pkt)
{
	const uint8_t *ip = frame + pkt->l3_off, *tcp = frame + pkt->l4_off;
	uint32_t hdr_len = pkt->l4_off - pkt->l3_off;
	uint8_t room[64] = {0};

	if (pkt->family == 4) {
		if (tg_csum_fold(tg_csum_add(0, ip, hdr_len)) != 0xffff)
			return TG_INTACT_BAD_SUM;
		memcpy(room, ip, hdr_len);
		if (tg_intact_ip_options(room, hdr_len) != TG_INTACT)
			return tg_intact_ip_options(room, hdr_len);
	}
	return tg_intact_tcp(tg_intact_pseudo(pkt), tg_csum_add(0, tcp, pkt->l4_len),
			     tg_load16(tcp + 16))
		       ? TG_INTACT
		       : TG_INTACT_BAD_SUM;
}

/* As tg_syn_handle. True if the frame went no further (and the answer is printed). */
static bool syn_handle(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *syn,
		       enum tg_parse_result result, uint32_t id)
{
	const struct tg_service *svc = &plane.services[id];
	const struct tg_siphash_key *key;
	struct tg_tcp_options offered;
	struct tg_decision d;

	if (svc->mode == TG_MODE_OFF)
		return false;
	count(id, TG_COUNT_syn);
	d = tg_host_judge_listener(tg_service_listener(svc, syn->family), false);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_syn(syn, result, frame_len);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(intact(frame, syn));
	if (d.verdict == TG_REPLY && !tg_frame_is_adoptable(syn->l3_off, tg_load16(frame + 12)))
		d = tg_host_judge_tags(!tg_frame_is_twice_untagged(syn->l3_off, frame + 14));
	if (svc->mode == TG_MODE_MONITOR) {
		count(id, tg_host_monitor(d));
		return false;
	}
	if (d.verdict == TG_REPLY && plane.filter_maybe && socket_find(syn) >= SOCKET_ESTABLISHED)
		d = TG_DECIDE(TG_PASS, TG_COUNT_pass_existing);
	key = key_find(plane.epoch);
	if (d.verdict == TG_REPLY && !key)
		d = tg_host_judge_no_key(plane.stale_keys);
	if (d.verdict == TG_REPLY && !syn_options(frame, frame_len, syn, &offered))
		d = TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	if (d.verdict == TG_REPLY) {
		d = tg_signed_judge_at(offered.auth, svc->signed_cost_us, &plane.allowances[id],
				       NOW_NS);
		if (d.verdict == TG_REPLY) {
			count(id, d.counter);
			d.counter = TG_COUNT_cookie_sent;
			syn_answer(frame, syn, svc, &offered, plane.epoch, key);
		}
	}
	count(id, d.counter);
	if (d.verdict == TG_DROP)
		printf("drop");
	return d.verdict != TG_PASS;
}

/* As tg_host_xdp. */
bool replay_xdp(const uint8_t *frame, uint32_t len)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result result = tg_packet_parse(&pkt, frame, frame + len);
	struct tg_decision d = tg_host_judge_parse(result);
	bool enforce = false;
	uint32_t id;

	if (d.verdict == TG_DROP) {
		for (id = 1; id <= plane.top; id++)
			enforce |= plane.services[id].mode == TG_MODE_ALWAYS;
		count(0, enforce ? d.counter : TG_COUNT_would_drop);
		if (enforce)
			printf("drop");
		return enforce;
	}
	if (result == TG_PARSE_OTHER || !tg_host_is_syn(&pkt))
		return false;
	tg_packet_measure(&pkt, len);
	id = service_find(&pkt);
	return id && syn_handle(frame, len, &pkt, result, id);
}

/* As tg_ack_read in bpf/host_tc.bpf.c. */
static bool ack_read(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *pkt,
		     struct tg_ack *ack)
{
	struct tg_options_cursor c = {.len = (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN};
	const uint8_t *options = frame + pkt->l4_off + TG_TCP_HDR_LEN;
	struct tg_tcp_options o;

	if (!tg_host_ack_is_whole(pkt, frame_len) || c.len > TG_TCP_OPTIONS_MAX_LEN)
		return false;
	ack->cookie.isn = pkt->ack - 1;
	if (c.len >= 12 &&
	    tg_tcp_timestamps_aligned(tg_load32(options), tg_load32(options + 4),
				      tg_load32(options + 8), &ack->tsval, &ack->cookie.tsval)) {
		ack->ts_ok = true;
		return true;
	}
	memcpy(c.bytes, options, c.len);
	o = tg_tcp_options_parse(&c);
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

static bool verify(const struct tg_packet *pkt, const struct tg_ack *ack, uint64_t epoch)
{
	const struct tg_siphash_key *key = key_find(epoch);

	return key && tg_cookie_verify(pkt, ack->cookie, ack->ts_ok, epoch, key);
}

/* As tg_ack_handle. True if adopted; what was agreed goes to *agreed. */
static bool ack_handle(const uint8_t *frame, uint32_t len, const struct tg_packet *pkt, uint32_t id,
		       struct tg_agreed *agreed)
{
	enum socket_state found = socket_find(pkt);
	struct tg_ack ack = {0};
	uint64_t epoch;

	if (plane.services[id].mode != TG_MODE_ALWAYS || !ack_read(frame, len, pkt, &ack))
		return false;
	epoch = tg_cookie_epoch(ack.cookie.isn, plane.epoch);
	if (!verify(pkt, &ack, epoch)) {
		if (!plane.filter_maybe)
			count(id, verify(pkt, &ack, epoch - 2) ? TG_COUNT_cookie_stale
							       : TG_COUNT_cookie_invalid);
		return false;
	}
	if (found != SOCKET_LISTENER) {
		count(id, found == SOCKET_NONE ? TG_COUNT_ack_no_listener : TG_COUNT_ack_existing);
		return false;
	}
	count(id, TG_COUNT_cookie_valid);
	count(id, TG_COUNT_adopted);
	plane.adopted = *pkt;
	*agreed = tg_cookie_agreed(pkt->family, tg_cookie_claimed_bits(ack.cookie, ack.ts_ok),
				   ack.ts_ok);
	return true;
}

/* As tg_host_tc; what it met goes on in any case. */
void replay_tc(const uint8_t *frame, uint32_t len)
{
	struct tg_packet pkt = {0};
	struct tg_agreed a;
	uint32_t id;

	if (tg_packet_parse(&pkt, frame, frame + len) == TG_PARSE_TCP && tg_host_is_ack(&pkt)) {
		tg_packet_measure(&pkt, len);
		id = service_find(&pkt);
		if (id && ack_handle(frame, len, &pkt, id, &a)) {
			print_frame("adopt", frame, len);
			printf(" %u %u %u %u %u %u", a.mss, a.wscale,
			       a.wscale == TG_WSCALE_NONE ? 0 : plane.services[id].wscale,
			       a.sack_ok, a.ts_ok, a.ecn_ok);
			return;
		}
	}
	print_frame("pass", frame, len);
}
