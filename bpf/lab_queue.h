/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The victim's receive queue, as long as a NIC's. A veth's ring has 256 places, fixed in the kernel;
 * NICs have 512 to 4,096 descriptors. A queue of 256 overflows whenever its processor pauses
 * for longer than 256 frames take to arrive: 85 us at 3M frames a second.
 *
 * So the generator keeps the rest of the queue: frames that are due wait here, in order, for as
 * long as the ring is full. A frame that comes when queue_max frames wait is lost, as a NIC loses it
 * when no descriptor is free. A frame of the flood is a number while it waits: only its place
 * matters. One of a client also has its item.
 *
 * Whether the ring has room is read from the kernel (struct veth_priv, Linux 6.18).
 * All that runs on the generator's processor, with softirqs off, so that nothing is locked.
 * Never loaded by `tidegate run`.
 */
#include <bpf/bpf_core_read.h>

struct ptr_ring {
	int producer;
	int size;
	void **queue;
} __attribute__((preserve_access_index));

struct veth_rq {
	struct ptr_ring xdp_ring;
} __attribute__((preserve_access_index));

struct net_device {
	__u8 priv[0];
} __attribute__((preserve_access_index));

struct veth_priv {
	struct net_device *peer;
	struct veth_rq *rq;
} __attribute__((preserve_access_index));

struct xdp_rxq_info {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct xdp_buff {
	struct xdp_rxq_info *rxq;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *) __ksym __weak;

/* Frames that may wait here while the ring is full; 0: frames go to the ring at once. */
volatile const __u32 queue_max;

/* Where the ring is: its producer's index, its slots and their number. */
static __u64 ring_producer, ring_slots;
__u32 ring_size;

__u64 queue_in; /* frames that have ever entered */
__u64 queue_out; /* frames that have ever left */
__u64 queue_lost_flood; /* frames that found it full */
__u64 queue_lost_client;

/* The clients' frames among those that wait, in order. */
#define QUEUE_CLIENTS 4096 /* a power of two */
struct tg_queued {
	__u64 at; /* value of queue_out when it is its turn */
	__u64 item;
};
struct tg_queued queued[QUEUE_CLIENTS];
__u32 queued_head, queued_tail;

/*
 * Places of the ring that stay free; the other RING_USED are part of the queue. Needed are 48: for the frames that are made and not
 * in it yet (the kernel's bulk queue, 16), for those until the next look, and for the consumer's, which frees
 * 16 at a time. The rest bounds the pages that are under way: the kernel takes a page back as long as the pool has
 * room, as many pages as frames in a batch (EVEN_BATCH in Go), and frees and allocates what is above that.
 */
#define RING_SLACK 128
#define RING_LOOK_EVERY 8 /* a power of two */

/* Finds the ring of the port at the other end of the generator's. */
static __always_inline int find_ring(struct xdp_md *ctx)
{
	struct net_device *dev, *peer;
	struct xdp_buff *xdp;
	struct veth_rq *rq;

	if (!bpf_cast_to_kern_ctx)
		return -1;
	xdp = bpf_cast_to_kern_ctx(ctx);
	dev = BPF_CORE_READ(xdp, rxq, dev);
	peer = BPF_CORE_READ(
		(struct veth_priv *)((void *)dev + bpf_core_field_offset(struct net_device, priv)),
		peer);
	rq = BPF_CORE_READ(
		(struct veth_priv *)((void *)peer + bpf_core_field_offset(struct net_device, priv)),
		rq);
	ring_size = BPF_CORE_READ(rq, xdp_ring.size);
	ring_slots = (__u64)BPF_CORE_READ(rq, xdp_ring.queue);
	ring_producer = (__u64)__builtin_preserve_access_index(&rq->xdp_ring.producer);
	return ring_size && ring_slots ? 0 : -1;
}

static __u32 ring_looks;
static __u8 ring_full;

static __always_inline int ring_has_room(struct xdp_md *ctx)
{
	__u64 slot = 0;
	__u32 at = 0;

	if (!ring_full && ++ring_looks % RING_LOOK_EVERY)
		return 1;
	if (!ring_slots && find_ring(ctx))
		return 1;
	bpf_probe_read_kernel(&at, sizeof(at), (void *)ring_producer);
	at += RING_SLACK;
	if (at >= ring_size)
		at -= ring_size;
	bpf_probe_read_kernel(&slot, sizeof(slot), (void *)(ring_slots + 8 * (__u64)at));
	ring_full = slot != 0;
	return !ring_full;
}

static __always_inline void flood_arrives(void)
{
	if (queue_in - queue_out >= queue_max)
		queue_lost_flood++;
	else
		queue_in++;
}

static __always_inline void client_arrives(__u32 item)
{
	struct tg_queued *q = &queued[queued_tail & (QUEUE_CLIENTS - 1)];

	if (queue_in - queue_out >= queue_max || queued_tail - queued_head >= QUEUE_CLIENTS) {
		queue_lost_client++;
		return;
	}
	q->at = queue_in++;
	q->item = item;
	queued_tail++;
}

/* The frame that leaves the queue now. */
static __always_inline enum tg_lab_next queue_leave(__u32 *item)
{
	struct tg_queued *q = &queued[queued_head & (QUEUE_CLIENTS - 1)];

	if (queued_head == queued_tail || q->at != queue_out) {
		queue_out++;
		return NEXT_FLOOD;
	}
	*item = (__u32)q->item;
	queued_head++;
	queue_out++;
	return NEXT_CLIENT;
}
