/* SPDX-License-Identifier: Apache-2.0
 *
 * source_remember.h.
 */
#include "source_remember.h"

void tg_source_remember(struct tg_worker *w, const struct tg_packet *ack)
{
	/* A slot for each pair of addresses: a flow's hash without its ports. */
	struct tg_packet pair = *ack;
	struct tg_flow_key key;
	uint32_t slot;

	pair.ports = 0;
	key = tg_flow_key_of(&pair, TG_TO_SERVER);
	slot = (uint32_t)(tg_flow_key_hash(&w->flows, &key) >> 32) & (TG_PROVEN_SLOTS - 1);
	tg_proven_count(&w->proven[slot], ack, false, ack->ip_dscp == w->config->true_source,
			w->now_ns);
}
