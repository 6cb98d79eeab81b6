/* SPDX-License-Identifier: Apache-2.0
 *
 * What one core owns: made, freed, kept up to the clock. Frames are pipeline.c's.
 */
#include "worker.h"

#include "advertised.h"
#include "cache.h"
#include "pipeline.h"
#include "route.h"

/* All lanes of a table's batch are hashed under one key. */
static void table_key(struct tg_siphash_batch *b, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);
	uint32_t i;

	for (i = 0; i < TG_LANES_MAX; i++)
		tg_siphash_lane_begin(b, i, &s);
}

struct tg_worker *tg_worker_new(const struct tg_worker_options *o)
{
	struct tg_worker *w = tg_pages_get(sizeof(*w));
	uint32_t i;

	if (!w)
		return NULL;
	w->challenge_key = o->challenge_key;
	w->presence_salt = o->presence_salt;
	w->automatic.key = o->sample_key;
	w->ask_key = o->ask_key;
	w->variant = o->variant;
	w->burst = tg_pipeline_burst_any;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		w->burst = tg_pipeline_burst_v3;
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
	    w->burst == tg_pipeline_burst_v3)
		w->burst = tg_pipeline_burst_v4;
#endif
	w->pool = o->pool;
	w->rows = tg_pages_get(sizeof(*w->rows) * (TG_SERVICES_MAX + 1));
	w->allowances = tg_pages_get(sizeof(*w->allowances) * (TG_SERVICES_MAX + 1));
	w->now_ns = TG_CLOCK_BEGINS_NS;
	while ((w->cache.mask + 1) * TG_HALFOPEN_WAYS < o->max_halfopens)
		w->cache.mask = w->cache.mask * 2 + 1;
	w->cache.key = o->cache_key;
	w->cache.buckets = tg_pages_get(sizeof(*w->cache.buckets) * (w->cache.mask + 1));
	w->own_limits = !o->limits;
	w->limits = o->limits ? o->limits : tg_pages_get(sizeof(*w->limits));
	w->flows.held.all = w->limits;
	w->flows.held.key = o->table_key;
	w->proven = tg_pages_get(sizeof(*w->proven) * TG_PROVEN_SLOTS);
	if (!w->rows || !w->limits || !w->proven || !w->allowances || !w->cache.buckets ||
	    !tg_flow_table_init(&w->flows, o->max_flows, o->table_key) ||
	    !tg_whitelist_init(&w->white, o->max_sources, o->white_bitmap, o->presence_salt)) {
		tg_worker_free(w);
		return NULL;
	}
	w->cookies4.words = TG_COOKIE_WORDS(4);
	w->cookies6.words = TG_COOKIE_WORDS(6);
	w->fast.cookies4.batch.words = TG_COOKIE_WORDS(4) - TG_COOKIE_BEGIN_WORDS(4);
	w->fast.cookies6.batch.words = TG_COOKIE_WORDS(6) - TG_COOKIE_BEGIN_WORDS(6);
	w->flows4.words = w->halves4.words = TG_FLOW_WORDS4;
	w->flows6.words = w->halves6.words = TG_FLOW_WORDS6;
	w->fast.flows4.words = w->fast.wide_flows.words = TG_FLOW_WORDS4;
	w->fast.flows6.words = w->fast.halves6.words = w->fast.wide_halves6.words = TG_FLOW_WORDS6;
	w->fast.halves4.words = w->fast.wide_halves.words = TG_FLOW_WORDS4;
	table_key(&w->fast.flows4, &o->table_key);
	table_key(&w->fast.flows6, &o->table_key);
	table_key(&w->fast.wide_flows, &o->table_key);
	table_key(&w->fast.halves4, &o->cache_key);
	table_key(&w->fast.halves6, &o->cache_key);
	table_key(&w->fast.wide_halves, &o->cache_key);
	table_key(&w->fast.wide_halves6, &o->cache_key);
	table_key(&w->flows4, &o->table_key);
	table_key(&w->flows6, &o->table_key);
	table_key(&w->halves4, &o->cache_key);
	table_key(&w->halves6, &o->cache_key);
	for (i = 0; i < TG_PORTS_MAX; i++)
		w->ports[i].max_frame = w->ports[i].mtu = UINT32_MAX;
	return w;
}

