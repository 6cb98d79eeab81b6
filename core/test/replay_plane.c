/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plane without a kernel does with a frame, to be read beside bpf/host_xdp.bpf.c and
 * bpf/host_tc.bpf.c.
 */
#include "replay_plane.h"

#include <stdlib.h>

#include "../cookie_smartcookie.h"
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

struct tg_decision syn_judge_answer(const uint8_t *frame, uint32_t frame_len,
				    const struct tg_packet *syn, uint32_t id,
				    struct tg_tcp_options *offered)
{
	struct tg_decision d;

	if (!key_find(plane.epoch))
		return tg_host_judge_no_key(plane.stale_keys);
	if (!syn_options(frame, frame_len, syn, offered))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	d = tg_signed_judge_at(offered->auth, plane.services[id].signed_cost_us,
			       &plane.allowances[id], NOW_NS);
	if (d.verdict == TG_REPLY) {
		count(id, d.counter);
		d.counter = TG_COUNT_cookie_sent;
	}
	return d;
}

static struct tg_halfsiphash_key half_of(const struct tg_siphash_key *key)
{
	return (struct tg_halfsiphash_key){(uint32_t)key->k0, (uint32_t)(key->k0 >> 32)};
}

/* As tg_syn_answer, and tg_edge_answer of bpf/lib/edge_smart.h. */
uint32_t answer_write(uint8_t *frame, const struct tg_packet *syn, const struct tg_service *svc,
		      const struct tg_tcp_options *offered, bool smart)
{
	const struct tg_siphash_key *key = key_find(plane.epoch);
	struct tg_halfsiphash_key half = half_of(key);
	struct tg_service offers = *svc;
	struct tg_cookie cookie = {0};
	struct tg_synack answer;
	uint32_t len;

	if (smart)
		offers.sack = offers.timestamps = offers.ecn = 0;
	answer = tg_synack_agree(syn, offered, &offers);
	if (smart)
		cookie.isn = tg_smart_make(syn, answer.option_bits, plane.epoch, &half);
	else
		cookie = tg_cookie_make(syn, answer.option_bits, answer.options.ts_ok, plane.epoch,
					key);
	len = syn->l3_off + tg_synack_len(syn, &answer);
	if (!tg_synack_write((struct tg_writer){frame + syn->l3_off, frame + len}, syn, &answer,
			     cookie))
		abort();
	tg_ethernet_reflect(frame);
	return len;
}

static void syn_answer(const uint8_t *frame, const struct tg_packet *syn,
		       const struct tg_service *svc, const struct tg_tcp_options *offered)
{
	uint8_t room[256];
	uint32_t len;

	memcpy(room, frame, syn->l3_off);
	len = answer_write(room, syn, svc, offered, false);
	print_frame("tx", room, len);
}

/* As tg_intact in bpf/lib/intact.h. */
enum tg_intact intact(const uint8_t *frame, const struct tg_packet *pkt)
{
	const uint8_t *tcp = frame + pkt->l4_off;
	enum tg_intact found = TG_INTACT;

	if (pkt->family == 4)
		found = tg_intact_ipv4(frame + pkt->l3_off, pkt->l4_off - pkt->l3_off, false);
	if (found != TG_INTACT)
		return found;
	return tg_intact_tcp(tg_intact_pseudo(pkt), tg_csum_add(0, tcp, pkt->l4_len),
			     tg_load16(tcp + TG_TCP_SUM))
		       ? TG_INTACT
		       : TG_INTACT_BAD_SUM;
}

/* As tg_syn_handle. True if the frame went no further (and the answer is printed). */
static bool syn_handle(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *syn,
		       enum tg_parse_result result, uint32_t id)
{
	const struct tg_service *svc = &plane.services[id];
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
	if (d.verdict == TG_REPLY)
		d = syn_judge_answer(frame, frame_len, syn, id, &offered);
	if (d.verdict == TG_REPLY)
		syn_answer(frame, syn, svc, &offered);
	count(id, d.counter);
	if (d.verdict == TG_DROP)
		printf("drop");
	return d.verdict != TG_PASS;
}

