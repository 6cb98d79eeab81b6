/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYN cache, one thread: any bucket, any packet that was parsed, any clock. No place outside
 * the bucket is named, read or written.
 */
#include "eva.h"
#include "../syn_cache.h"

static uint8_t frame[TG_HALFOPEN_LINK_LEN];

int main(void)
{
	struct tg_halfopen_bucket bucket;
	struct tg_siphash_key key;
	struct tg_tcp_options offered;
	struct tg_synack agreed;
	struct tg_packet p;
	struct tg_ack ack;
	uint32_t slot, tick = ANY_U32();
	uint64_t hash, head = 0;

	ANY_BYTES(frame, sizeof(frame));
	ANY_BYTES(&bucket, sizeof(bucket));
	ANY_BYTES(&key, sizeof(key));
	ANY_BYTES(&p, sizeof(p));
	ANY_BYTES(&ack, sizeof(ack));
	ANY_BYTES(&offered, sizeof(offered));
	ANY_BYTES(&agreed, sizeof(agreed));
	ack.ts_ok = ANY_BOOL();
	agreed.ecn = ANY_BOOL();
	agreed.options.sack_ok = ANY_BOOL();
	agreed.options.ts_ok = ANY_BOOL();
	hash = tg_halfopen_hash(&p, &key);
	slot = tg_halfopen_index(hash, 0xffff);
	//@ assert slot <= 0xffff;
	slot = tg_halfopen_find(&bucket, hash, &p, &head);
	//@ assert slot <= TG_HALFOPEN_WAYS;
	if (slot < TG_HALFOPEN_WAYS) {
		(void)tg_halfopen_refused(&bucket.halfopens[slot], &p);
		(void)tg_halfopen_accepts(&bucket.halfopens[slot], &p, &ack);
		(void)tg_halfopen_answer(&bucket.halfopens[slot]);
	}
	slot = tg_halfopen_victim(&bucket, tick, &head);
	//@ assert slot <= TG_HALFOPEN_WAYS;
	if (slot < TG_HALFOPEN_WAYS) {
		(void)tg_halfopen_lives(head, tick);
		tg_halfopen_fill(&bucket.halfopens[slot], &p, &offered, &agreed,
				 tg_halfopen_isn(hash, ANY_U64()), frame);
		tg_halfopen_publish(&bucket.heads[slot], tg_halfopen_head(hash, tick, 1));
	}
	tg_halfopen_gives_cookie(&bucket, ANY_U64());
	(void)tg_halfopen_takes_cookie(&bucket, ANY_U64());
	(void)tg_halfopen_retransmit(head, tick);
	(void)tg_halfopen_done(head, tick);
	REACHED();
	return 0;
}
