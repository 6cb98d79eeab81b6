/* SPDX-License-Identifier: Apache-2.0
 *
 * The burst pipeline behind the commands by which test/vectors replays the golden
 * vectors (core/test/commands.h). A packet is processed in the middle of a burst of other frames; its MAC
 * addresses, which the others do not have, identify what becomes of it.
 *
 *   reset LENGTH [WAY [roomy]]   a new worker; bursts of LENGTH frames, one of which is
 *                        the packet; 0: another length each time. roomy: in buffers as a
 *                        card gives them, else in buffers that end where the frame does
 *   ...lines of config.h...
 *   from PORT            frames arrive at this port from now on; 0 at first
 *   now NS               stops Unix time there; without `epoch` the worker's epoch follows from it
 *   packet HEX           answered by "drop", or by "tx FRAME" or "pass FRAME" for each frame
 *                        that is sent, every port's in order
 *   counters             of all services but the fillers'
 *   flow SEQ_DELTA TS_DELTA TS WINDOW_UP WINDOW_DOWN HEX
 *                        translates the connection of that client's segment from now on
 *   short                how many packets took the fast path (fast.h): answered by "short SYNS SEGMENTS"
 */
#include <stdlib.h>
#include <sys/prctl.h>

#include "../../core/test/commands.h"
#include "../bench/traffic.h"
#include "flow.h"
#include "harness.h"

#define FILLER_SERVICE 9999
#define FILLER_PORT 9

static struct harness *h;
static struct tg_mem_port fillers;
static uint32_t length, turn;
static uint16_t from;
static uint32_t fast_path_syns, fast_path_segments;
static uint64_t seed = 1;

static void make_fillers(void)
{
	uint32_t i;

	if (!tg_mem_port_init(&fillers, h->w->pool, 1024, TG_BENCH_STRIDE))
		abort();
	while (fillers.head != fillers.tail)
		rte_pktmbuf_free(fillers.ring[fillers.head++ & (TG_RING - 1)]);
	tg_traffic_syns(&fillers, 5, 1);
	for (i = 0; i < fillers.frames_n; i++) {
		uint8_t *f = fillers.frames + (size_t)i * fillers.stride;

		memset(f, 0xfe, 12);         /* the fillers' MAC addresses */
		f[36] = 0, f[37] = FILLER_PORT;
		f[14 + 20 + 13] = i % 3 == 2 ? 0x10 : 2; /* every third an ACK */
		tg_store16(f + 50, 0);
		tg_store16(f + 50,
			   tg_csum_finish(tg_csum_add(TG_WIRE32(0, 6, 0, fillers.lens[i] - 34),
						      f + 26, fillers.lens[i] - 26u)));
	}
}

static bool do_reset(const char *args)
{
	char variant[16] = "", room[16] = "";

	length = 1;
	from = 0;
	if (sscanf(args, "%u %15s %15s", &length, variant, room) < 1 || length > TG_BURST_MAX)
		return false;
	if (h)
		harness_free(h);
	harness_halfopens = 8; /* full at times; test/vectors/planes_gates_test.go has as many */
	h = harness_new(variant[0] && strcmp(variant, "best") ? variant : NULL, 2047, 1024);
	h->roomy = strcmp(room, "roomy") == 0;
	if (!fillers.frames)
		make_fillers();
	return true;
}

static struct rte_mbuf *filler(void)
{
	uint32_t i = (uint32_t)tg_splitmix(&seed) % fillers.frames_n;

	return harness_frame(h, fillers.frames + (size_t)i * fillers.stride, fillers.lens[i]);
}

static bool is_filler(const struct caught *c)
{
	return c->len >= 12 && c->frame[0] == 0xfe && c->frame[6] == 0xfe;
}

/* What was sent for the frame that arrived on port `from`; the outgoing port determines its name. */
static void print_sent(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < h->caught_n; i++) {
		const struct caught *c = &h->caught[i];

		if (is_filler(c))
			continue;
		printf("%s", n++ ? " " : "");
		print_frame(c->port == from ? "tx" : "pass", c->frame, c->len);
	}
	if (n == 0)
		printf("drop");
}

