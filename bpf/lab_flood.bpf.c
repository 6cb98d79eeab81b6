/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The lab's flood generator and its far ends.
 *
 * tg_lab_flood is run by BPF_PROG_TEST_RUN with live frames on a veth that the lab made itself;
 * each run writes one SYN (or bare RST, or ACK) and returns XDP_TX. The kernel recycles frames with
 * whatever the receiver wrote into them, so every byte, the length and both checksums are rewritten
 * each time.
 *
 * tg_lab_sink and tg_lab_drop end frames: the first takes the answers to spoofed sources, the
 * second calibrates the cost of generation. tg_lab_pass stands where clients receive, tg_lab_door
 * where clients and the sink are behind one port; tg_lab_client reads for the clients.
 *
 * Never loaded by `tidegate run`; never attached to an interface that the lab
 * did not make.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../core/splitmix.h"

#include "lab_syn.h"

/* Written by the one thread that runs the flood, read by it between batches. */
__u64 flood_state;
__u64 flood_frames;

/*
 * A paced flood: frames are due flood_gap_ns after one another, the next at flood_next_ns
 * by the monotonic clock. The program waits for that, a moment at a time, so that no burst is longer than one
 * batch of the kernel's. Gap 0: as fast as it goes.
 */
__u64 flood_gap_ns;
__u64 flood_next_ns;

/* What came to the door for the flood's sources: by the processor that received it. */
enum tg_sunk { SUNK_FRAMES, SUNK_SYNACKS, SUNK_COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SUNK_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} sink_frames SEC(".maps");

/*
 * What came for clients goes to the generator's processor, whichever processor runs the door: tg_lab_client
 * reads it there. Its size is set when it is loaded.
 */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} client_cpu SEC(".maps");

volatile const __u32 client_cpu_id;

/* The clients' addresses; all else that comes to the door is an answer to the flood. */
struct tg_door_cfg {
	__u32 ip4_net_be;
	__u32 ip4_mask_be;
	__u32 ip6_net_be[2]; /* the upper half of an IPv6 address */
};

volatile const struct tg_door_cfg door_cfg = {};

#include "lab_client.h"
#include "lab_client_frame.h"

enum tg_lab_next { NEXT_NOTHING, NEXT_FLOOD, NEXT_CLIENT };

#include "lab_queue.h"

/* Ends a wait. */
static __u64 wait_until_ns;

static long is_over(__u32 i, void *ctx)
{
	return bpf_ktime_get_ns() >= wait_until_ns;
}

/* A wait's end. Softirqs wait as long, for each frame of a batch. */
#define WAIT_NS 5000
#define WAIT_LOOKS_MAX 1024
/*
 * The most frames that a generator which fell behind makes up for, at full speed: a quarter of a
 * veth's ring, so that a pause of the generator's fills no queue.
 */
#define DEBT_FRAMES 64
/* How long to wait for room in the ring: less than the victim needs for RING_SLACK frames. */
#define FULL_WAIT_NS 1000
/* At full speed the clients' clock is looked at once in so many frames; a power of two. */
#define CLOCK_EVERY 16

/* While frames wait, the clock is read once in so many frames; a power of two. */
#define QUEUE_CLOCK_EVERY 8
/* The most frames of the flood that enter the queue at one reading of the clock. */
#define ARRIVALS_MAX 32

/* Waits for a moment, at most until then. */
static __always_inline void wait_until(__u64 now, __u64 then)
{
	wait_until_ns = then - now < WAIT_NS ? then : now + WAIT_NS;
	bpf_loop(WAIT_LOOKS_MAX, is_over, NULL, 0);
}

/* A generator that fell behind makes up for no more than this. */
static __always_inline void forgive_debt(__u64 now)
{
	__u64 debt_ns = (DEBT_FRAMES + queue_max / 16) * flood_gap_ns;

	if (now > flood_next_ns && now - flood_next_ns > debt_ns)
		flood_next_ns = now - debt_ns;
}

