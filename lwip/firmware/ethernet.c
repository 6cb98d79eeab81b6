/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver for the Stellaris Ethernet controller: one data register before a
 * receive and a transmit FIFO, no DMA.
 *
 * Receive: a frame reads as   length 2 | frame | CRC 4   in words of 4 bytes;
 * the length, little-endian, counts all of it.
 * Transmit: a frame is written as   length 2 | frame   where the length counts
 * what follows the 14 bytes of the Ethernet header.
 *
 * ETH_PAD_SIZE is 2: lwIP's frame begins with two bytes of padding, which is
 * where both lengths stand, so that FIFO words are words of the pbuf.
 */
#include "ethernet.h"

#include <string.h>

#include "board.h"
#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/pbuf.h"
#include "lwip/snmp.h"
#include "netif/ethernet.h"

#define MAC_IACK REG(0x40048000)
#define MAC_IM REG(0x40048004)
#define MAC_RCTL REG(0x40048008)
#define MAC_TCTL REG(0x4004800c)
#define MAC_DATA REG(0x40048010)
#define MAC_IA0 REG(0x40048014)
#define MAC_IA1 REG(0x40048018)
#define MAC_THR REG(0x4004801c)
#define MAC_NP REG(0x40048034)
#define MAC_TR REG(0x40048038)

#define RCTL_RXEN 0x01u
#define RCTL_AMUL 0x02u /* multicast, for IPv6 neighbour discovery */
#define RCTL_RSTFIFO 0x10u
#define TCTL_TXEN 0x01u
#define TCTL_PADEN 0x02u
#define TCTL_CRC 0x04u
#define TCTL_DUPLEX 0x10u
#define INT_RX 0x01u
#define THR_NEVER 0x3fu /* send on request, not at a fill level */

#define LENGTH_LEN 2
#define CRC_LEN 4
#define ETH_HLEN 14
_Static_assert(ETH_PAD_SIZE == LENGTH_LEN, "the padding is where the length stands");

/* Locally administered; one device on its own tap. */
static const uint8_t mac[6] = {0x02, 0x54, 0x47, 0x00, 0x00, 0x02};

static err_t transmit(struct netif *netif, struct pbuf *p)
{
	uint32_t word = 0, bits = 0;
	const struct pbuf *q;

	LWIP_UNUSED_ARG(netif);
	if (p->tot_len < ETH_PAD_SIZE + ETH_HLEN)
		return ERR_VAL;
	/* Byte by byte at the seams of a chain, by words inside. */
	for (q = p; q != NULL; q = q->next) {
		const uint8_t *b = q->payload;
		uint32_t i = 0, v;

		if (q == p) {
			word = (uint32_t)(p->tot_len - ETH_PAD_SIZE - ETH_HLEN);
			bits = 16;
			i = ETH_PAD_SIZE;
		}
		while (i < q->len) {
			if (bits == 0 && q->len - i >= 4) {
				memcpy(&v, b + i, 4);
				MAC_DATA = v;
				i += 4;
				continue;
			}
			word |= (uint32_t)b[i++] << bits;
			bits += 8;
			if (bits == 32) {
				MAC_DATA = word;
				word = bits = 0;
			}
		}
	}
	if (bits)
		MAC_DATA = word;
	MAC_TR = 1;
	return ERR_OK;
}

err_t ethernet_init(struct netif *netif)
{
	netif->name[0] = 'e';
	netif->name[1] = 'n';
	netif->output = etharp_output;
	netif->output_ip6 = ethip6_output;
	netif->linkoutput = transmit;
	netif->mtu = 1500;
	netif->hwaddr_len = sizeof(mac);
	memcpy(netif->hwaddr, mac, sizeof(mac));
	netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
		       NETIF_FLAG_LINK_UP | NETIF_FLAG_MLD6;
	MAC_IA0 = mac[0] | mac[1] << 8 | mac[2] << 16 | (uint32_t)mac[3] << 24;
	MAC_IA1 = mac[4] | (uint32_t)mac[5] << 8;
	MAC_RCTL = RCTL_RSTFIFO;
	MAC_THR = THR_NEVER;
	MAC_TCTL = TCTL_TXEN | TCTL_PADEN | TCTL_CRC | TCTL_DUPLEX;
	MAC_RCTL = RCTL_RXEN | RCTL_AMUL;
	MAC_IM = INT_RX;
	return ERR_OK;
}

int ethernet_pending(void)
{
	return MAC_NP != 0;
}

/* Reads and discards `words` words. */
static void skip(uint32_t words)
{
	while (words--)
		(void)MAC_DATA;
}

static struct pbuf *receive(void)
{
	uint32_t first = MAC_DATA, len = first & 0xffff, words = (len + 3) / 4 - 1, i;
	uint32_t frame_len = len - LENGTH_LEN - CRC_LEN;
	struct pbuf *p;
	uint32_t *to;

	MAC_IACK = INT_RX;
	if (len < LENGTH_LEN + CRC_LEN + ETH_HLEN || frame_len > 1514) {
		skip(words);
		return NULL;
	}
	/* The pool's pbufs hold a whole frame with its padding and CRC. */
	p = pbuf_alloc(PBUF_RAW, (u16_t)(words * 4 + 4), PBUF_POOL);
	if (p == NULL) {
		skip(words);
		LINK_STATS_INC(link.memerr);
		return NULL;
	}
	LWIP_ASSERT("a frame fits one pbuf", p->next == NULL);
	to = p->payload;
	*to++ = first;
	for (i = 0; i < words; i++)
		*to++ = MAC_DATA;
	pbuf_realloc(p, (u16_t)(ETH_PAD_SIZE + frame_len));
	LINK_STATS_INC(link.recv);
	return p;
}

int ethernet_poll(struct netif *netif, int budget)
{
	int n = 0;

	while (n < budget && MAC_NP) {
		struct pbuf *p = receive();

		n++;
		if (p != NULL && netif->input(p, netif) != ERR_OK)
			pbuf_free(p);
	}
	return n;
}
