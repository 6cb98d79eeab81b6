/* SPDX-License-Identifier: Apache-2.0
 *
 * What DPDK's af_packet driver requests from the kernel and a router cannot have. The driver, a
 * plug-in, finds our setsockopt and ioctl before the C library's.
 *
 * - It has IPv4 fragments put together before it sees them (PACKET_FANOUT_FLAG_DEFRAG):
 *   the packet then is longer than the next link, and than the driver's own buffers.
 * - It receives what this machine's kernel sends, and a bridge would send that back by the other port.
 * - When a port starts, DPDK sets its MAC address to what it is. The kernel takes that for a
 *   change: it forgets all neighbours, those set by hand too, and restarts duplicate address
 *   detection, and resolves no IPv6 neighbour until that ends.
 *
 * DPDK 22.11 to 24.11 have no option for any of these; this may go when they do.
 *
 * It also remembers the sockets, to ask them what the kernel could not hand over: the
 * driver counts no losses.
 */
#include "packet_socket.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

static struct {
	int fd;
	uint64_t lost;
} sockets[TG_PORTS_MAX * TG_CORES_MAX];
static uint32_t sockets_n;

static int set(int fd, int level, int name, const void *value, socklen_t len)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int fanout, one = 1;

	if (level != SOL_PACKET)
		return set(fd, level, name, value, len);
	if (name == PACKET_RX_RING) {
		(void)set(fd, level, PACKET_IGNORE_OUTGOING, &one, sizeof(one)); /* Linux 4.20 */
		if (sockets_n < sizeof(sockets) / sizeof(sockets[0]))
			sockets[sockets_n++].fd = fd;
	}
	if (name != PACKET_FANOUT || len != sizeof(fanout))
		return set(fd, level, name, value, len);
	memcpy(&fanout, value, sizeof(fanout));
	fanout &= ~(PACKET_FANOUT_FLAG_DEFRAG << 16);
	return set(fd, level, name, &fanout, sizeof(fanout));
}

static bool is_its_mac(int fd, const struct ifreq *wanted)
{
	struct ifreq is;

	memcpy(is.ifr_name, wanted->ifr_name, sizeof(is.ifr_name));
	return syscall(SYS_ioctl, fd, SIOCGIFHWADDR, &is) == 0 &&
	       memcmp(is.ifr_hwaddr.sa_data, wanted->ifr_hwaddr.sa_data, 6) == 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == SIOCSIFHWADDR && is_its_mac(fd, arg))
		return 0;
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

uint64_t tg_packet_sockets_lost(uint32_t ifindex)
{
	uint64_t lost = 0;
	uint32_t i;

	for (i = 0; i < sockets_n; i++) {
		struct tpacket_stats s;
		struct sockaddr_ll at;
		socklen_t len = sizeof(s), at_len = sizeof(at);

		if (getsockname(sockets[i].fd, (struct sockaddr *)&at, &at_len) ||
		    at.sll_family != AF_PACKET || (uint32_t)at.sll_ifindex != ifindex)
			continue;
		if (getsockopt(sockets[i].fd, SOL_PACKET, PACKET_STATISTICS, &s, &len) == 0)
			sockets[i].lost += s.tp_drops; /* the kernel resets its count with each answer */
		lost += sockets[i].lost;
	}
	return lost;
}
