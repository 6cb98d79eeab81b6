/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the host gate's programs do with their maps: count, find a service, find the epoch's key,
 * hash a tuple for the socket filter, look up a socket.
 */
#ifndef TG_BPF_GATE_H
#define TG_BPF_GATE_H

#include "clock.h"
#include "destination.h"

/* True if `*len` bytes of options can be copied: 1 to 40. */
static __always_inline bool tg_options_len_is_sane(__u32 *len)
{
	*len = tg_len_within(*len, TG_TCP_OPTIONS_MAX_LEN, 63);
	return *len != 0;
}

/* The frame's length, asked for only where it counts. */
static __always_inline void tg_frame_measure(struct xdp_md *ctx, struct tg_packet *pkt)
{
	if (tg_packet_is_unmeasured(pkt))
		tg_packet_measure(pkt, (__u32)bpf_xdp_get_buff_len(ctx));
}

/* Zero by words of four bytes: eight are a spilled register to the verifier, and
 * when writes at unknown places have gone over part of one, that of Linux 6.12
 * allows no more reads there (6.18 does). */
static __always_inline void tg_options_clear(struct tg_options_cursor *c)
{
	volatile __u32 *word = (volatile __u32 *)c->bytes;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < TG_OPTIONS_ROOM / 4; i++)
		word[i] = 0;
	c->at = 0;
}

static __always_inline const struct tg_host_settings *tg_settings_get(void)
{
	return &tg_settings;
}

/* The entry of a service; an empty one for a number that no service has. */
static __always_inline struct tg_service *tg_service_at(__u32 id)
{
	return &tg_services[id & (TG_SERVICE_SLOTS - 1)];
}

/* This CPU's counters of a service; NULL for a number that no service has. */
static __always_inline struct tg_counter_row *tg_counter_row_get(__u32 service_id)
{
	return bpf_map_lookup_elem(&tg_counters, &service_id);
}

static __always_inline void tg_count(struct tg_counter_row *row, enum tg_counter counter)
{
	if ((__u32)counter < TG_COUNTERS)
		row->count[counter]++; /* XDP and TC run with softirqs off */
}

/* The entry of a port, as on the wire; 0 if the gate does not know it. */
static __always_inline __u32 tg_port_entry(__u16 port_be)
{
	return tg_port_at(tg_swap16(port_be));
}

/* The id of the service that protects this destination, whose port has that entry; 0 if none does. */
static __always_inline __u32 tg_service_of_entry(const struct tg_packet *pkt, __u32 entry)
{
	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	return (__u32)tg_destination_look(pkt->dst.d[0], pkt->family == 4 ? 0 : pkt->dst.d[1],
					  tg_port_family(TG_DST_PORT_BE(pkt), pkt->family));
}

/* The same, where the entry is not at hand. */
static __always_inline __u32 tg_service_find(const struct tg_packet *pkt)
{
	__u32 entry = tg_port_entry(TG_DST_PORT_BE(pkt));

	return entry ? tg_service_of_entry(pkt, entry) : 0;
}

/* What is remembered of this destination; NULL if no service has its port. */
static __always_inline struct tg_destination *tg_destination_served(const struct tg_packet *pkt)
{
	return tg_port_entry(TG_DST_PORT_BE(pkt)) ? tg_destination_of(pkt) : 0;
}

/* The same for fast paths: what is remembered is found without a call. Shortest where the packet's family is a constant. */
static __always_inline __u32 tg_service_find_fast(const struct tg_packet *pkt)
{
	__u32 entry = tg_port_entry(TG_DST_PORT_BE(pkt));
	const struct tg_destination *d;

	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	d = tg_destination_of(pkt);
	return d ? d->id : 0;
}

/* The epoch by a division, which is remembered for tg_epoch_of. */
TG_GLOBAL __u64 tg_epoch_divide(__u64 unix_ns)
{
	struct tg_host_settings *settings = &tg_settings;
	__u64 epoch;

	epoch = tg_epoch_at(unix_ns, settings->epoch_len_ns);
	settings->epoch_near = epoch;
	return epoch;
}

static __always_inline __u64 tg_epoch_of(const struct tg_host_settings *settings, __u64 unix_ns)
{
	uint64_t epoch;

	return TG_LIKELY(tg_epoch_near(unix_ns, settings->epoch_len_ns,
				       *(const volatile __u64 *)&settings->epoch_near, &epoch))
		       ? epoch
		       : tg_epoch_divide(unix_ns);
}

