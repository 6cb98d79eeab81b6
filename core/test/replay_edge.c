/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_edge.h.
 */
#include "replay_edge.h"

#include "../edge.h"
#include "../proxy_rules.h"
#include "replay_frame.h"

#define BLOOM_BITS 16
#define PENDING_SLOTS 65536 /* as bpf/lib/edge_tagged.h */

static struct {
	struct tg_bloom_key key;
	uint64_t bloom[TG_BLOOM_WORDS(BLOOM_BITS)];
	uint32_t pending[PENDING_SLOTS]; /* hashes; nothing grows old */
	uint32_t smart, four_epochs, ahead, hops, number, mtu, confirm_port_be, learning;
	uint32_t challenge_all;
	uint64_t unknown_cost_ns;
	struct tg_allowance unknown, challenges;
} edge;

void edge_reset(void)
{
	memset(&edge, 0, sizeof(edge));
}

/* ---- the filter; one generation, as nothing in it ends ---- */

static bool is_known(const struct tg_packet *pkt, enum tg_bloom_side side)
{
	struct tg_bloom_at at = tg_bloom_locate(tg_bloom_hash(pkt, side, &edge.key), BLOOM_BITS);

	return (edge.bloom[at.front] >> at.front_shift &
		tg_bloom_known(edge.bloom[at.word[0]], edge.bloom[at.word[1]],
			       edge.bloom[at.word[2]], &at)) != 0;
}

static void learn(const struct tg_packet *pkt, enum tg_bloom_side side)
{
	struct tg_bloom_at at = tg_bloom_locate(tg_bloom_hash(pkt, side, &edge.key), BLOOM_BITS);
	uint32_t i;

	for (i = 0; i < TG_BLOOM_PARTITIONS; i++)
		edge.bloom[at.word[i]] |= tg_bloom_bit(&at, i, 0);
	edge.bloom[at.front] |= tg_bloom_front_bit(&at, 0);
}

static uint32_t *pending_of(const struct tg_packet *pkt, uint32_t *hash)
{
	*hash = (uint32_t)(tg_bloom_hash(pkt, TG_BLOOM_FROM_CLIENT, &edge.key) >> 16);
	return &edge.pending[*hash & (PENDING_SLOTS - 1)];
}

/* ---- what goes on ---- */

static uint8_t *ttl_of(const struct tg_packet *pkt)
{
	return now.at + pkt->l3_off + (pkt->family == 4 ? TG_IPV4_TTL : TG_IPV6_HOPS);
}

/* As tg_edge_set_ttl. */
static void ttl_set(const struct tg_packet *pkt)
{
	uint8_t *ip = now.at + pkt->l3_off, *ttl = ttl_of(pkt);
	uint16_t was = tg_load16(ip + TG_IPV4_TTL);

	if (!edge.hops)
		return;
	*ttl = (uint8_t)edge.hops;
	if (pkt->family == 4)
		tg_store16(ip + TG_IPV4_SUM, tg_csum_update16(tg_load16(ip + TG_IPV4_SUM), was,
							      tg_load16(ip + TG_IPV4_TTL)));
}

/* ---- SYNs ---- */

/* As tg_edge_syn and tg_edge_challenge. */
static enum verdict syn(const struct tg_packet *pkt, enum tg_parse_result parse, uint32_t id)
{
	const struct tg_service *svc = &plane.services[id];
	struct tg_tcp_options offered = {0};
	struct tg_decision d;

	count(id, TG_COUNT_syn);
	d = tg_proxy_judge_syn(pkt, parse, now.len);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(intact(now.at, pkt));
	if (svc->mode == TG_MODE_MONITOR) {
		count(id, tg_host_monitor(d));
		return VERDICT_PASS;
	}
	if (d.verdict == TG_REPLY)
		d = syn_judge_answer(now.at, now.len, pkt, id, &offered);
	if (d.verdict == TG_REPLY &&
	    tg_edge_looks_up_syn(offered.ts_ok && svc->timestamps, edge.smart, edge.challenge_all) &&
	    is_known(pkt, TG_BLOOM_FROM_CLIENT) && !tg_edge_expires(*ttl_of(pkt), edge.hops) &&
	    tg_allowance_take(&edge.challenges, TG_EDGE_CHALLENGE_NS, 0)) {
		count(id, TG_COUNT_edge_syn_known);
		ttl_set(pkt);
		return VERDICT_PASS;
	}
	if (d.verdict == TG_REPLY)
		now.len = answer_write(now.at, pkt, svc, &offered, edge.smart);
	count(id, d.counter);
	return verdict_of(d.verdict);
}

/* ---- segments ---- */

/* As tg_edge_verify, of the epochs that this edge accepts. */
static enum tg_edge_finding verify(const struct tg_packet *pkt, const struct tg_ack *ack)
{
	uint64_t verifying = plane.epoch + edge.ahead;
	uint64_t epoch = tg_cookie_epoch(ack->cookie.isn, verifying);

