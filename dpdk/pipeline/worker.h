/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker: everything that one core owns. Its tables are those of tables/, its frames
 * go through pipeline.h.
 *
 * Must never: touch what is another core's.
 */
#ifndef TG_DPDK_WORKER_H
#define TG_DPDK_WORKER_H

#include <rte_mbuf.h>

#include "../core/automatic.h"
#include "../core/closed_port.h"
#include "../core/over_limit.h"
#include "../core/proven.h"
#include "../core/signed.h"
#include "config.h"
#include "fast.h"
#include "flow_table.h"
#include "servers.h"
#include "siphash_burst.h"
#include "store.h"
#include "waiting.h"
#include "whitelist.h"

#define TG_BURST_MAX 128 /* frames */
_Static_assert(TG_BURST_MAX <= TG_LANES_MAX, "a frame asks for at most one hash of a kind");
#define TG_OUT_MAX 256 /* frames that wait to be sent by one port */
#define TG_ICMP_ERRORS_A_SECOND 1000 /* of a core; a fifth of them at once */
#define TG_CLOCK_BEGINS_NS 1000000000000ULL

struct tg_counter_row {
	uint64_t count[TG_COUNTERS];
};

enum tg_todo {
	TG_TODO_OTHER, /* not TCP, or a later fragment */
	TG_TODO_TCP,
	TG_TODO_PARSE, /* the parser has rejected it */
	TG_TODO_GONE,  /* freed already */
};

/* State of one frame of the burst. */
struct tg_item {
	struct rte_mbuf *m;
	struct tg_packet pkt;
	struct tg_synack answer; /* of a SYN that gets a cookie */
	struct tg_ack ack_info;  /* by an ACK that may carry one */
	struct tg_decision d;  /* on a SYN */
	uint64_t flow_hash;  /* of the flow looked up last */
	uint32_t presence;  /* of that flow, tg_presence_flow */
	uint16_t id;   /* of the addressed service; 0: none */
	uint16_t port;   /* it arrived on */
	int16_t cookie_lane;  /* -1: none */
	int16_t flow_lane;
	int16_t half_lane; /* of the SYN cache */
	uint8_t parse; /* enum tg_parse_result */
	uint8_t todo;  /* enum tg_todo */
	uint8_t flow_dir;   /* enum tg_direction of presence and flow_lane; 255: none */
	bool to_service;    /* by port */
	bool from_service;
	bool options_ok;    /* of a SYN or ACK whose options have been read */
	bool partial;     /* its TCP checksum was left to a device */
};

struct tg_out {
	uint32_t n;
	struct rte_mbuf *m[TG_OUT_MAX];
};

/* A port as the pipeline sees it. */
struct tg_port {
	uint8_t mac[6];
	uint32_t max_frame; /* bytes; longer ones are not sent */
	uint32_t mtu;     /* bytes of an IP packet, as the driver says */
};

/* The SYN cache of one core, core/syn_cache.h. */
struct tg_cache {
	struct tg_halfopen_bucket *buckets;
	uint32_t mask; /* buckets - 1 */
	uint32_t next; /* the bucket to check next for SYN-ACKs that are due */
	struct tg_siphash_key key;
};

struct tg_worker {
	/* set from outside between bursts */
	const struct tg_config *config;
	uint32_t now_ms;    /* a coarse clock */
	uint64_t now_ns; /* the same; TG_CLOCK_BEGINS_NS at first, so that an allowance begins full */
	uint64_t epoch;
	const struct tg_siphash_key *key_now; /* NULL: not loaded */
	uint64_t verify_epoch; /* the epoch by which ACKs are verified: ahead of `epoch`, if clocks may differ */
	const struct tg_siphash_key *verify_now, *verify_before;
	/* set once */
	struct tg_siphash_key challenge_key; /* of challenges without a cookie */
	uint64_t presence_salt; /* for presence bits and the whitelist; not used in anything that is sent */
	struct tg_siphash_key ask_key; /* of the numbers of SYNs that ask a server */
	const struct tg_siphash_variant *variant;
	void (*burst)(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port);
	struct rte_mempool *pool;
	struct tg_port ports[TG_PORTS_MAX];
	uint32_t ports_n;
	bool tcp_checksum; /* every port's driver fills TCP checksums in, if asked */
	/* Accepts frames to send; frees or keeps each of them. Returns how many were sent. */
	uint32_t (*transmit)(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n);
	void *owner;

	struct tg_flow_table flows;
	struct tg_whitelist white;
	struct tg_limits *limits; /* of all cores */
	bool own_limits; /* nobody else's */
	struct tg_store store;
	struct tg_waiting waiting; /* of a router */
	struct tg_counter_row *rows; /* by service */
	struct tg_allowance *allowances; /* likewise: this core's shares of signed_rate */
	struct tg_servers servers;
	struct tg_advertised_last { /* what was offered last, and to which server's clients */
		struct tg_server_key server;
		const struct tg_config *config; /* NULL: nothing, or it has changed */
		uint32_t id;
		struct tg_service advertised;
	} advertised;
	struct tg_cache cache;
	struct tg_closed_places { /* where nobody listens, as far as this core knows */
		uint64_t until_ns; /* then none is known */
		struct tg_allowance share;
		struct tg_closed_entry places[TG_CLOSED_SLOTS];
	} closed;
	struct tg_auto_counts { /* of mode auto: automatic.h writes, any thread may read */
		uint64_t key; /* of the sample */
		struct tg_place places[TG_PLACES];
		struct tg_sample samples[TG_SAMPLES];
	} automatic;
	struct tg_over over[TG_OVER_SLOTS]; /* sources above their limit: any thread may read */
	uint32_t icmp_allowed; /* errors that may be sent now */
	uint64_t icmp_errors; /* sent: icmp_error.h */
	struct tg_out out[TG_PORTS_MAX];

	struct tg_item items[TG_BURST_MAX];
	struct tg_siphash_batch cookies4, cookies6, flows4, flows6, halves4, halves6;
	struct tg_fast fast;
	struct tg_capturing *capture; /* NULL: none; capture.h */
	struct tg_proven *proven; /* TG_PROVEN_SLOTS, of this core: any thread may read */
};

struct tg_worker_options {
	uint32_t max_flows, max_sources, max_halfopens;
	bool white_bitmap;
	uint64_t presence_salt, sample_key;
	struct tg_siphash_key challenge_key, table_key, cache_key, ask_key;
	const struct tg_siphash_variant *variant;
	struct rte_mempool *pool;
	struct tg_limits *limits; /* that all cores share; NULL: its own */
};

/* NULL without memory. */
struct tg_worker *tg_worker_new(const struct tg_worker_options *o);
void tg_worker_free(struct tg_worker *w);

/* Faults in all pages that a packet may touch; the core that will forward calls it
 * first. False if there is not enough memory. */
bool tg_worker_populate(struct tg_worker *w);

/* Gives the core its configuration and the time. Call it between bursts, every
 * millisecond or so, and after a change of the configuration. */
void tg_worker_tick(struct tg_worker *w, const struct tg_config *config, uint64_t unix_ns,
		    uint32_t now_ms);

/* Swaps the tables; false: no empty one is ready yet. */
bool tg_worker_swap_flows(struct tg_worker *w);
bool tg_worker_swap_sources(struct tg_worker *w);
/* The other thread's part. */
void tg_worker_clean(struct tg_worker *w);

#endif
