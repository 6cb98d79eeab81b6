/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_server.h: the table of connections, and the commands.
 */
#include "replay_server.h"

#include <stdlib.h>

#include "../proxy_rules.h"
#include "replay_frame.h"
#include "replay_server_state.h"

struct server_state server;

void server_reset(void)
{
	memset(&server, 0, sizeof(server));
}

struct tg_split *split_find(const struct tg_packet *pkt, enum tg_direction dir)
{
	uint64_t hash = tg_split_hash(server.keys, pkt, dir);
	uint32_t i;

	for (i = 0; i < server.splits_n; i++)
		if (server.splits[i].hash == hash)
			return &server.splits[i];
	return NULL;
}

/* The table of the programs has room for all that a test opens; which place an entry has, nobody sees. */
void split_insert(const struct tg_split *e)
{
	uint32_t i;

	for (i = 0; i < server.splits_n && server.splits[i].hash != TG_SPLIT_FREE; i++)
		;
	if (i == SPLITS_MAX)
		abort();
	server.splits[i] = *e;
	if (i == server.splits_n)
		server.splits_n++;
}

uint32_t row_of(const struct tg_packet *pkt, enum tg_direction dir)
{
	struct tg_packet turned = {.family = pkt->family,
				   .dst = pkt->src,
				   .ports = pkt->ports << 16 | pkt->ports >> 16};

	return service_find(dir == TG_TO_SERVER ? pkt : &turned);
}

bool port_is_protected(uint16_t port_be)
{
	return plane.ports[tg_swap16(port_be)] != 0;
}

/* As tg_split_note. */
void split_note(struct tg_split *e, const struct tg_packet *pkt, enum tg_direction dir)
{
	if (dir == TG_TO_SERVER)
		tg_split_heard(e, pkt, 0);
	if (tg_split_may_end(e, pkt) && tg_split_track(e, pkt, dir) == TG_FLOW_ENDS)
		count(row_of(pkt, dir), TG_COUNT_split_closed);
}

bool do_server_xdp(const char *args)
{
	if (!take(args))
		return false;
	tell(server_xdp());
	return true;
}

bool do_server_ingress(const char *args)
{
	unsigned int marked, retransmit;
	int at = 0;

	if (sscanf(args, "%u %u %n", &marked, &retransmit, &at) != 2 || !at || !take(args + at))
		return false;
	tell(server_ingress(marked, retransmit));
	return true;
}

/* The confirmation that an edge would get for a segment of the stack. */
bool do_server_confirm(const char *args)
{
	struct tg_packet pkt = {0};
	uint32_t edge;
	int at = 0;

	if (sscanf(args, "%u %n", &edge, &at) != 1 || !at || edge >= EDGES_MAX ||
	    !take(args + at) || tg_packet_parse(&pkt, now.at, now.at + now.len) != TG_PARSE_TCP)
		return false;
	tell(server_confirm(&pkt, edge));
	return true;
}

bool do_server_egress(const char *args)
{
	if (!take(args))
		return false;
	tell(server_egress());
	return true;
}

bool do_server(const char *args)
{
	char mac[13], v4[33], v6[33];
	uint32_t confirm_port, port;
	int at = 0, n;
	size_t i;

	if (sscanf(args, "%u %u %u %u %u %u %12s %32s %32s %u %n", &server.generic,
		   &server.pass_unverified, &server.adopt, &server.smart, &server.four_epochs,
		   &confirm_port, mac, v4, v6, &port, &at) != 10 ||
	    !at || unhex(mac, server.mac, 6) != 6 ||
	    unhex(v4, (uint8_t *)&server.listens[0], 16) != 16 ||
	    unhex(v6, (uint8_t *)&server.listens[1], 16) != 16)
		return false;
	server.confirm_port_be = (uint16_t)confirm_port;
	server.listens_port_be = tg_swap16(port);
	for (i = 0; i < TG_FILTER_KEYS; i++, at += n)
		if (sscanf(args + at, "%" SCNu64 "%n", &server.keys[i], &n) != 1)
			return false;
	return true;
}

bool do_server_edge(const char *args)
{
	char v4[33], v6[33];
	uint32_t edge;

	return sscanf(args, "%u %32s %32s", &edge, v4, v6) == 3 && edge < EDGES_MAX &&
	       unhex(v4, (uint8_t *)&server.edges[edge].v4, 16) == 16 &&
	       unhex(v6, (uint8_t *)&server.edges[edge].v6, 16) == 16;
}
