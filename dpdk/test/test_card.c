/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network card says of checksums: which it is asked to check, that it is believed, and that what it has not checked is
 * computed, of one frame and of many at once.
 */
#include "card_checks.h"
#include "intact.h"
#include "talk.h"
#include "tests.h"

#define BURST 32

static void asked(void)
{
	const uint64_t ip = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, tcp = RTE_ETH_RX_OFFLOAD_TCP_CKSUM;

	CHECK_EQ(tg_card_checks("mlx5_pci", "pci", ~0ULL), ip | tcp, "a card");
	CHECK_EQ(tg_card_checks("net_ixgbe", "pci", ip), 0, "one that checks only a part");
	CHECK_EQ(tg_card_checks("net_netvsc", "vmbus", ip | tcp), ip | tcp, "a host's card");
	CHECK_EQ(tg_card_checks("net_virtio", "pci", ~0ULL), 0, "virtio");
	CHECK_EQ(tg_card_checks("net_tap", "vdev", ~0ULL), 0, "a driver in software");
}

/* What is said of SYNs, and what becomes of those whose TCP checksum is right, and of those whose is not. */
static const struct {
	const char *name;
	uint64_t says;
	uint8_t family;
	bool right_answered, wrong_answered;
} cases[] = {
	{"nothing, IPv4", 0, 4, true, false},
	{"nothing, IPv6", 0, 6, true, false},
	{"both are good, IPv4", TG_NIC_SAYS_GOOD, 4, true, true},
	{"both are good, IPv6", TG_NIC_SAYS_GOOD, 6, true, true},
	{"TCP's is good, IPv6", RTE_MBUF_F_RX_L4_CKSUM_GOOD, 6, true, true},
	{"IP's is good", RTE_MBUF_F_RX_IP_CKSUM_GOOD, 4, true, false},
	{"TCP's is bad, IPv4", RTE_MBUF_F_RX_L4_CKSUM_BAD | RTE_MBUF_F_RX_IP_CKSUM_GOOD, 4, false,
	 false},
	{"TCP's is bad, IPv6", RTE_MBUF_F_RX_L4_CKSUM_BAD, 6, false, false},
	{"IP's is bad", RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_BAD, 4, false, false},
};

/* Sends `n` SYNs; how many were answered. `fast`: how many of them by fast paths. */
static uint32_t answered(test_pipeline *p, uint32_t at, bool wrong, uint32_t n, uint32_t *fast)
{
	struct harness *h = harness_new(NULL, 255, 1024);
	uint8_t f[TALK_FRAME_MAX];
	struct rte_mbuf *m[BURST];
	uint32_t i, len, count;

	talk_services(h);
	h->w->burst = p;
	for (i = 0; i < n; i++) {
		struct talk t = {.family = cases[at].family,
				 .ts = true,
				 .port = 80,
				 .number = i + 1,
				 .client_isn = i * 7919};

		len = talk_syn(f, &t);
		if (wrong)
			f[len - 1] ^= 0x40; /* of the last option */
		m[i] = harness_roomy(h, f, len);
		m[i]->ol_flags |= cases[at].says;
	}
	harness_burst(h, m, n, 0);
	*fast = (uint32_t)h->w->fast.syns;
	count = (uint32_t)harness_count(h, 1, TG_COUNT_cookie_sent);
	CHECK_EQ(harness_count(h, 1, TG_COUNT_drop_checksum), n - count, cases[at].name);
	harness_free(h);
	return count;
}

static void each_case(test_pipeline *p, const char *name, uint32_t wide)
{
	static const uint32_t counts[] = {1, BURST};
	uint32_t at, k, n, got, fast;

	(void)wide;
	for (at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
		for (k = 0; k < 2; k++) {
			n = counts[k];
			got = answered(p, at, false, n, &fast);
			CHECK(got == (cases[at].right_answered ? n : 0) && (!got || fast == n),
			      "%s, the card says: %s; of %u intact SYNs %u are answered, %u looked "
			      "at by a fast path",
			      name, cases[at].name, n, got, fast);
			got = answered(p, at, true, n, &fast);
			CHECK(got == (cases[at].wrong_answered ? n : 0),
			      "%s, the card says: %s; of %u broken SYNs %u are answered", name,
			      cases[at].name, n, got);
		}
	}
}

void test_card(void)
{
	asked();
	test_each_pipeline(each_case);
}
