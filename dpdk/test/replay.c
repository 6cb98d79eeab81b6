/* SPDX-License-Identifier: Apache-2.0
 *
 * The burst pipeline behind the commands by which test/vectors replays the golden
 * vectors. A packet is put through in the middle of a burst of other frames, and
 * what became of it is told apart by its MAC addresses, which the others do not
 * have.
 *
 *   reset LENGTH [WAY [roomy]]   a new worker; bursts of LENGTH frames, of which one is
 *                        asked for; 0: another length each time. roomy: in buffers as a
 *                        card gives them, else in buffers that end where the frame does
 *   ...lines of config.h...
 *   from PORT            frames come by this port from now on; 0 at first
 *   now NS               Unix time stands still there; without `epoch` the worker's epoch is that of it
 *   packet HEX           answered by "tx FRAME", "pass FRAME", "drop", or "many N"
 *   counters             of all services but the fillers'
 *   flow SEQ_DELTA TS_DELTA TS WINDOW_UP WINDOW_DOWN HEX
 *                        translates the connection of that client's segment from now on
 *   short                how many packets, of those asked for, went the fast path (fast.h):
 *                        answered by "short SYNS SEGMENTS"
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../bench/traffic.h"
#include "flow.h"
#include "harness.h"

#define FILLER_SERVICE 9999
#define FILLER_PORT 9
#define FRAME_MAX 65535

static const char *const counter_names[] = {
#define X(name, help) #name,
#include "../../core/counters.def"
#undef X
};

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
	tg_traffic_syns(&fillers, 5);
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

static bool do_reset(char *args)
{
	char variant[16] = "", room[16] = "";

	length = 1;
	from = 0;
	if (sscanf(args, "%u %15s %15s", &length, variant, room) < 1 || length > TG_BURST_MAX)
		return false;
	if (h)
		harness_free(h);
	h = harness_new(variant[0] && strcmp(variant, "best") ? variant : NULL, 2047, 1024);
	h->roomy = strcmp(room, "roomy") == 0;
	if (!fillers.frames)
		make_fillers();
	return true;
}

static struct rte_mbuf *filler(void)
{
	uint32_t i = (uint32_t)tg_random(&seed) % fillers.frames_n;

	return harness_frame(h, fillers.frames + (size_t)i * fillers.stride, fillers.lens[i]);
}

/* The frames that are not fillers'. */
static uint32_t ours(const struct caught **one)
{
	uint32_t i, n = 0;

	for (i = 0; i < h->caught_n; i++) {
		const struct caught *c = &h->caught[i];

		if (c->len >= 12 && c->frame[0] == 0xfe && c->frame[6] == 0xfe)
			continue;
		*one = c;
		n++;
	}
	return n;
}

/* False: not hexadecimal. */
static bool unhex(const char *hex, uint8_t *bytes, uint32_t *len)
{
	for (*len = 0; *len < FRAME_MAX && hex[2 * *len] && hex[2 * *len + 1]; ++*len)
		if (sscanf(hex + 2 * *len, "%2hhx", &bytes[*len]) != 1)
			return false;
	return true;
}

static bool do_flow(char *args)
{
	static uint8_t bytes[FRAME_MAX];
	struct tg_flow f = {.state = TG_FLOW_READY, .service = 1, .server_port = 1};
	struct tg_packet pkt = {0};
	struct tg_flow_key key;
	int up, down, at = 0;
	uint32_t ts, len;

	if (sscanf(args, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %d %d %n", &f.seq_delta, &f.ts_delta,
		   &ts, &up, &down, &at) != 5 ||
	    !at || !unhex(args + at, bytes, &len) ||
	    tg_packet_parse(&pkt, bytes, bytes + len) != TG_PARSE_TCP)
		return false;
	f.flags = ts ? TG_FLOW_TS : 0;
	f.window_up = (uint8_t)up;
	f.window_down = (int8_t)down;
	key = tg_flow_key_of(&pkt, TG_TO_SERVER);
	return tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
				    tg_item_presence(h->w, &pkt, TG_TO_SERVER), &f);
}

