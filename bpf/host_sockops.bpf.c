/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * sock_ops, host role: keeps the socket filter. Called when a connection to a
 * protected port is established and when it is closed, and when the kernel answers a
 * SYN; not for other packets. Tells userspace when a listener of such a port comes or goes.
 *
 * Must never: change a socket, other than asking for callbacks on its state changes, and letting BBR
 * send the first window as other algorithms do (lib/first_window.h).
 */
#define TG_REMEMBERS_NOTHING /* it may run in a process */
#include "lib/automatic.h"
#include "lib/first_window.h"
#include "lib/listeners.h"
#include "lib/live.h"
#include "lib/proof.h"
#include "lib/sock_tuple.h"
#include "lib/socket_filter.h"
#include "lib/source_held.h"

/* A listener of a protected port begins or ends: userspace is notified. */
static __always_inline void tg_sock_listens(struct bpf_sock_ops *ctx, bool begins)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 port = ctx->local_port;
	__u32 entry = tg_port_at(port);

	if (!(entry & TG_PORT_WATCHED) || bpf_get_netns_cookie(ctx) != settings->netns_cookie)
		return;
	if (begins)
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	tg_bell_ring(TG_BELL_LISTENER, port);
}

/* Counts a connection that has a socket now, for the service of its port if that has one for all
 * addresses. */
static __always_inline void tg_sock_connected(struct bpf_sock_ops *ctx)
{
	__u32 port = ctx->local_port;
	__u32 entry = tg_port_at(port);
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!entry)
		return;
	id = TG_PORT_SERVICE(entry);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (row && (!id || svc->mode != TG_MODE_OFF))
		tg_count(row, TG_COUNT_connected);
}

SEC("sockops")
int tg_host_sockops(struct bpf_sock_ops *ctx)
{
	const struct tg_host_settings *settings;
	struct tg_packet pkt = {};
	struct tg_filter_index at;
	__u64 hash;

	if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB) {
		tg_sock_listens(ctx, true);
		return 1;
	}
	if (ctx->op == BPF_SOCK_OPS_STATE_CB && ctx->args[0] == BPF_TCP_LISTEN) {
		tg_sock_listens(ctx, false);
		return 1;
	}
	/* Connections inherit the flag of their listener, and may end before they were reported. */
	if (ctx->op == BPF_SOCK_OPS_STATE_CB && ctx->args[0] == BPF_TCP_SYN_RECV)
		return 1;
	if (ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_RWND_INIT &&
	    !(ctx->op == BPF_SOCK_OPS_STATE_CB && ctx->args[1] == BPF_TCP_CLOSE))
		return 1;
	settings = tg_settings_get();
	if (!tg_sock_tuple(ctx, settings, &pkt))
		return 1;
	hash = tg_filter_hash_of(settings, &pkt);
	at = tg_filter_cells(hash);
	if (ctx->op == BPF_SOCK_OPS_RWND_INIT) {
		/* The kernel itself answers a SYN that bypassed the edges, with a request or a
		 * cookie of its own: the final ACK check must accept the ACK. A host that leaves
		 * SYNs to the kernel must know retransmitted ones for the same reason. */
		if (settings->final_check || settings->half_open_cost_ns)
			tg_filter_touch(at);
		return 1;
	}
	if (ctx->op == BPF_SOCK_OPS_STATE_CB) {
		tg_live_forget(hash);
		tg_filter_close(at);
		tg_held_change(&pkt, -1);
	} else {
		tg_filter_open(at);
		tg_live_put(hash, ctx->rcv_nxt, ctx->snd_nxt);
		/* Nothing has been sent yet: the number before the next is the cookie. */
		tg_adoption_decide(ctx->snd_nxt - 1, TG_ADOPTION_MADE);
		tg_sock_connected(ctx);
		tg_auto_done(&pkt, 1);
		tg_held_change(&pkt, 1);
		tg_first_window_unpaced(ctx);
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