bool tg_worker_populate(struct tg_worker *w)
{
	return tg_pages_populate(w, sizeof(*w)) &&
	       tg_pages_populate(w->rows, sizeof(*w->rows) * (TG_SERVICES_MAX + 1)) &&
	       tg_pages_populate(w->allowances, sizeof(*w->allowances) * (TG_SERVICES_MAX + 1)) &&
	       tg_pages_populate(w->cache.buckets, sizeof(*w->cache.buckets) * (w->cache.mask + 1)) &&
	       tg_pages_populate(w->limits, sizeof(*w->limits)) &&
	       tg_pages_populate(w->proven, sizeof(*w->proven) * TG_PROVEN_SLOTS) &&
	       tg_flow_table_populate(&w->flows) && tg_swap_populate(&w->white.hash) &&
	       (!w->white.bitmap || tg_swap_populate(&w->white.bits));
}

void tg_worker_free(struct tg_worker *w)
{
	if (!w)
		return;
	tg_store_free(&w->store);
	tg_waiting_free(&w->waiting);
	tg_flow_table_free(&w->flows);
	tg_whitelist_free(&w->white);
	if (w->own_limits)
		tg_pages_put(w->limits, sizeof(*w->limits));
	tg_pages_put(w->proven, sizeof(*w->proven) * TG_PROVEN_SLOTS);
	tg_pages_put(w->rows, sizeof(*w->rows) * (TG_SERVICES_MAX + 1));
	tg_pages_put(w->allowances, sizeof(*w->allowances) * (TG_SERVICES_MAX + 1));
	tg_pages_put(w->cache.buckets, sizeof(*w->cache.buckets) * (w->cache.mask + 1));
	tg_pages_put(w, sizeof(*w));
}

void tg_worker_tick(struct tg_worker *w, const struct tg_config *config, uint64_t unix_ns,
		    uint32_t now_ms)
{
	uint64_t more = w->icmp_allowed +
			(uint64_t)(uint32_t)(now_ms - w->now_ms) * TG_ICMP_ERRORS_A_SECOND / 1000;

	w->config = config;
	tg_advertised_forget(w);
	tg_flow_table_limit(&w->flows, &config->limits);
	w->icmp_allowed = more < TG_ICMP_ERRORS_A_SECOND / 5 ? (uint32_t)more
							     : TG_ICMP_ERRORS_A_SECOND / 5;
	w->now_ns += (uint64_t)(uint32_t)(now_ms - w->now_ms) * 1000000; /* it never wraps */
	w->now_ms = now_ms;
	w->flows.tick = tg_flow_tick(w->now_ns);
	w->epoch = config->fixed_epoch ? config->fixed_epoch
				       : tg_epoch_at(unix_ns, config->epoch_len_ns);
	w->key_now = tg_config_key(config, w->epoch);
	w->verify_epoch = config->fixed_epoch ? config->fixed_epoch
					      : tg_epoch_verifying(unix_ns, config->epoch_len_ns,
								   config->verify_ahead_ns);
	w->verify_now = tg_config_key(config, w->verify_epoch);
	w->verify_before = tg_config_key(config, w->verify_epoch - 1);
	w->rows[0].count[TG_COUNT_store_aged] += tg_store_sweep(&w->store, now_ms);
	tg_cache_retransmit(w);
	if (w->waiting.used)
		tg_waiting_look(w);
}

bool tg_worker_swap_flows(struct tg_worker *w)
{
	return tg_swap_turn(&w->flows.swap);
}

bool tg_worker_swap_sources(struct tg_worker *w)
{
	return tg_whitelist_turn(&w->white);
}

void tg_worker_clean(struct tg_worker *w)
{
	tg_flow_table_clean(&w->flows);
	tg_swap_clean(&w->white.hash);
	if (w->white.bitmap)
		tg_swap_clean(&w->white.bits);
}