#define OWN_DELAY_NS 1000000
static __u64 ring_full_ns; /* when the ring was last seen full */

/*
 * What is due enters the queue. If half the queue waits although the ring has had room for OWN_DELAY_NS,
 * frames wait for the generator and not for the victim: the generator then offers only what it can send.
 */
static __always_inline void queue_arrivals(__u64 now, int room)
{
	__u32 item = 0;

	forgive_debt(now);
	if (!room)
		ring_full_ns = now;
	else if (queue_in - queue_out >= queue_max / 2 && now - ring_full_ns > OWN_DELAY_NS &&
		 now > flood_next_ns)
		flood_next_ns = now + 1;
	for (int i = 0; i < ARRIVALS_MAX && now >= flood_next_ns; i++) {
		flood_next_ns += flood_gap_ns;
		flood_arrives();
	}
	if (!client_cfg.sources)
		return;
	if (client_head != client_tail) {
		client_arrives(client_queue[client_head & (CLIENT_QUEUE - 1)]);
		client_head++;
	}
	if (client_work(now, &item))
		client_arrives(item);
}

/* What goes from the queue into the ring now. */
static __always_inline enum tg_lab_next next_queued(struct xdp_md *ctx, __u32 *item)
{
	int room = ring_has_room(ctx);
	__u64 now;

	if (!room || queue_in == queue_out || ++client_looks % QUEUE_CLOCK_EVERY == 0) {
		now = bpf_ktime_get_ns();
		queue_arrivals(now, room);
		if (!room)
			wait_until(now, now + FULL_WAIT_NS);
		else if (queue_in == queue_out && client_head == client_tail)
			wait_until(now, flood_next_ns);
	}
	return room && queue_in != queue_out ? queue_leave(item) : NEXT_NOTHING;
}

/* What goes out now; after a moment nothing, if nothing is due. */
static __always_inline enum tg_lab_next next_frame(__u32 *item)
{
	__u64 now;

	if (client_cfg.sources && client_head != client_tail) {
		*item = client_queue[client_head & (CLIENT_QUEUE - 1)];
		client_head++;
		return NEXT_CLIENT;
	}
	if (!flood_gap_ns && (!client_cfg.sources || ++client_looks % CLOCK_EVERY))
		return NEXT_FLOOD;
	now = bpf_ktime_get_ns();
	if (client_cfg.sources && client_work(now, item))
		return NEXT_CLIENT;
	if (!flood_gap_ns)
		return NEXT_FLOOD;
	if (now < flood_next_ns) {
		wait_until(now, flood_next_ns);
		now = bpf_ktime_get_ns();
		if (now < flood_next_ns)
			return NEXT_NOTHING;
	}
	forgive_debt(now);
	flood_next_ns += flood_gap_ns;
	return NEXT_FLOOD;
}

static __always_inline int send_flood(struct xdp_md *ctx)
{
	uint64_t state = flood_state;
	enum tg_lab_kind kind = pick_kind(tg_splitmix(&state));
	int want = ETH_LEN + (flood_cfg.ipv6 ? IP6_LEN : IP4_LEN) + TCP_LEN + (int)opt_len(kind);
	int have = (int)(ctx->data_end - ctx->data);
	void *data, *end;
	int err;

	if (want != have && bpf_xdp_adjust_tail(ctx, want - have))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	/* One call for each kind: the lengths become constants. */
	switch (kind) {
	case KIND_LINUX:
		err = write_syn(data, end, KIND_LINUX, &state);
		break;
	case KIND_MACOS:
		err = write_syn(data, end, KIND_MACOS, &state);
		break;
	case KIND_WINDOWS:
		err = write_syn(data, end, KIND_WINDOWS, &state);
		break;
	case KIND_ODD:
		err = write_syn(data, end, KIND_ODD, &state);
		break;
	case KIND_DATA:
		err = write_syn(data, end, KIND_DATA, &state);
		break;
	case KIND_MANY:
		err = write_syn(data, end, KIND_MANY, &state);
		break;
	case KIND_STAMPS:
		err = write_syn(data, end, KIND_STAMPS, &state);
		break;
	case KIND_STAMPS_FIRST:
		err = write_syn(data, end, KIND_STAMPS_FIRST, &state);
		break;
	default:
		err = write_syn(data, end, KIND_BARE, &state);
	}
	flood_state = state;
	if (err)
		return XDP_ABORTED;
	flood_frames++;
	return XDP_TX;
}

