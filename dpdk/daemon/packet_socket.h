/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet sockets, as DPDK's af_packet driver uses them (packet_socket.c).
 */
#ifndef TG_DPDK_PACKET_SOCKET_H
#define TG_DPDK_PACKET_SOCKET_H

#include <stdint.h>

/* Frames that a kernel interface's ring had no room for. Call it from one thread. */
uint64_t tg_packet_sockets_lost(uint32_t ifindex);

#endif