bool is_condemned(enum tg_parse_result parsed)
{
	struct tg_decision d = tg_host_judge_parse(parsed);
	bool enforce = false;
	uint32_t id;

	if (d.verdict != TG_DROP)
		return false;
	for (id = 1; id <= plane.top; id++)
		enforce |= plane.services[id].mode == TG_MODE_ALWAYS;
	count(0, enforce ? d.counter : TG_COUNT_would_drop);
	return enforce;
}

/* As tg_host_xdp. */
bool replay_xdp(const uint8_t *frame, uint32_t len)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result result = tg_packet_parse(&pkt, frame, frame + len);
	uint32_t id;

	if (is_condemned(result)) {
		printf("drop");
		return true;
	}
	if ((result != TG_PARSE_TCP && result != TG_PARSE_FRAGMENT) || !tg_host_is_syn(&pkt))
		return false;
	tg_packet_measure(&pkt, len);
	id = service_find(&pkt);
	return id && syn_handle(frame, len, &pkt, result, id);
}

bool timestamps_at(const uint8_t *at, uint32_t len, const uint8_t *end, struct tg_tcp_options *o)
{
	struct tg_options_cursor c = {.len = len};

	memset(o, 0, sizeof(*o));
	if (len >= 12 && at + 12 <= end &&
	    tg_tcp_timestamps_aligned(tg_load32(at), tg_load32(at + 4), tg_load32(at + 8),
				      &o->tsval, &o->tsecr)) {
		o->ts_ok = true;
		return true;
	}
	if (!len)
		return true;
	if (len > TG_TCP_OPTIONS_MAX_LEN || at + len > end)
		return false;
	memcpy(c.bytes, at, len);
	*o = tg_tcp_options_parse(&c);
	return true;
}

/* As tg_ack_read in bpf/lib/ack_cookie.h. */
bool ack_read(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *pkt,
	      struct tg_ack *ack)
{
	struct tg_tcp_options o;

