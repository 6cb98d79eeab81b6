/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP for a class 2 device (RFC 7228): 64 KiB of RAM, both address families,
 * plain TCP. The PCB pool has room for the largest queue that is measured (16)
 * and eight connections.
 */
#ifndef TG_FIRMWARE_LWIPOPTS_H
#define TG_FIRMWARE_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0

#define LWIP_IPV4 1
#define LWIP_IPV6 1
#define LWIP_IPV6_AUTOCONFIG 0
#define LWIP_IPV6_DUP_DETECT_ATTEMPTS 0
#define LWIP_IPV6_SEND_ROUTER_SOLICIT 0
#define LWIP_IPV6_REASS 0
#define LWIP_IPV6_FRAG 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define LWIP_ARP 1
#define LWIP_ICMP 1
#define LWIP_UDP 1
#define LWIP_RAW 0
#define LWIP_DHCP 0
#define LWIP_DNS 0
#define LWIP_SINGLE_NETIF 1
#define ETH_PAD_SIZE 2

#define MEM_ALIGNMENT 4
#define MEM_SIZE 6144
#define PBUF_POOL_SIZE 16
#define PBUF_POOL_BUFSIZE 1528
#define MEMP_NUM_TCP_PCB 24
#define MEMP_NUM_TCP_PCB_LISTEN 2
#define MEMP_NUM_TCP_SEG 40
#define MEMP_NUM_PBUF 8

#define TCP_MSS 1460
#define TCP_WND (6 * TCP_MSS)
#define TCP_SND_BUF (2 * TCP_MSS)
#define TCP_SND_QUEUELEN 8
#define TCP_QUEUE_OOSEQ 0
#define TCP_LISTEN_BACKLOG 1

#define LWIP_STATS 1
#define LWIP_STATS_DISPLAY 0
#define MEMP_STATS 1
#define MEM_STATS 1

#ifndef TG_FIRMWARE_BARE
#define LWIP_HOOK_FILENAME "tg_lwip_hooks.h"
#endif

#endif
