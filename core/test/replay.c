/* SPDX-License-Identifier: Apache-2.0
 *
 * A plane without a kernel: arrays instead of maps, time and sockets as told. It
 * makes the same calls into core/ as bpf/host_xdp.bpf.c and bpf/host_tc.bpf.c, so
 * that the golden vectors can be replayed natively, under the sanitizers.
 *
 * One file, though long, so that it can be read beside those two.
 *
 * Speaks lines on stdin and stdout, see `commands` below; every command is answered
 * by one line, "ok", a result, or "error: ...".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host.h"
#include "../signed.h"
#include "../tuple_filter.h"
#include "replay_translate.h"

#define KEY_SLOTS 16
#define PREFIXES_MAX 256
#define PREFIX_LENS_MAX 8
#define FRAME_MAX 65536
#define NOW_NS 1000000000000ULL /* allowances: time stands still */

enum socket_state { SOCKET_NONE, SOCKET_LISTENER, SOCKET_ESTABLISHED, SOCKET_TIME_WAIT };

struct prefix {
	struct tg_prefix_key key;
	uint32_t id;
};

static struct plane {
	uint64_t epoch;
	uint32_t stale_keys;
	bool filter_maybe;
	enum socket_state socket;
	struct tg_epoch_key keys[KEY_SLOTS];
	struct tg_service services[TG_SERVICES_MAX + 1];
	struct tg_allowance allowances[TG_SERVICES_MAX + 1];
	uint32_t ports[65536];
	uint32_t lens[2][PREFIX_LENS_MAX], lens_count[2];
	struct prefix prefixes[PREFIXES_MAX];
	uint32_t prefix_count;
	uint64_t counters[TG_SERVICES_MAX + 1][TG_COUNTERS];
	uint32_t top; /* highest service number in use */
	struct tg_packet adopted; /* the connection that was made, if its family is set */
} plane;

static const char *const counter_names[] = {
#define X(name, help) #name,
#include "../counters.def"
#undef X
};

static void count(uint32_t id, enum tg_counter counter)
{
	if (counter < TG_COUNTERS)
		plane.counters[id][counter]++;
}

static uint32_t service_find(const struct tg_packet *pkt)
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

static const struct tg_siphash_key *key_find(uint64_t epoch)
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

static uint8_t *copy_of(const uint8_t *data, uint32_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* never larger: the sanitizer watches its end */

	if (!copy)
		abort();
	memcpy(copy, data, len);
	return copy;
}

static void print_frame(const char *verdict, const uint8_t *frame, uint32_t len)
{
	uint32_t i;

	printf("%s ", verdict);
	for (i = 0; i < len; i++)
		printf("%02x", frame[i]);
}

