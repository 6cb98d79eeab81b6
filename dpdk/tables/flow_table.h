/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow table of one core: buckets of one cache line, each with the signatures
 * of eight flows; a flow's key and state stand in a cache line of their own (IPv6:
 * two). A flow stands in one of two buckets. A look-up of a burst's flows is two
 * waits for memory for all of them together: buckets are prefetched, then entries.
 *
 * Who stands there, and who makes room for whom (flow_places.c): a flow with a place of its own
 * makes room for nobody. One that waits for that, since it is in set-up, or has carried nothing
 * yet, or was refused, makes room for the newest of its family; one that has ended, and stays to
 * have retransmissions translated, for anybody. core/share.h says how many places each family has,
 * and each source of it.
 *
 * The hash is 64 bits of SipHash under the table's own key: whoever opens flows
 * cannot choose their buckets.
 */
#ifndef TG_DPDK_FLOW_TABLE_H
#define TG_DPDK_FLOW_TABLE_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "../core/share.h"
#include "source_limits.h"
#include "swap.h"

#define TG_BUCKET_SLOTS 8
#define TG_NO_SLOT UINT32_MAX
#define TG_FLOW_WORDS4 2 /* of the hash's message: struct tg_siphash_batch */
#define TG_FLOW_WORDS6 5

struct tg_flow_key {
	uint32_t ports; /* as the client sends them */
	uint32_t family;
	uint64_t a[4]; /* IPv4: client | server << 32 in a[0]; IPv6: client, server */
};

struct tg_flow_entry {
	struct tg_flow flow; /* 32 bytes */
	struct tg_flow_key key;
	uint32_t presence; /* tg_presence_flow */
	uint32_t newer, older; /* in its list: slots + 1; 0: none */
	uint8_t place;         /* enum tg_flow_place */
	uint8_t met;           /* since it reached the end of its list */
	uint8_t pad[6];
	uint32_t held_era; /* of source_limits.h, if its source holds it; 0: not counted */
	uint32_t pad2[8];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct tg_flow_entry) == 128, "two cache lines");
_Static_assert(offsetof(struct tg_flow_entry, key.a[2]) <= 64, "an IPv4 flow reads one");

enum tg_flow_place {
	TG_PLACE_OWN = 0,
	TG_PLACE_WAITS = 1,
	TG_PLACE_ENDED = 2,
};

/* Flows that may be evicted, by their slots + 1: the oldest first. */
struct tg_flow_list {
	uint32_t newest, oldest, n;
};

/* The head of a generation. Families: IPv4, IPv6. */
struct tg_flow_head {
	struct tg_flow_list waits[2], ended;
	uint32_t pad[7];
	uint32_t shares[2][TG_SHARE_CELLS]; /* of flows with places of their own */
	struct tg_held_sketch held; /* likewise, for source_limits */
} __attribute__((aligned(64)));

struct tg_bucket {
	uint32_t sig[TG_BUCKET_SLOTS]; /* 0: empty */
	uint32_t pad[8];
} __attribute__((aligned(64)));

struct tg_flow_table {
	struct tg_swap swap; /* of: head, buckets, entries */
	struct tg_siphash_key key;
	struct tg_held_by held;
	uint32_t *lately; /* core/share.h: flows by source; of IPv4, then of IPv6 */
	uint32_t tick;    /* tg_flow_tick */
	uint32_t buckets; /* a power of two */
	uint32_t max;     /* places of their own, for flows of one family in one generation */
	uint32_t waiting; /* flows that wait, likewise */
	uint32_t room;    /* flows of all kinds in one generation */
};

/* False if there is no memory. */
bool tg_flow_table_init(struct tg_flow_table *t, uint32_t max, struct tg_siphash_key key);
void tg_flow_table_free(struct tg_flow_table *t);

bool tg_flow_table_populate(struct tg_flow_table *t);

/* The owner's part: what sources hold is counted by these limits from now on. */
void tg_flow_table_limit(struct tg_flow_table *t, const struct tg_limit_settings *s);

/* The cleaner's part: tg_swap_clean. */
void tg_flow_table_clean(struct tg_flow_table *t);

