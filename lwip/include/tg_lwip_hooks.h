/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks by which lwIP calls the SYN-flood defence. In lwipopts.h:
 *
 *     #define LWIP_HOOK_FILENAME "tg_lwip_hooks.h"
 *
 * or include this file from the hook file that you have.
 */
#ifndef TG_LWIP_HOOKS_H
#define TG_LWIP_HOOKS_H

#include "lwip/ip_addr.h"
#include "lwip/pbuf.h"
#include "lwip/prot/tcp.h"
#include "lwip/tcp.h"
#include "tg_lwip_opts.h"

#ifdef __cplusplus
extern "C" {
#endif

err_t tg_lwip_inpacket(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t opt_len, u16_t opt1_len,
		       u8_t *opt2, struct pbuf *p);
u32_t tg_lwip_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip,
		  u16_t remote_port);

#ifdef __cplusplus
}
#endif

#if TG_LWIP_POLICY != TG_LWIP_POLICY_DROP
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, hdr, opt_len, opt1_len, opt2, p)                           \
	tg_lwip_inpacket(pcb, hdr, opt_len, opt1_len, opt2, p)
#endif

#if TG_LWIP_ISN
#define LWIP_HOOK_TCP_ISN(local_ip, local_port, remote_ip, remote_port)                            \
	tg_lwip_isn(local_ip, local_port, remote_ip, remote_port)
#endif

#endif
