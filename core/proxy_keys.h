/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The keys of flows and whitelisted sources in the proxy's tables, and the bits that tell before
 * any look-up what may be in one.
 */
#ifndef TG_PROXY_KEYS_H
#define TG_PROXY_KEYS_H

#include "packet.h"
#include "translate.h"

/* Flow tables: the client's side first. Ports as the client sends them. */
struct tg_flow_key4 {
	uint32_t client, server, ports;
};
struct tg_flow_key6 {
	uint32_t client[4], server[4], ports;
};
_Static_assert(sizeof(struct tg_flow_key4) == 12 && sizeof(struct tg_flow_key6) == 36, "map ABI");

TG_INLINE struct tg_flow_key4 tg_flow_key4(const struct tg_packet *pkt, enum tg_direction dir)
{
	if (dir == TG_TO_SERVER)
		return (struct tg_flow_key4){pkt->src.w[0], pkt->dst.w[0], pkt->ports};
	return (struct tg_flow_key4){pkt->dst.w[0], pkt->src.w[0],
				     pkt->ports << 16 | pkt->ports >> 16};
}

TG_INLINE struct tg_flow_key6 tg_flow_key6(const struct tg_packet *pkt, enum tg_direction dir)
{
	const union tg_addr *client = dir == TG_TO_SERVER ? &pkt->src : &pkt->dst;
	const union tg_addr *server = dir == TG_TO_SERVER ? &pkt->dst : &pkt->src;
	struct tg_flow_key6 key;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		key.client[i] = client->w[i];
		key.server[i] = server->w[i];
	}
	key.ports = dir == TG_TO_SERVER ? pkt->ports : pkt->ports << 16 | pkt->ports >> 16;
	return key;
}

/* ---- whitelist ---- */

/* Sources are whitelisted by their prefix (IPv6: at most 64 bits; one site can have
 * no more entries than it has such prefixes). A key's lowest byte is the first of an
 * IPv6 address: none that begins with 0xff, the tag of IPv4, is a source. */
#define TG_WHITE_V4_TAG 0xffULL
#define TG_WHITE_V4_KEY(addr) ((addr) << 32 | TG_WHITE_V4_TAG) /* 64 bits, or a vector of them */

TG_INLINE uint64_t tg_white_key(const union tg_addr *src, uint8_t family, uint32_t v4_mask,
				uint64_t v6_mask)
{
	return family == 4 ? TG_WHITE_V4_KEY((uint64_t)(src->w[0] & v4_mask)) : src->d[0] & v6_mask;
}

TG_INLINE bool tg_white_key_is_v4(uint64_t key)
{
	return (key & 0xff) == TG_WHITE_V4_TAG;
}

/* ---- presence ---- */

/* Which sources and tuples may be in a table: one bit for each hash value, in two
 * generations like the tables themselves. A flood's random SYNs read a bit or two
 * that stay in a core's cache, instead of missing it in tables of many megabytes.
 * It errs only towards "maybe", which costs a look-up. */
#define TG_PRESENCE_BITS 21
#define TG_PRESENCE_WORDS (1U << (TG_PRESENCE_BITS - 6)) /* of one generation of one table */

enum tg_presence_table { TG_PRESENCE_FLOWS, TG_PRESENCE_SOURCES, TG_PRESENCE_TABLES };

/* Where the two generations' words stand of which the bit of a hash is one, if they stand side by side. */
TG_INLINE uint32_t tg_presence_pair(uint32_t hash, enum tg_presence_table table)
{
	return table * TG_PRESENCE_WORDS + (hash >> (32 - TG_PRESENCE_BITS + 6));
}

/* In front of a table's bits stand fewer, each of which is set if one of 32 neighbours is: "none"
 * is answered from 16 KiB, both generations included, which stay in a core's innermost cache
 * whatever else passes through it, instead of from 512 KiB. The fronts stand after all tables' pairs. */
#define TG_PRESENCE_FRONT 5
#define TG_PRESENCE_FRONT_WORDS (TG_PRESENCE_WORDS >> TG_PRESENCE_FRONT)
#define TG_PRESENCE_PAIRS (TG_PRESENCE_TABLES * (TG_PRESENCE_WORDS + TG_PRESENCE_FRONT_WORDS))