/* The flow, or NULL. A flow found in history moves to active, unless it has ended; it waits there if it
 * is half-closed or there is no place for it. The pointer is valid until the next insertion or swap. */
struct tg_flow_entry *tg_flow_table_find(struct tg_flow_table *t, const struct tg_flow_key *key,
					 uint64_t hash);

/* Inserts a flow, replacing one with the same key: it waits, unless it has ended or is
 * settled. NULL: no room. */
struct tg_flow_entry *tg_flow_table_insert(struct tg_flow_table *t, const struct tg_flow_key *key,
					   uint64_t hash, uint32_t presence,
					   const struct tg_flow *flow);

void tg_flow_table_remove(struct tg_flow_table *t, const struct tg_flow_key *key, uint64_t hash);

/* ---- flow_places.c ---- */

/* True if the flow's source may have one more flow that waits. */
bool tg_flow_table_may_wait(const struct tg_flow_table *t, const struct tg_flow_key *key);

/* Gives a waiting flow a place of its own. False if its source is due none. */
bool tg_flow_table_settle(struct tg_flow_table *t, struct tg_flow_entry *e);

/* A flow has ended, or has not after all. */
void tg_flow_table_ended(struct tg_flow_table *t, struct tg_flow_entry *e, bool after_all_not);

/* True if a family's places are nearly used up: time to swap. */
bool tg_flow_table_is_full(const struct tg_flow_table *t);

/* A flow's kind of place, by what it is. */
enum tg_flow_place tg_flow_place_of(const struct tg_flow *flow);

/* True if there is a place of its own for one more of the family. */
bool tg_flow_has_room(const struct tg_flow_table *t, const struct tg_generation *g, uint32_t family);

/* A flow's slot enters or leaves the list of its kind. */
void tg_flow_enter(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot,
		   enum tg_flow_place place);
void tg_flow_leave(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot);

/* The flow has moved to another slot. */
void tg_flow_moved(struct tg_flow_table *t, struct tg_generation *g, uint32_t to);

/* Evicts flows to make room for a newcomer of the family. */
void tg_flow_make_room(struct tg_flow_table *t, struct tg_generation *g, enum tg_flow_place place,
		       uint32_t family);

/* Empties a slot. */
void tg_flow_clear(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot);

/* A source has one more waiting flow, or (`by` -1) one less. */
void tg_flow_lately(struct tg_flow_table *t, const struct tg_flow_key *key, int by);

_Static_assert(sizeof(struct tg_flow_head) % 64 == 0, "buckets are cache lines");

/* Where things stand. */
static inline struct tg_flow_head *tg_flow_head(const struct tg_generation *g)
{
	return g->table;
}

static inline struct tg_bucket *tg_flow_buckets(const struct tg_generation *g)
{
	return (void *)((uint8_t *)g->table + sizeof(struct tg_flow_head));
}

static inline struct tg_flow_entry *tg_flow_entries(const struct tg_flow_table *t,
						    const struct tg_generation *g)
{
	return (void *)((uint8_t *)g->table + sizeof(struct tg_flow_head) +
			(size_t)t->buckets * sizeof(struct tg_bucket));
}

