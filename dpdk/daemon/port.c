/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports: one receive and one transmit queue for each core, frames spread by the
 * hash of the two addresses, the same both ways, so that a client and its server
 * are always the same core's.
 */
#include "port.h"

#include <stdio.h>
#include <sys/random.h>
#include <rte_bus.h>
#include <rte_ethdev.h>

#include "card_checks.h"
#include "rss.h"
#include "say.h"

#define DESCRIPTORS 512

static uint8_t symmetric_key[TG_RSS_KEY_MAX]; /* of all ports, drawn at the start */

static bool draw_key(void)
{
	uint16_t pattern;

	do { /* two in seven will do */
		if (getrandom(&pattern, sizeof(pattern), 0) != sizeof(pattern))
			return tg_say("no random numbers from the kernel");
	} while (!tg_rss_is_even(pattern));
	tg_rss_fill(symmetric_key, pattern);
	return true;
}

static struct rte_eth_conf port_conf(const struct tg_program *p, const struct rte_eth_dev_info *info)
{
	struct rte_eth_conf conf = {0};

	conf.txmode.offloads = info->tx_offload_capa &
			       (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
	conf.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	conf.rxmode.offloads |= tg_card_checks(
		info->driver_name, rte_bus_name(rte_dev_bus(info->device)), info->rx_offload_capa);
	if (p->cores_n > 1 && info->flow_type_rss_offloads & (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6)) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
						   (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 |
						    RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6);
		conf.rx_adv_conf.rss_conf.rss_key = symmetric_key;
		conf.rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size &&
									info->hash_key_size <=
										sizeof(symmetric_key)
								? info->hash_key_size
								: 40;
	}
	return conf;
}

static bool port_queues(const struct tg_program *p, uint16_t port)
{
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
	uint32_t i;
	int err = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);

	for (i = 0; i < p->cores_n && !err; i++) {
		err = rte_eth_rx_queue_setup(port, (uint16_t)i, rx, rte_eth_dev_socket_id(port),
					     NULL, p->cores[i].w->pool);
		if (!err)
			err = rte_eth_tx_queue_setup(port, (uint16_t)i, tx,
						     rte_eth_dev_socket_id(port), NULL);
	}
	if (err)
		return tg_say("port %u: queues: %s", port, rte_strerror(-err));
	return true;
}

static bool port_start(struct tg_program *p, uint16_t port)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	struct rte_eth_conf conf;
	uint16_t mtu = 1500;
	uint32_t i;
	int err;

	if (rte_eth_dev_info_get(port, &info) || rte_eth_macaddr_get(port, &mac))
		return tg_say("port %u: the driver does not answer", port);
	if (info.max_rx_queues < p->cores_n || info.max_tx_queues < p->cores_n)
		return tg_say("port %u (%s) has %u queues, and %u cores are to use it; give fewer "
			      "cores (-l), or the driver more queues",
			      port, info.driver_name,
			      RTE_MIN(info.max_rx_queues, info.max_tx_queues), p->cores_n);
	if (strcmp(info.driver_name, "net_af_packet") == 0)
		p->from_kernel |= (uint16_t)(1U << port);
	conf = port_conf(p, &info);
	if (p->cores_n > 1 && conf.rxmode.mq_mode != RTE_ETH_MQ_RX_RSS)
		tg_say("port %u (%s) cannot spread frames by address; its driver must bring both "
		       "directions of a connection to one core",
		       port, info.driver_name);
	err = rte_eth_dev_configure(port, (uint16_t)p->cores_n, (uint16_t)p->cores_n, &conf);
	if (err)
		return tg_say("port %u (%s): configure: %s", port, info.driver_name,
			      rte_strerror(-err));
	if (!port_queues(p, port))
		return false;
	err = rte_eth_dev_start(port);
	if (err)
		return tg_say("port %u (%s): start: %s", port, info.driver_name, rte_strerror(-err));
	(void)rte_eth_promiscuous_enable(port); /* for a bridge; a router checks addresses itself */
	(void)rte_eth_dev_get_mtu(port, &mtu);
	for (i = 0; i < p->cores_n; i++) {
		struct tg_worker *w = p->cores[i].w;

		memcpy(w->ports[port].mac, mac.addr_bytes, 6);
		w->ports[port].mtu = mtu;
		w->ports[port].max_frame = mtu + TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN;
		w->ports_n = p->ports_n;
		w->tcp_checksum = (port == 0 || w->tcp_checksum) &&
				  conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	}
	return true;
}

bool tg_ports_start(struct tg_program *p)
{
	uint32_t port;

	if (!draw_key())
		return false;
	for (port = 0; port < p->ports_n; port++)
		if (!port_start(p, (uint16_t)port))
			return false;
	return true;
}

void tg_ports_stop(struct tg_program *p)
{
	uint32_t port;

	for (port = 0; port < p->ports_n; port++) {
		(void)rte_eth_dev_stop((uint16_t)port);
		(void)rte_eth_dev_close((uint16_t)port);
	}
}