	if (cookie_is_ours(pkt, ack, epoch, edge.smart))
		return TG_EDGE_VERIFIED;
	if (tg_host_fails_open(plane.stale_keys, key_find(verifying)))
		return TG_EDGE_NO_KEY;
	if (edge.four_epochs && cookie_is_ours(pkt, ack, epoch - TG_EPOCHS_OLDER, edge.smart))
		return TG_EDGE_VERIFIED;
	return TG_EDGE_UNKNOWN;
}

static enum tg_edge_finding find(const struct tg_packet *pkt, enum tg_parse_result parse)
{
	enum tg_edge_finding found = TG_EDGE_UNKNOWN;
	uint32_t hash, *pending = pending_of(pkt, &hash);
	struct tg_ack ack;

	if (is_known(pkt, TG_BLOOM_FROM_CLIENT))
		return TG_EDGE_KNOWN;
	if (tg_edge_may_verify(pkt) && ack_read(now.at, now.len, pkt, &ack))
		found = verify(pkt, &ack);
	if (found == TG_EDGE_VERIFIED)
		found = parse == TG_PARSE_FRAGMENT ? TG_EDGE_UNKNOWN
						   : tg_edge_verified(intact(now.at, pkt));
	if (found != TG_EDGE_UNKNOWN)
		return found;
	if (edge.number && parse != TG_PARSE_FRAGMENT && *pending == hash)
		return TG_EDGE_ALLOWED;
	if (edge.learning)
		return TG_EDGE_LEARNING;
	return tg_allowance_take(&edge.unknown, edge.unknown_cost_ns, 0) ? TG_EDGE_ALLOWED
									 : TG_EDGE_UNKNOWN;
}

/* As tg_edge_tag. */
static enum verdict tag(struct tg_packet *pkt, uint32_t id, enum tg_tag_what what)
{
	struct tg_tag t = {.epoch = (uint32_t)plane.epoch,
			   .edge = (uint16_t)edge.number,
			   .what = (uint8_t)what,
			   .wscale = plane.services[id].wscale & 15};

	if (pkt->l4_off - pkt->l3_off + pkt->l4_len + TG_TAG_LEN > edge.mtu ||
	    !tag_put(pkt, &t, plane.epoch, 0)) {
		count(id, TG_COUNT_tag_no_room);
		return VERDICT_DROP;
	}
	count(id, what == TG_TAG_SETUP ? TG_COUNT_tag_setup : TG_COUNT_tag_probe);
	return VERDICT_PASS;
}

/* As tg_edge_segment. */
static enum verdict segment(struct tg_packet *pkt, enum tg_parse_result parse, uint32_t id)
{
	const struct tg_service *svc = &plane.services[id];
	enum tg_edge_finding found;
	uint32_t hash, *pending;
	struct tg_decision d;

	if (svc->mode == TG_MODE_ALWAYS && tg_edge_expires(*ttl_of(pkt), edge.hops)) {
		count(id, TG_COUNT_drop_hops);
		return VERDICT_DROP;
	}
	if (svc->mode == TG_MODE_OFF && !svc->verify)
		return VERDICT_PASS;
	if (svc->mode == TG_MODE_MONITOR && !svc->verify) {
		count(id, is_known(pkt, TG_BLOOM_FROM_CLIENT) ? TG_COUNT_edge_known
							      : TG_COUNT_would_drop);
		return VERDICT_PASS;
	}
	found = find(pkt, parse);
	d = tg_edge_judge(tg_edge_kind(pkt), found);
	if (d.verdict == TG_DROP && svc->mode != TG_MODE_ALWAYS) { /* as tg_edge_spares */
		if (svc->mode == TG_MODE_MONITOR)
			count(id, TG_COUNT_would_drop);
		return VERDICT_PASS;
	}
	count(id, d.counter);
	if (d.verdict == TG_DROP)
		return VERDICT_DROP;
	ttl_set(pkt);
	if (edge.number && parse != TG_PARSE_FRAGMENT && found != TG_EDGE_KNOWN &&
	    found != TG_EDGE_NO_KEY) {
		pending = pending_of(pkt, &hash);
		if (found == TG_EDGE_VERIFIED)
			*pending = hash;
		return tag(pkt, id, found == TG_EDGE_VERIFIED ? TG_TAG_SETUP : TG_TAG_PROBE);
	}
	if (found == TG_EDGE_VERIFIED)
		learn(pkt, TG_BLOOM_FROM_CLIENT);
	return VERDICT_PASS;
}

/* ---- from the servers' side ---- */

