/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The packet in hand by one name, for what XDP and TC share: TC defines TG_SKB first.
 */
#ifndef TG_BPF_CTX_H
#define TG_BPF_CTX_H

#include "kernel.h"

#ifdef TG_SKB
#define TG_CTX struct __sk_buff
#define tg_ctx_load bpf_skb_load_bytes
#define tg_ctx_store(ctx, off, from, len) bpf_skb_store_bytes(ctx, off, from, len, 0)
#else
#define TG_CTX struct xdp_md
#define tg_ctx_load bpf_xdp_load_bytes
#define tg_ctx_store bpf_xdp_store_bytes
#endif

#endif