static __always_inline __u64 tg_epoch_now(const struct tg_host_settings *settings)
{
	return tg_epoch_of(settings, tg_clock_ns(settings) + settings->wall_minus_mono_ns);
}

/* The epoch that ACKs are held to, at a moment of CLOCK_MONOTONIC. */
static __always_inline __u64 tg_epoch_verifying_at(const struct tg_host_settings *settings,
						   __u64 mono_ns)
{
	return tg_epoch_of(settings,
			   mono_ns + settings->wall_minus_mono_ns + settings->verify_ahead_ns);
}

static __always_inline __u64 tg_epoch_verifying_now(const struct tg_host_settings *settings)
{
	return tg_epoch_verifying_at(settings, tg_clock_ns(settings));
}

/* The key of exactly this epoch; NULL if it is not loaded. */
static __always_inline const struct tg_siphash_key *tg_key_find(const struct tg_host_settings *settings,
								__u64 epoch)
{
	__u32 slot = (__u32)epoch & settings->key_slot_mask;
	struct tg_epoch_key *k = bpf_map_lookup_elem(&tg_keys, &slot);

	return k && k->epoch == epoch ? &k->key : 0;
}

/* True if the key of this epoch is loaded, by a look-up. */
TG_GLOBAL int tg_key_look(__u64 epoch)
{
	__u64 filling = *(const volatile __u64 *)&tg_filling.filling;

	if (!tg_key_find(tg_settings_get(), epoch))
		return 0;
	*(volatile __u64 *)&tg_filling.loaded = epoch ^ filling;
	return 1;
}

/* True while ACKs that do not verify have to pass: tg_host_fails_open. `epoch` is the verifier's own, which nearly
 * always was looked for before. */
static __always_inline bool tg_keys_fail_open(const struct tg_host_settings *settings, __u64 epoch)
{
	const volatile struct tg_filling_state *tables = &tg_filling;

	return TG_UNLIKELY(tables->loaded != (epoch ^ tables->filling)) && !tg_key_look(epoch) &&
	       tg_host_fails_open(settings->stale_keys, 0);
}

static __always_inline __u16 tg_filter_tick_now(void)
{
	return tg_filter_tick(TG_CLOCK_NS());
}

/* The option parser as a global function: the verifier goes through it once, not
 * once for each way in which a header may lie before it. */
TG_GLOBAL int tg_options_read(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	if (!c || !o)
		return -TG_EINVAL;
	tg_tcp_options_parse_into(c, o);
	return 0;
}

/* An IPv4 peer of a dual-stack socket shows up as ::ffff:a.b.c.d. */
static __always_inline void tg_packet_unmap(struct tg_packet *pkt)
{
	if (pkt->family != 6 || pkt->src.d[0] != 0 || pkt->src.w[2] != TG_WIRE32(0, 0, 0xff, 0xff))
		return;
	pkt->family = 4;
	pkt->src.w[0] = pkt->src.w[3];
	pkt->dst.w[0] = pkt->dst.w[3];
}

static __always_inline struct tg_filter_index tg_filter_at(const struct tg_host_settings *settings,
							   const struct tg_packet *pkt)
{
	return tg_filter_index(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, pkt->ports);
}

static __always_inline __u64 tg_filter_hash_of(const struct tg_host_settings *settings,
					       const struct tg_packet *pkt)
{
	return tg_filter_hash(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, pkt->ports);
}

/* The socket for this segment in the device's namespace: established, TIME-WAIT,
 * request or listener. The caller releases it. */
static __always_inline struct bpf_sock *tg_socket_find(void *ctx, const struct tg_packet *pkt)
{
	struct bpf_sock_tuple tuple = {};

	if (pkt->family == 4) {
		tuple.ipv4.saddr = pkt->src.w[0];
		tuple.ipv4.daddr = pkt->dst.w[0];
		tuple.ipv4.sport = TG_SRC_PORT_BE(pkt);
		tuple.ipv4.dport = TG_DST_PORT_BE(pkt);
		return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(tuple.ipv6.saddr, pkt->src.w, 16);
	__builtin_memcpy(tuple.ipv6.daddr, pkt->dst.w, 16);
	tuple.ipv6.sport = TG_SRC_PORT_BE(pkt);
	tuple.ipv6.dport = TG_DST_PORT_BE(pkt);
	return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

#endif