	if (!tg_host_ack_is_whole(pkt, frame_len) ||
	    !timestamps_at(frame + pkt->l4_off + TG_TCP_HDR_LEN,
			   (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN, frame + frame_len, &o))
		return false;
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

bool cookie_is_ours(const struct tg_packet *pkt, const struct tg_ack *ack, uint64_t epoch, bool smart)
{
	const struct tg_siphash_key *key = key_find(epoch);
	struct tg_halfsiphash_key half;

	if (!key)
		return false;
	half = half_of(key);
	return smart ? tg_smart_verify(pkt, epoch, &half)
		     : tg_cookie_verify(pkt, ack->cookie, ack->ts_ok, epoch, key);
}

enum ack_result { ACK_INVALID, ACK_STALE, ACK_VALID, ACK_NO_KEY };

/* As tg_ack_verify. */
static enum ack_result ack_verify(const struct tg_packet *pkt, const struct tg_ack *ack)
{
	uint64_t epoch = tg_cookie_epoch(ack->cookie.isn, plane.epoch + plane.host.ahead);
	bool report_stale = !plane.filter_maybe && !plane.host.final_check;

	if (cookie_is_ours(pkt, ack, epoch, plane.host.smart))
		return ACK_VALID;
	if (!key_find(epoch))
		return ACK_NO_KEY;
	if (!(report_stale || plane.host.four_epochs) ||
	    !cookie_is_ours(pkt, ack, epoch - TG_EPOCHS_OLDER, plane.host.smart))
		return ACK_INVALID;
	return plane.host.four_epochs ? ACK_VALID : ACK_STALE;
}

/* As tg_ack_unmatched and tg_first_fragment: the final ACK check. */
static bool unmatched_is_dropped(const struct tg_packet *pkt, uint32_t id)
{
	const struct tg_service *svc = &plane.services[id];

	if (!plane.host.final_check || tg_service_listener(svc, pkt->family) == TG_LISTENER_NONE ||
	    tg_host_fails_open(plane.stale_keys, key_find(plane.epoch + plane.host.ahead)))
		return false;
	if (tg_service_is_passive(svc)) {
		if (svc->mode == TG_MODE_MONITOR)
			count(id, TG_COUNT_would_drop);
		return false;
	}
	count(id, TG_COUNT_drop_unmatched_ack);
	return true;
}

enum tc { TC_PASS, TC_DROP, TC_ADOPT };

/* As tg_ack_handle. What was agreed goes to *agreed. */
static enum tc ack_handle(const uint8_t *frame, uint32_t len, const struct tg_packet *pkt,
			  uint32_t id, struct tg_agreed *agreed)
{
	enum socket_state found = socket_find(pkt);
	struct tg_ack ack = {0};
	enum ack_result result;

	if (!tg_service_verifies(&plane.services[id]) || !ack_read(frame, len, pkt, &ack))
		return TC_PASS;
	result = ack_verify(pkt, &ack);
	if (result != ACK_VALID) {
		if (plane.filter_maybe)
			return TC_PASS;
		count(id, result == ACK_STALE ? TG_COUNT_cookie_stale : TG_COUNT_cookie_invalid);
		return unmatched_is_dropped(pkt, id) ? TC_DROP : TC_PASS;
	}
	if (plane.host.tags_stay && pkt->l3_off != TG_ETH_HDR_LEN) {
		count(id, TG_COUNT_ack_frame);
		return TC_PASS;
	}
	if (found != SOCKET_LISTENER) {
		count(id, found == SOCKET_NONE ? TG_COUNT_ack_no_listener : TG_COUNT_ack_existing);
		return TC_PASS;
	}
	count(id, TG_COUNT_cookie_valid);
	count(id, TG_COUNT_adopted);
	plane.adopted = *pkt;
	*agreed = plane.host.smart ? tg_cookie_agreed(pkt->family,
						      tg_smart_claimed_bits(ack.cookie.isn), false)
				   : tg_cookie_agreed(pkt->family,
						      tg_cookie_claimed_bits(ack.cookie, ack.ts_ok),
						      ack.ts_ok);
	return TC_ADOPT;
}

/* As tg_host_tc. */
static enum tc tc(const uint8_t *frame, uint32_t len, struct tg_agreed *agreed, uint32_t *id)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result parsed = tg_packet_parse(&pkt, frame, frame + len);

	if (parsed != TG_PARSE_TCP && parsed != TG_PARSE_FRAGMENT)
		return plane.host.final_check && is_condemned(parsed) ? TC_DROP : TC_PASS;
	*id = tg_host_is_ack(&pkt) ? service_find(&pkt) : 0;
	if (!*id)
		return TC_PASS;
	if (parsed == TG_PARSE_FRAGMENT)
		return tg_service_verifies(&plane.services[*id]) && !plane.filter_maybe &&
				       unmatched_is_dropped(&pkt, *id)
			       ? TC_DROP
			       : TC_PASS;
	tg_packet_measure(&pkt, len);
	return ack_handle(frame, len, &pkt, *id, agreed);
}

void replay_tc(const uint8_t *frame, uint32_t len)
{
	struct tg_agreed a;
	uint32_t id;

	switch (tc(frame, len, &a, &id)) {
	case TC_ADOPT:
		print_frame("adopt", frame, len);
		printf(" %u %u %u %u %u %u", a.mss, a.wscale,
		       a.wscale == TG_WSCALE_NONE ? 0 : plane.services[id].wscale, a.sack_ok,
		       a.ts_ok, a.ecn_ok);
		return;
	case TC_DROP:
		printf("drop");
		return;
	default:
		print_frame("pass", frame, len);
	}
}