static bool do_flow(const char *args)
{
	static uint8_t bytes[FRAME_MAX];
	struct tg_flow f = {.state = TG_FLOW_READY, .service = 1, .server_port = 1};
	struct tg_packet pkt = {0};
	struct tg_flow_key key;
	int up, down, at = 0;
	uint32_t ts;
	int len;

	if (!h ||
	    sscanf(args, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %d %d %n", &f.seq_delta, &f.ts_delta,
		   &ts, &up, &down, &at) != 5 ||
	    !at || (len = unhex(args + at, bytes, sizeof(bytes))) < 0 ||
	    tg_packet_parse(&pkt, bytes, bytes + len) != TG_PARSE_TCP)
		return false;
	f.flags = ts ? TG_FLOW_TS : 0;
	f.window_up = (uint8_t)up;
	f.window_down = (int8_t)down;
	key = tg_flow_key_of(&pkt, TG_TO_SERVER);
	return tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
				    tg_presence_flow(&pkt, h->w->presence_salt), &f);
}

static bool do_packet(const char *args)
{
	static const uint32_t mixed[] = {1, 7, 64, 3, 8, 9, 33, 128};
	static uint8_t bytes[FRAME_MAX];
	uint32_t n = length ? length : mixed[turn++ % 8], i, at;
	int len = unhex(args, bytes, sizeof(bytes));
	struct rte_mbuf *m[TG_BURST_MAX];

	if (!h || len < 0)
		return false;
	h->config->services[FILLER_SERVICE] = (struct tg_service){
		.mss_v4 = 1460,
		.mss_v6 = 1440,
		.window = 1,
		.mode = h->config->enforce ? TG_MODE_ALWAYS : TG_MODE_OFF};
	h->config->proxy_cfg[FILLER_SERVICE].strategy = TG_STRATEGY_AUTH_COOKIE;
	if (!h->config->ports[FILLER_PORT])
		harness_line(h, "port %u %u", FILLER_PORT, FILLER_SERVICE);
	at = (uint32_t)tg_splitmix(&seed) % n;
	for (i = 0; i < n; i++)
		m[i] = i == at ? harness_frame(h, bytes, (uint32_t)len) : filler();
	harness_burst(h, m, n, from);
	fast_path_syns += h->w->fast.path[at] == TG_FAST_SYN || h->w->fast.path[at] == TG_FAST_WIDE;
	fast_path_segments += h->w->fast.path[at] == TG_FAST_SEGMENT;
	print_sent();
	harness_forget(h);
	if (harness_leaked(h))
		printf(" leaked %u", harness_leaked(h));
	return true;
}

static bool do_from(const char *args)
{
	from = (uint16_t)atoi(args);
	return h && from < h->w->ports_n;
}

static bool do_now(const char *args)
{
	return h && sscanf(args, "%" SCNu64, &h->unix_ns) == 1;
}

static bool do_counters(const char *args)
{
	uint32_t id, c;

	(void)args;
	if (!h)
		return false;
	printf("counters");
	for (id = 0; id <= h->config->top; id++)
		for (c = 0; c < TG_COUNTERS && id != FILLER_SERVICE; c++)
			print_counter(id, c, harness_count(h, id, c));
	return true;
}

static bool do_short(const char *args)
{
	(void)args;
	printf("short %u %u", fast_path_syns, fast_path_segments);
	return true;
}

static bool do_places(const char *args)
{
	uint32_t at;

	(void)args;
	if (!h)
		return false;
	printf("places");
	for (at = 0; at < TG_PLACES; at++) {
		const struct tg_place *p = &h->w->automatic.places[at];

		if (p->syns)
			printf(" %u:%" PRIu64 ":%" PRIu64 ":%u:%u:%" PRIu64, at, p->syns,
			       p->handshakes, p->service, p->family, p->prefix);
	}
	return true;
}

static const char *do_config(char *line)
{
	return h ? tg_config_line(h->config, line) : "no worker yet; begin with reset";
}

static void tick(void)
{
	if (h)
		harness_tick(h, 0);
}

int main(void)
{
	static const struct command list[] = {
		{"reset", do_reset, true},
		{"from", do_from, true},
		{"now", do_now, true},
		{"packet", do_packet, false},
		{"counters", do_counters, false},
		{"places", do_places, false},
		{"flow", do_flow, true},
		{"short", do_short, false},
	};
	struct commands all = {
		.list = list,
		.n = sizeof(list) / sizeof(list[0]),
		.other = do_config,
		.after = tick,
	};

	/* Each vector has tables of its own and touches little of them: small pages, of which the
	 * kernel zeroes what is touched. */
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	commands_serve(&all);
	return 0;
}
