/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP as the host tests build it: both address families, every TCP option that
 * lwIP has, statistics, and a PCB pool small enough to be exhausted.
 */
#ifndef TG_TEST_LWIPOPTS_H
#define TG_TEST_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TIMERS 1

#define LWIP_IPV4 1
#define LWIP_IPV6 1
#define LWIP_IPV6_AUTOCONFIG 0
#define LWIP_IPV6_DUP_DETECT_ATTEMPTS 0
#define LWIP_IPV6_SEND_ROUTER_SOLICIT 0
#define LWIP_IPV6_MLD 1
#define IPV6_FRAG_COPYHEADER 1 /* 64-bit pointers */
#define LWIP_ETHERNET 1
#define LWIP_ARP 1
#define LWIP_UDP 1
#define LWIP_ICMP 1
#define LWIP_SINGLE_NETIF 0

#define TCP_MSS 1460
#define TCP_WND (16 * TCP_MSS)
#define TCP_SND_BUF (8 * TCP_MSS)
#define TCP_LISTEN_BACKLOG 1
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 2
#define LWIP_TCP_TIMESTAMPS 1
#define LWIP_TCP_SACK_OUT 1
#define TCP_QUEUE_OOSEQ 1

#define MEM_ALIGNMENT 8
#define MEM_SIZE (64 * 1024)
#define MEMP_NUM_TCP_PCB 24
#define MEMP_NUM_TCP_SEG 64
#define MEMP_NUM_PBUF 64
#define PBUF_POOL_SIZE 64

#define LWIP_STATS 1
#define LWIP_STATS_DISPLAY 0
#define MIB2_STATS 1
#define TG_LWIP_STATS 1

#define LWIP_HOOK_FILENAME "tg_lwip_hooks.h"

#endif
