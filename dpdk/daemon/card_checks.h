/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checksums a port's card is to check on receiving. The pipeline believes what it says (pipeline/intact.h), and
 * computes the sums itself where it says nothing.
 *
 * A driver in software (bus "vdev": tap, vhost, ...) would compute them in a loop of its own, slower than the pipeline does.
 * virtio would not check, but promise its host that frames may come with checksums left out.
 */
#ifndef TG_DPDK_CARD_CHECKS_H
#define TG_DPDK_CARD_CHECKS_H

#include <rte_ethdev.h>
#include <string.h>

/* Of RTE_ETH_RX_OFFLOAD_*, those to ask for; `capa`: those that the driver has. */
static inline uint64_t tg_card_checks(const char *driver, const char *bus, uint64_t capa)
{
	const uint64_t both = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;

	if (strcmp(bus, "vdev") == 0 || strncmp(driver, "net_virtio", 10) == 0)
		return 0;
	return (capa & both) == both ? both : 0;
}

#endif
