/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP as the host tests build it: both address families, every TCP option that
 * lwIP has, statistics, and a PCB pool small enough to be exhausted. What is
 * guarded can be set from the command line: see check-options.
 */
#ifndef TG_TEST_LWIPOPTS_H
#define TG_TEST_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TIMERS 1

#ifndef LWIP_IPV4
#define LWIP_IPV4 1
#endif
#ifndef LWIP_IPV6
#define LWIP_IPV6 1
#endif
#define LWIP_IPV6_AUTOCONFIG 0
#define LWIP_IPV6_DUP_DETECT_ATTEMPTS 0
#define LWIP_IPV6_SEND_ROUTER_SOLICIT 0
#ifndef LWIP_IPV6_MLD
#define LWIP_IPV6_MLD 1
#endif
#define IPV6_FRAG_COPYHEADER 1 /* 64-bit pointers */
#ifndef LWIP_ETHERNET
#define LWIP_ETHERNET 1
#endif
#ifndef LWIP_ARP
#define LWIP_ARP 1
#endif
#define LWIP_UDP 1
#define LWIP_ICMP 1
#ifndef LWIP_SINGLE_NETIF
#define LWIP_SINGLE_NETIF 0
#endif

#define TCP_MSS 1460
#define TCP_WND (16 * TCP_MSS)
#define TCP_SND_BUF (8 * TCP_MSS)
#ifndef TCP_LISTEN_BACKLOG
#define TCP_LISTEN_BACKLOG 1
#endif
#ifndef LWIP_WND_SCALE
#define LWIP_WND_SCALE 1
#endif
#define TCP_RCV_SCALE 2
#ifndef LWIP_TCP_TIMESTAMPS
#define LWIP_TCP_TIMESTAMPS 1
#endif
#ifndef LWIP_TCP_SACK_OUT
#define LWIP_TCP_SACK_OUT 1
#endif
#define TCP_QUEUE_OOSEQ 1

#define MEM_ALIGNMENT 8
#define MEM_SIZE (64 * 1024)
#define MEMP_NUM_TCP_PCB 24
#define MEMP_NUM_TCP_SEG 64
#define MEMP_NUM_PBUF 64
#define PBUF_POOL_SIZE 64

#ifndef LWIP_STATS
#define LWIP_STATS 1
#endif
#define LWIP_STATS_DISPLAY 0
#if LWIP_STATS && !defined MIB2_STATS
#define MIB2_STATS 1
#endif
#ifndef TG_LWIP_STATS
#define TG_LWIP_STATS 1
#endif

#define LWIP_HOOK_FILENAME "tg_lwip_hooks.h"

#endif
