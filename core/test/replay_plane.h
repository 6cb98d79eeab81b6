/* SPDX-License-Identifier: Apache-2.0
 *
 * A plane without a kernel: arrays instead of maps, time and sockets as set by commands. It
 * makes the same calls into core/ as bpf/host_xdp.bpf.c and bpf/host_tc.bpf.c, on their slow path alone, so that
 * the golden vectors can be replayed natively, under the sanitizers, and random frames be compared.
 */
#ifndef TG_TEST_REPLAY_PLANE_H
#define TG_TEST_REPLAY_PLANE_H

#include "../host.h"
#include "../signed.h"
#include "../tag.h"
#include "../tuple_filter.h"

#define KEY_SLOTS 16
#define PREFIXES_MAX 256
#define PREFIX_LENS_MAX 8
#define NOW_NS 1000000000000ULL /* allowances: time stands still */

enum socket_state { SOCKET_NONE, SOCKET_LISTENER, SOCKET_ESTABLISHED, SOCKET_TIME_WAIT };

struct prefix {
	struct tg_prefix_key key;
	uint32_t id;
};

struct plane {
	uint64_t epoch;
	uint32_t stale_keys;
	bool filter_maybe;
	enum socket_state socket;
	struct tg_epoch_key keys[KEY_SLOTS];
	struct tg_tag_epoch tags[KEY_SLOTS];
	struct tg_service services[TG_SERVICES_MAX + 1];
	struct tg_allowance allowances[TG_SERVICES_MAX + 1];
	uint32_t ports[65536];
	uint32_t lens[2][PREFIX_LENS_MAX], lens_count[2];
	struct prefix prefixes[PREFIXES_MAX];
	uint32_t prefix_count;
	uint64_t counters[TG_SERVICES_MAX + 1][TG_COUNTERS];
	uint32_t top; /* highest service number in use */
	struct tg_packet adopted; /* the connection that was made, if its family is set */
	struct {
		uint32_t final_check, smart, four_epochs;
		uint32_t ahead; /* epochs that ACKs' clock is ahead by */
		uint32_t tags_stay; /* no driver has taken a VLAN tag out of the frame */
	} host;
};

extern struct plane plane;

void count(uint32_t id, enum tg_counter counter);
uint32_t service_find(const struct tg_packet *pkt);
const struct tg_siphash_key *key_find(uint64_t epoch);
/* What a SYN that would be answered needs besides: a key, options that can be read, and what its service says of signatures. */
struct tg_decision syn_judge_answer(const uint8_t *frame, uint32_t frame_len,
				    const struct tg_packet *syn, uint32_t id,
				    struct tg_tcp_options *offered);
/* False: malformed. */
bool syn_options(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *syn,
		 struct tg_tcp_options *offered);
enum tg_intact intact(const uint8_t *frame, const struct tg_packet *pkt);
bool cookie_is_ours(const struct tg_packet *pkt, const struct tg_ack *ack, uint64_t epoch,
		    bool smart);
/* As tg_timestamps_at: those of `len` bytes of options at `at`, if they end before `end`. */
bool timestamps_at(const uint8_t *at, uint32_t len, const uint8_t *end, struct tg_tcp_options *o);
/* Writes the SYN-ACK with a cookie, in whichever layout, over the SYN in `frame`, which has room for it; its length. */
uint32_t answer_write(uint8_t *frame, const struct tg_packet *syn, const struct tg_service *svc,
		      const struct tg_tcp_options *offered, bool smart);
bool ack_read(const uint8_t *frame, uint32_t frame_len, const struct tg_packet *pkt,
	      struct tg_ack *ack);
/* What condemns a frame whatever its destination: true if it is dropped. Counted. */
bool is_condemned(enum tg_parse_result parsed);

/* A frame as the XDP program sees it, `len` bytes. False: it goes on to the TC program. What becomes
 * of it is printed. */
bool replay_xdp(const uint8_t *frame, uint32_t len);
void replay_tc(const uint8_t *frame, uint32_t len);

/* Exactly as many bytes as the frame has, so that the sanitizer sees one too many. */
uint8_t *copy_of(const uint8_t *data, uint32_t len);

#endif