/* Of a hash, what is from here on says which bit of a word, and then which word. */
#define TG_PRESENCE_FRONT_SHIFT (32 - TG_PRESENCE_BITS + TG_PRESENCE_FRONT)
#define TG_PRESENCE_FRONT_WORD(hash) ((hash) >> (TG_PRESENCE_FRONT_SHIFT + 6))

TG_INLINE uint32_t tg_presence_front_pair(uint32_t hash, enum tg_presence_table table)
{
	return TG_PRESENCE_TABLES * TG_PRESENCE_WORDS + table * TG_PRESENCE_FRONT_WORDS +
	       TG_PRESENCE_FRONT_WORD(hash);
}

TG_INLINE uint64_t tg_presence_front_bit(uint32_t hash)
{
	return 1ULL << (hash >> TG_PRESENCE_FRONT_SHIFT & 63);
}

/* The same as tg_presence_pair if each generation stands apart. */
TG_INLINE uint32_t tg_presence_word(uint32_t hash, enum tg_presence_table table, uint32_t generation)
{
	return (table * 2 + (generation & 1)) * TG_PRESENCE_WORDS +
	       (hash >> (32 - TG_PRESENCE_BITS + 6));
}

TG_INLINE uint64_t tg_presence_bit(uint32_t hash)
{
	return 1ULL << (hash >> (32 - TG_PRESENCE_BITS) & 63);
}

/* The hashes, as steps that a plane may also take with vectors of 64-bit numbers, a packet in each
 * lane; `h` must be a variable. The salt keeps senders from choosing tuples that hit, each of which
 * would cost one look-up. This mix can be inverted from its output; nothing that is sent depends on
 * it or on its salt. */
#define TG_PRESENCE_FLOW_BEGIN(src, ports, salt) (((src) ^ (salt)) * TG_MIX1 + (ports))
#define TG_PRESENCE_FLOW_V6(h, src, dst) (((h) ^ (src) ^ (dst)) * TG_MIX3)
#define TG_PRESENCE_FLOW_END(h, dst) ((((h) ^ (h) >> 32) + (dst)) * TG_MIX2 >> 32)
#define TG_PRESENCE_SOURCE_BEGIN(white_key, salt) (((white_key) ^ (salt)) * TG_MIX1)
#define TG_PRESENCE_SOURCE_END(h) (((h) ^ (h) >> 29) * TG_MIX2 >> 32)

TG_INLINE uint32_t tg_presence_tuple(const union tg_addr *client, const union tg_addr *server,
				     uint32_t ports, uint8_t family, uint64_t salt)
{
	uint64_t h = TG_PRESENCE_FLOW_BEGIN(client->d[0], ports, salt);

	if (family == 6)
		h = TG_PRESENCE_FLOW_V6(h, client->d[1], server->d[1]);
	return (uint32_t)TG_PRESENCE_FLOW_END(h, server->d[0]);
}

/* Of a client's packet. */
TG_INLINE uint32_t tg_presence_flow(const struct tg_packet *pkt, uint64_t salt)
{
	return tg_presence_tuple(&pkt->src, &pkt->dst, pkt->ports, pkt->family, salt);
}

/* Of a packet to the server or to the client: the same for both. */
TG_INLINE uint32_t tg_presence_either(const struct tg_packet *pkt, enum tg_direction dir,
				      uint64_t salt)
{
	return dir == TG_TO_SERVER
		       ? tg_presence_flow(pkt, salt)
		       : tg_presence_tuple(&pkt->dst, &pkt->src,
					   pkt->ports << 16 | pkt->ports >> 16, pkt->family, salt);
}

TG_INLINE uint32_t tg_presence_source(uint64_t white_key, uint64_t salt)
{
	uint64_t h = TG_PRESENCE_SOURCE_BEGIN(white_key, salt);

	return (uint32_t)TG_PRESENCE_SOURCE_END(h);
}

#endif
