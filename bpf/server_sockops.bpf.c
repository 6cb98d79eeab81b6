/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * sock_ops, server role, translating: counts the connections that each source holds, at ports of services (lib/source_held.h).
 * Attached only where source_limits.concurrent is set.
 *
 * Must never: change a socket, other than asking for callbacks on its state changes.
 */
#define TG_REMEMBERS_NOTHING /* it may run in a process */
#include "lib/sock_tuple.h"
#include "lib/source_held.h"

SEC("sockops")
int tg_server_sockops(struct bpf_sock_ops *ctx)
{
	const struct tg_host_settings *settings;
	struct tg_packet pkt = {};
	bool begins = ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;

	/* Connections inherit the flag of their listener, and may end before they were reported. */
	if (!begins && (ctx->op != BPF_SOCK_OPS_STATE_CB || ctx->args[1] != BPF_TCP_CLOSE ||
			ctx->args[0] == BPF_TCP_SYN_RECV || ctx->args[0] == BPF_TCP_LISTEN))
		return 1;
	settings = tg_settings_get();
	if (!settings->limit_held || !tg_sock_tuple(ctx, settings, &pkt))
		return 1;
	tg_held_change(&pkt, begins ? 1 : -1);
	if (begins)
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
