/* SPDX-License-Identifier: Apache-2.0
 *
 * The plane without a kernel (replay_plane.h), driven by lines on stdin (commands.h), see `commands` below.
 */
#include <stdlib.h>

#include "commands.h"
#include "replay_edge.h"
#include "replay_frame.h"
#include "replay_plane.h"
#include "replay_server.h"
#include "replay_translate.h"

static bool do_packet(const char *args)
{
	static uint8_t bytes[FRAME_MAX];
	int len = unhex(args, bytes, sizeof(bytes));
	uint8_t *frame;

	if (len < 0)
		return false;
	frame = copy_of(bytes, (uint32_t)len);
	if (!replay_xdp(frame, (uint32_t)len))
		replay_tc(frame, (uint32_t)len);
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
	uint32_t v[13] = {0};

	/* The last two, the key of flow labels and whether cookies may be outstanding, may be left out. */
	if (sscanf(args, "%u %u %u %u %u %u %u %u %u %u %u %u %u", &v[0], &v[1], &v[2], &v[3],
		   &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11], &v[12]) < 11 ||
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
		.flow_key = v[11],
		.verify = (uint8_t)v[12],
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

static bool do_host(const char *args)
{
	return sscanf(args, "%u %u %u %u %u", &plane.host.final_check, &plane.host.smart,
		      &plane.host.four_epochs, &plane.host.ahead, &plane.host.tags_stay) == 5;
}

static bool do_host_tc(const char *args)
{
	uint8_t *frame;

	if (!take(args))
		return false;
	frame = copy_of(now.at, now.len);
	replay_tc(frame, now.len);
	free(frame);
	return true;
}

static bool do_reset(const char *args)
{
	(void)args;
	memset(&plane, 0, sizeof(plane));
	server_reset();
	edge_reset();
	return true;
}

static bool do_counters(const char *args)
{
	uint32_t id, c;

	(void)args;
	printf("counters");
	for (id = 0; id <= plane.top; id++)
		for (c = 0; c < TG_COUNTERS; c++)
			print_counter(id, c, plane.counters[id][c]);
	return true;
}

static const struct command commands[] = {
	{"reset", do_reset, true},
	{"world", do_world, true}, /* EPOCH STALE_KEYS FILTER SOCKET */
	{"key", do_key, true}, /* EPOCH KEY */
	{"service", do_service, true}, /* ID and the fields of struct tg_service */
	{"port", do_port, true}, /* PORT ENTRY */
	{"prefix", do_prefix, true}, /* FAMILY LENGTH ADDRESS PORT ID */
	{"packet", do_packet, false}, /* FRAME -> pass|tx FRAME, drop, adopt FRAME AGREED... */
	{"counters", do_counters, false},
	{"translate", do_translate,
	 false}, /* TO_CLIENT SEQ_DELTA TS_DELTA TS WINDOW_UP WINDOW_DOWN FRAME -> tx FRAME */
	{"host", do_host, true}, /* FINAL_CHECK SMART FOUR_EPOCHS AHEAD TAGS_STAY */
	{"host-tc", do_host_tc, false}, /* FRAME: as `packet`, behind XDP */
	{"tag-key", do_tag_key, true}, /* EPOCH TAG CONFIRM */
	{"tag", do_tag, false}, /* EPOCH WHAT WSCALE EDGE FLIP FRAME: with that tag */
	{"edge", do_edge,
	 true}, /* SMART FOUR_EPOCHS AHEAD HOPS NUMBER MTU CONFIRM_PORT LEARNING UNKNOWN CREDIT CHALLENGES KEY... */
	{"edge-xdp", do_edge_xdp, false}, /* INSIDE FRAME */
	{"edge-refresh", do_edge_refresh, true}, /* FRAME: its client's flow is known from now on */
	/* The translating server; its frames are answered by VERDICT FRAME and "sent FRAME" for each other one. */
	{"server", do_server,
	 true}, /* GENERIC UNVERIFIED ADOPT SMART FOUR_EPOCHS CONFIRM_PORT MAC V4 V6 PORT KEY... */
	{"server-confirm", do_server_confirm, false}, /* EDGE FRAME */
	{"server-edge", do_server_edge, true}, /* EDGE V4 V6 */
	{"server-xdp", do_server_xdp, false}, /* FRAME */
	{"server-ingress", do_server_ingress, false}, /* MARKED RETRANSMIT FRAME */
	{"server-egress", do_server_egress, false}, /* FRAME */
};

int main(void)
{
	struct commands all = {.list = commands, .n = sizeof(commands) / sizeof(commands[0])};

	commands_serve(&all);
	return 0;
}
