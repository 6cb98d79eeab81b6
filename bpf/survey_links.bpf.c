/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Iterator over BPF links, run by the survey when there is a program at a hook of netfilter: prints in which network
 * namespace each of them is, which the kernel says nowhere else. Sees no packet.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define TG_LINK_NETFILTER 10 /* BPF_LINK_TYPE_NETFILTER, Linux 6.4 */

/* Of each struct only what is read here, by CO-RE relocation. */
struct bpf_link {
	__u32 id;
	enum bpf_link_type type;
} __attribute__((preserve_access_index));

struct net {
	__u64 net_cookie;
} __attribute__((preserve_access_index));

struct bpf_nf_link {
	struct bpf_link link;
	struct net *net;
} __attribute__((preserve_access_index));

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_link {
	struct bpf_iter_meta *meta;
	struct bpf_link *link;
} __attribute__((preserve_access_index));

struct tg_hook_link {
	__u64 net_cookie;
	__u32 id;
	__u32 pad;
};

SEC("iter/bpf_link")
int tg_survey_links(struct bpf_iter__bpf_link *ctx)
{
	struct bpf_link *link = ctx->link;
	struct tg_hook_link out = {};
	struct bpf_nf_link *nf;

	if (!link || link->type != TG_LINK_NETFILTER)
		return 0;
	nf = (struct bpf_nf_link *)link;
	out.id = link->id;
	out.net_cookie = BPF_CORE_READ(nf, net, net_cookie);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