/* As tg_syn_options in bpf/host_xdp.bpf.c. False: malformed. */
static bool syn_options(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *syn,
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
static enum tg_intact intact(const uint8_t *frame, const struct tg_packet *pkt)
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
static bool xdp(const uint8_t *frame, uint32_t len)
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
static void tc(const uint8_t *frame, uint32_t len)
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

static int unhex(const char *hex, uint8_t *out, int max)
{
	int n;

	for (n = 0; n < max && hex[2 * n] && hex[2 * n + 1]; n++)
		if (sscanf(hex + 2 * n, "%2hhx", &out[n]) != 1)
			return -1;
	return hex[2 * n] && hex[2 * n] != '\n' ? -1 : n;
}

static bool do_packet(const char *args)
{
	static uint8_t bytes[FRAME_MAX];
	int len = unhex(args, bytes, sizeof(bytes));
	uint8_t *frame;

	if (len < 0)
		return false;
	frame = copy_of(bytes, (uint32_t)len);
	if (!xdp(frame, (uint32_t)len))
		tc(frame, (uint32_t)len);
	free(frame);
	return true;
}

/* A frame of a translated connection; no state of `plane` matters. */
static bool do_translate(const char *args)
{
	static uint8_t bytes[FRAME_MAX];
	struct tg_flow f = {.state = TG_FLOW_READY};
	unsigned int ts, to_client;
	int up, down, at = 0, len;
	uint8_t *frame;
	bool ok;

	if (sscanf(args, "%u %" SCNu32 " %" SCNu32 " %u %d %d %n", &to_client, &f.seq_delta,
		   &f.ts_delta, &ts, &up, &down, &at) != 6 ||
	    !at)
		return false;
	len = unhex(args + at, bytes, sizeof(bytes));
	if (len < 0)
		return false;
	f.flags = ts ? TG_FLOW_TS : 0;
	f.window_up = (uint8_t)up;
	f.window_down = (int8_t)down;
	frame = copy_of(bytes, (uint32_t)len);
	ok = translate_frame(frame, (uint32_t)len, &f, to_client ? TG_TO_CLIENT : TG_TO_SERVER);
	if (ok)
		print_frame("tx", frame, (uint32_t)len);
	free(frame);
	return ok;
}

static bool do_key(const char *args)
{
	struct tg_epoch_key k;
	uint8_t raw[16];
	char hex[33];

	if (sscanf(args, "%" SCNu64 " %32s", &k.epoch, hex) != 2 || unhex(hex, raw, 16) != 16)
		return false;
	k.key = (struct tg_siphash_key){tg_load64(raw), tg_load64(raw + 8)};
	plane.keys[k.epoch % KEY_SLOTS] = k;
	return true;
}

static bool do_service(const char *args)
{
	uint32_t v[11];

	if (sscanf(args, "%u %u %u %u %u %u %u %u %u %u %u", &v[0], &v[1], &v[2], &v[3], &v[4],
		   &v[5], &v[6], &v[7], &v[8], &v[9], &v[10]) != 11 ||
	    v[0] > TG_SERVICES_MAX)
		return false;
	if (v[0] > plane.top)
		plane.top = v[0];
	plane.services[v[0]] = (struct tg_service){
		.mss_v4 = (uint16_t)v[1],
		.mss_v6 = (uint16_t)v[2],
		.window = (uint16_t)v[3],
		.wscale = (uint8_t)v[4],
		.sack = (uint8_t)v[5],
		.timestamps = (uint8_t)v[6],
		.ecn = (uint8_t)v[7],
		.mode = (uint8_t)v[8],
		.listener_v4 = (uint8_t)v[9],
		.listener_v6 = (uint8_t)v[9],
		.signed_cost_us = v[10],
	};
	return true;
}

static bool do_port(const char *args)
{
	uint32_t port, entry;

	if (sscanf(args, "%u %u", &port, &entry) != 2 || port > 65535)
		return false;
	plane.ports[port] = entry;
	return true;
}

/* family length address port id; lengths are kept longest first */
static bool do_prefix(const char *args)
{
	struct prefix p = {0};
	uint32_t family, len, port, i;
	char hex[33];
	int f;

	if (sscanf(args, "%u %u %32s %u %u", &family, &len, hex, &port, &p.id) != 5 ||
	    plane.prefix_count == PREFIXES_MAX || unhex(hex, (uint8_t *)&p.key.addr, 16) != 16)
		return false;
	p.key.family = (uint8_t)family;
	p.key.prefix_len = (uint8_t)len;
	p.key.port_be = tg_swap16(port);
	plane.prefixes[plane.prefix_count++] = p;
	f = family == 6;
	for (i = 0; i < plane.lens_count[f]; i++)
		if (plane.lens[f][i] == len)
			return true;
	if (plane.lens_count[f] == PREFIX_LENS_MAX)
		return false;
	for (i = plane.lens_count[f]++; i > 0 && plane.lens[f][i - 1] < len; i--)
		plane.lens[f][i] = plane.lens[f][i - 1];
	plane.lens[f][i] = len;
	return true;
}

static bool do_world(const char *args)
{
	uint32_t filter, socket;

	if (sscanf(args, "%" SCNu64 " %u %u %u", &plane.epoch, &plane.stale_keys, &filter,
		   &socket) != 4)
		return false;
	plane.filter_maybe = filter;
	plane.socket = (enum socket_state)socket;
	return true;
}

static bool do_reset(const char *args)
{
	(void)args;
	memset(&plane, 0, sizeof(plane));
	return true;
}

static bool do_counters(const char *args)
{
	uint32_t id, c;

	(void)args;
	printf("counters");
	for (id = 0; id <= plane.top; id++)
		for (c = 0; c < TG_COUNTERS; c++)
			if (plane.counters[id][c])
				printf(" %u:%s=%" PRIu64, id, counter_names[c],
				       plane.counters[id][c]);
	return true;
}

static const struct {
	const char *name;
	bool (*run)(const char *args);
	bool silent; /* answers "ok" */
} commands[] = {
	{"reset", do_reset, true},
	{"world", do_world, true},     /* EPOCH STALE_KEYS FILTER SOCKET */
	{"key", do_key, true},         /* EPOCH KEY */
	{"service", do_service, true}, /* ID and the fields of struct tg_service */
	{"port", do_port, true},       /* PORT ENTRY */
	{"prefix", do_prefix, true},   /* FAMILY LENGTH ADDRESS PORT ID */
	{"packet", do_packet, false},  /* FRAME -> pass|tx FRAME, drop, adopt FRAME AGREED... */
	{"counters", do_counters, false},
	{"translate", do_translate,
	 false}, /* TO_CLIENT SEQ_DELTA TS_DELTA TS WINDOW_UP WINDOW_DOWN FRAME -> tx FRAME */
};

int main(void)
{
	static char line[2 * FRAME_MAX + 64];

	while (fgets(line, sizeof(line), stdin)) {
		char *args = strchr(line, ' ');
		size_t i, n = sizeof(commands) / sizeof(commands[0]);

		line[strcspn(line, "\n")] = 0;
		if (args)
			*args++ = 0;
		for (i = 0; i < n && strcmp(line, commands[i].name) != 0; i++)
			;
		if (i == n || !commands[i].run(args ? args : ""))
			printf("error: %s %s", line, args ? args : "");
		else if (commands[i].silent)
			printf("ok");
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