SEC("xdp")
int tg_lab_flood(struct xdp_md *ctx)
{
	__u32 net6_be[2] = {door_cfg.ip6_net_be[0], door_cfg.ip6_net_be[1]}, item = 0;

	switch (queue_max && flood_gap_ns ? next_queued(ctx, &item) : next_frame(&item)) {
	case NEXT_CLIENT:
		return send_client(ctx, item, door_cfg.ip4_net_be, net6_be);
	case NEXT_FLOOD:
		return send_flood(ctx);
	default:
		return XDP_DROP;
	}
}

static __always_inline void sunk(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&sink_frames, &what);

	if (n)
		(*n)++;
}

SEC("xdp")
int tg_lab_sink(struct xdp_md *ctx)
{
	sunk(SUNK_FRAMES);
	return XDP_DROP;
}

SEC("xdp")
int tg_lab_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* Counts a SYN-ACK, by the flags at this offset. */
static __always_inline void count_answer(void *data, void *end, __u32 flags)
{
	const __u8 *at = data + flags;

	if (data + flags + 1 <= end && *at == (TCP_FLAG_SYN | TCP_FLAG_ACK))
		sunk(SUNK_SYNACKS);
}

/*
 * A frame for a client: inside the flood, or with a socket, whose port is another. Sockets take it from here, for only a
 * socket buffer knows that its checksum is still to be written.
 */
static __always_inline int to_client(void *data, void *end, __u32 tcp)
{
	const __u16 *port_be = data + tcp + 2;

	if (data + tcp + 4 > end || !client_cfg.sources ||
	    bpf_ntohs(*port_be) - CLIENT_PORT_FIRST >= CLIENT_CONNS)
		return XDP_PASS;
	return bpf_redirect_map(&client_cpu, client_cpu_id, XDP_PASS);
}

SEC("xdp")
int tg_lab_door(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u16 *type = data + 12;
	const __u32 *ip = data + ETH_LEN;

	if (data + ETH_LEN + IP4_LEN > end)
		return XDP_PASS;
	if (*type == bpf_htons(ETHERTYPE_IP4)) {
		if ((ip[4] & door_cfg.ip4_mask_be) == door_cfg.ip4_net_be)
			return to_client(data, end, ETH_LEN + IP4_LEN);
		count_answer(data, end, ETH_LEN + IP4_LEN + TCP_FLAGS_AT);
	} else if (*type == bpf_htons(ETHERTYPE_IP6)) {
		if (data + ETH_LEN + IP6_LEN > end)
			return XDP_PASS;
		if (ip[6] == door_cfg.ip6_net_be[0] && ip[7] == door_cfg.ip6_net_be[1])
			return to_client(data, end, ETH_LEN + IP6_LEN);
		count_answer(data, end, ETH_LEN + IP6_LEN + TCP_FLAGS_AT);
	} else {
		return XDP_PASS;
	}
	return tg_lab_sink(ctx);
}

/* On the generator's processor, with softirqs off: reads what came for a client inside the flood. */
SEC("xdp/cpumap")
int tg_lab_client(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u16 *type = data + 12;
	int read;

	if (data + ETH_LEN > end)
		return XDP_PASS;
	read = *type == bpf_htons(ETHERTYPE_IP4) ? client_receive4(ctx, door_cfg.ip4_net_be)
						 : client_receive6(ctx);
	return read ? XDP_DROP : XDP_PASS;
}

/* At the clients' end: makes veth deliver what XDP_TX sends there. */
SEC("xdp")
int tg_lab_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