/* As tg_edge_outbound, of servers that refuse nothing. */
static void outbound(const struct tg_packet *pkt)
{
	struct tg_packet turned = {.family = pkt->family,
				   .dst = pkt->src,
				   .ports = pkt->ports << 16 | pkt->ports >> 16};
	uint32_t id = service_find(&turned);

	if (!id || !tg_host_is_ack(pkt) || is_known(pkt, TG_BLOOM_FROM_SERVER))
		return;
	learn(pkt, TG_BLOOM_FROM_SERVER);
	count(id, TG_COUNT_edge_refreshed);
}

/* As tg_confirm_take, with offsets from docs/split-protocol.md. */
static bool confirm_take(uint32_t l3_off)
{
	const uint8_t *ip = now.at + l3_off, *end = now.at + now.len, *udp;
	const struct tg_tag_epoch *keys;
	struct tg_packet flow = {0};
	struct tg_confirm c = {0};
	uint64_t mac = 0, epoch;
	uint32_t id;

	if (!edge.number || ip + 20 > end)
		return false;
	udp = ip + (ip[0] >> 4 == 6 ? 40 : 20);
	if (!(ip[0] == 0x45 && ip[9] == 17) && !(ip[0] >> 4 == 6 && ip[6] == 17))
		return false;
	if (udp + 8 + TG_CONFIRM_LEN > end || tg_load16(udp + 2) != edge.confirm_port_be ||
	    tg_confirm_read(udp + 8, tg_swap16(tg_load16(udp + 4)) - 8, end, &c, &mac) != TG_TAG_READ ||
	    c.edge != edge.number)
		return false;
	flow = (struct tg_packet){
		.family = c.family, .src = c.client, .dst = c.server, .ports = c.ports};
	id = service_find(&flow);
	keys = tg_tag_epoch(c.epoch, plane.epoch, &epoch) ? tag_keys_of(epoch) : NULL;
	if (!keys || mac != tg_confirm_mac(&c, &keys->confirm)) {
		count(id, TG_COUNT_confirm_forged);
		return true;
	}
	learn(&flow, TG_BLOOM_FROM_CLIENT);
	count(id, TG_COUNT_confirm_taken);
	return true;
}

/* As tg_edge_xdp. */
static enum verdict edge_xdp(bool inside)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result parsed = tg_packet_parse(&pkt, now.at, now.at + now.len);
	uint32_t id;

	if (parsed == TG_PARSE_OTHER)
		return inside && pkt.l3_off && confirm_take(pkt.l3_off) ? VERDICT_DROP : VERDICT_PASS;
	if (parsed != TG_PARSE_TCP && parsed != TG_PARSE_FRAGMENT)
		return !inside && is_condemned(parsed) ? VERDICT_DROP : VERDICT_PASS;
	tg_packet_measure(&pkt, now.len);
	if (pkt.l4_off > TG_L4_OFF_MAX)
		return VERDICT_PASS;
	if (inside) {
		outbound(&pkt);
		return VERDICT_PASS;
	}
	id = service_find(&pkt);
	if (!id)
		return VERDICT_PASS;
	if (!tg_host_is_syn(&pkt))
		return segment(&pkt, parsed, id);
	return plane.services[id].mode == TG_MODE_OFF ? VERDICT_PASS : syn(&pkt, parsed, id);
}

/* ---- commands ---- */

bool do_edge(const char *args)
{
	uint64_t *key = &edge.key.k[0][0];
	int at = 0, n;
	size_t i;

	edge_reset();
	if (sscanf(args, "%u %u %u %u %u %u %u %u %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %n",
		   &edge.challenge_all, &edge.smart, &edge.four_epochs, &edge.ahead, &edge.hops,
		   &edge.number, &edge.mtu, &edge.confirm_port_be, &edge.learning,
		   &edge.unknown_cost_ns, &edge.unknown.credit_ns, &edge.challenges.credit_ns,
		   &at) != 12 ||
	    !at)
		return false;
	for (i = 0; i < sizeof(edge.key) / sizeof(*key); i++, at += n)
		if (sscanf(args + at, "%" SCNu64 "%n", &key[i], &n) != 1)
			return false;
	return true;
}

bool do_edge_xdp(const char *args)
{
	uint32_t inside;
	int at = 0;

	if (sscanf(args, "%u %n", &inside, &at) != 1 || !at || !take(args + at))
		return false;
	tell(edge_xdp(inside));
	return true;
}

bool do_edge_refresh(const char *args)
{
	struct tg_packet pkt = {0};

	enum tg_parse_result parsed;

	if (!take(args))
		return false;
	parsed = tg_packet_parse(&pkt, now.at, now.at + now.len);
	if (parsed != TG_PARSE_TCP && parsed != TG_PARSE_FRAGMENT)
		return false;
	learn(&pkt, TG_BLOOM_FROM_CLIENT);
	count(service_find(&pkt), TG_COUNT_edge_refreshed);
	return true;
}