static inline uint32_t tg_flow_sig(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

static inline uint32_t tg_flow_first(const struct tg_flow_table *t, uint64_t hash)
{
	return (uint32_t)(hash >> 32) & (t->buckets - 1);
}

/* The other bucket of a flow whose one bucket is this. */
static inline uint32_t tg_flow_other(const struct tg_flow_table *t, uint32_t bucket, uint32_t sig)
{
	return (bucket ^ (sig * 0x9e3779b1U >> 4 | 1)) & (t->buckets - 1);
}

static inline uint32_t tg_flow_second(const struct tg_flow_table *t, uint64_t hash)
{
	return tg_flow_other(t, tg_flow_first(t, hash), tg_flow_sig(hash));
}

TG_INLINE bool tg_flow_key_is(const struct tg_flow_key *a, const struct tg_flow_key *b)
{
	return a->ports == b->ports && a->family == b->family && a->a[0] == b->a[0] &&
	       (a->family == 4 || (a->a[1] == b->a[1] && a->a[2] == b->a[2] && a->a[3] == b->a[3]));
}

/* The key of a packet's flow, and the message of its hash. */
TG_INLINE struct tg_flow_key tg_flow_key_of(const struct tg_packet *pkt, enum tg_direction dir)
{
	const union tg_addr *client = dir == TG_TO_SERVER ? &pkt->src : &pkt->dst;
	const union tg_addr *server = dir == TG_TO_SERVER ? &pkt->dst : &pkt->src;
	struct tg_flow_key k;

	k.ports = dir == TG_TO_SERVER ? pkt->ports : pkt->ports << 16 | pkt->ports >> 16;
	k.family = pkt->family;
	if (pkt->family == 4) {
		k.a[0] = client->w[0] | (uint64_t)server->w[0] << 32;
		k.a[1] = k.a[2] = k.a[3] = 0;
	} else {
		k.a[0] = client->d[0];
		k.a[1] = client->d[1];
		k.a[2] = server->d[0];
		k.a[3] = server->d[1];
	}
	return k;
}

static inline uint64_t tg_flow_key_tail(const struct tg_flow_key *k)
{
	return TG_TUPLE_TAIL(k->family, k->ports);
}

static inline uint64_t tg_flow_key_hash(const struct tg_flow_table *t, const struct tg_flow_key *k)
{
	struct tg_siphash s = tg_siphash_begin(&t->key);

	tg_siphash_word(&s, k->a[0]);
	if (k->family != 4) {
		tg_siphash_word(&s, k->a[1]);
		tg_siphash_word(&s, k->a[2]);
		tg_siphash_word(&s, k->a[3]);
	}
	return tg_siphash_end(&s, tg_flow_key_tail(k));
}

/* The slots of a bucket that have this signature, a bit for each. */
static inline uint32_t tg_bucket_match(const struct tg_bucket *b, uint32_t sig)
{
#ifdef __SSE2__
	__m128i want = _mm_set1_epi32((int)sig);
	__m128i lo = _mm_cmpeq_epi32(want, _mm_load_si128((const __m128i *)&b->sig[0]));
	__m128i hi = _mm_cmpeq_epi32(want, _mm_load_si128((const __m128i *)&b->sig[4]));

	return (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(lo)) |
	       (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(hi)) << 4;
#else
	uint32_t i, bits = 0;

	for (i = 0; i < TG_BUCKET_SLOTS; i++)
		bits |= (uint32_t)(b->sig[i] == sig) << i;
	return bits;
#endif
}

/* Fetches the entry that the hash most likely selects; its bucket has been fetched.
 * Returns its slot in the active generation, or TG_NO_SLOT. */
static inline uint32_t tg_flow_prefetch(const struct tg_flow_table *t, uint64_t hash, uint8_t family)
{
	const struct tg_generation *g = t->swap.active;
	uint32_t bucket = tg_flow_first(t, hash), slot, bits;
	const struct tg_flow_entry *e;

	bits = tg_bucket_match(&tg_flow_buckets(g)[bucket], tg_flow_sig(hash));
	if (!bits)
		return TG_NO_SLOT;
	slot = bucket * TG_BUCKET_SLOTS + (uint32_t)__builtin_ctz(bits);
	e = &tg_flow_entries(t, g)[slot];
	__builtin_prefetch(e, 1);
	if (family == 6)
		__builtin_prefetch((const uint8_t *)e + 64);
	return slot;
}

/* The flow in a slot that tg_flow_prefetch found, if it is (still) there: removal
 * clears the key. Swaps happen only between bursts. */
TG_INLINE struct tg_flow_entry *tg_flow_table_at(const struct tg_flow_table *t, uint32_t slot,
						 const struct tg_flow_key *key)
{
	struct tg_flow_entry *e = &tg_flow_entries(t, t->swap.active)[slot];

	return slot != TG_NO_SLOT && tg_flow_key_is(&e->key, key) ? e : NULL;
}

#endif