static bool do_packet(char *args)
{
	static const uint32_t mixed[] = {1, 7, 64, 3, 8, 9, 33, 128};
	static uint8_t bytes[FRAME_MAX];
	uint32_t n = length ? length : mixed[turn++ % 8], len, i, at;
	struct rte_mbuf *m[TG_BURST_MAX];
	const struct caught *out = NULL;

	if (!unhex(args, bytes, &len))
		return false;
	h->config->services[FILLER_SERVICE] = (struct tg_service){
		.mss_v4 = 1460,
		.mss_v6 = 1440,
		.window = 1,
		.mode = h->config->enforce ? TG_MODE_ALWAYS : TG_MODE_OFF};
	h->config->proxy_cfg[FILLER_SERVICE].strategy = TG_STRATEGY_AUTH_COOKIE;
	if (!h->config->ports[FILLER_PORT])
		harness_line(h, "port %u %u", FILLER_PORT, FILLER_SERVICE);
	at = (uint32_t)tg_random(&seed) % n;
	for (i = 0; i < n; i++)
		m[i] = i == at ? harness_frame(h, bytes, len) : filler();
	harness_burst(h, m, n, from);
	fast_path_syns += h->w->fast.path[at] == TG_FAST_SYN || h->w->fast.path[at] == TG_FAST_WIDE;
	fast_path_segments += h->w->fast.path[at] == TG_FAST_SEGMENT;
	n = ours(&out);
	if (n > 1) {
		printf("many %u", n);
	} else if (n == 0) {
		printf("drop");
	} else {
		printf("%s ", out->port == from ? "tx" : "pass");
		for (i = 0; i < out->len; i++)
			printf("%02x", out->frame[i]);
	}
	harness_forget(h);
	if (harness_leaked(h))
		printf(" leaked %u", harness_leaked(h));
	return true;
}

static bool do_from(char *args)
{
	from = (uint16_t)atoi(args);
	return from < h->w->ports_n;
}

static bool do_now(char *args)
{
	return sscanf(args, "%" SCNu64, &h->unix_ns) == 1;
}

static bool do_counters(char *args)
{
	uint32_t id, c;

	(void)args;
	printf("counters");
	for (id = 0; id <= h->config->top; id++)
		for (c = 0; c < TG_COUNTERS && id != FILLER_SERVICE; c++)
			if (harness_count(h, id, c))
				printf(" %u:%s=%" PRIu64, id, counter_names[c],
				       harness_count(h, id, c));
	return true;
}

int main(void)
{
	static char line[2 * FRAME_MAX + 64];

	while (fgets(line, sizeof(line), stdin)) {
		const char *err = NULL;
		char *args;
		bool ok = true;

		line[strcspn(line, "\n")] = 0;
		args = strchr(line, ' ');
		if (strncmp(line, "reset", 5) == 0)
			ok = args && do_reset(args + 1);
		else if (h && args && strncmp(line, "packet ", 7) == 0)
			ok = do_packet(args + 1);
		else if (h && args && strncmp(line, "flow ", 5) == 0)
			ok = do_flow(args + 1);
		else if (h && args && strncmp(line, "from ", 5) == 0)
			ok = do_from(args + 1);
		else if (h && args && strncmp(line, "now ", 4) == 0)
			ok = do_now(args + 1);
		else if (h && strcmp(line, "counters") == 0)
			ok = do_counters(args);
		else if (strcmp(line, "short") == 0)
			printf("short %u %u", fast_path_syns, fast_path_segments);
		else if (h)
			err = tg_config_line(h->config, line);
		else
			ok = false;
		if (h && !err)
			harness_tick(h, 0);
		if (!ok || err)
			printf("error: %s", err ? err : "not understood");
		else if (strncmp(line, "packet", 6) != 0 && strncmp(line, "counters", 8) != 0 &&
			 strcmp(line, "short") != 0)
			printf("ok");
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
