/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Run by userspace, not by packets: looks up random flows in the edge's filter and counts how many
 * it reports as known. That is the measured rate of false positives, through the same code that
 * handles packets.
 */
#include "lib/edge_maps.h"

#define TG_PROBES_MAX 65536

struct tg_probe {
	__u32 probes; /* in: how many */
	__u32 known;  /* out */
};

static long tg_probe_one(__u32 i, struct tg_probe *p)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_packet pkt = {.family = 4};
	struct tg_bloom_at at;

	(void)i;
	pkt.src.w[0] = bpf_get_prandom_u32();
	pkt.dst.w[0] = bpf_get_prandom_u32(); /* no service's: no real flow is hit */
	pkt.ports = bpf_get_prandom_u32();
	at = tg_bloom_find(edge, &pkt, TG_BLOOM_FROM_CLIENT);
	p->known += tg_bloom_look(&at) != 0;
	return 0;
}

SEC("syscall")
int tg_edge_probe(struct tg_probe *ctx)
{
	struct tg_probe p = {.probes = ctx->probes};

	if (p.probes > TG_PROBES_MAX)
		return -TG_EINVAL;
	bpf_loop(p.probes, tg_probe_one, &p, 0);
	ctx->known = p.known;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
