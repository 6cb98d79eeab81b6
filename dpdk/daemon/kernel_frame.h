/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of an interface of the kernel are not always as a wire has them. Whoever sent
 * them on this very machine (a container, a virtual machine) may have left the checksum of
 * TCP or UDP to a device: the field then holds the sum of the pseudo header alone. DPDK's
 * driver does not hand on the kernel's note of it, but the field says so itself; of a right
 * checksum one in 65,536 looks the same, and is put there again. And what is longer than
 * the driver's buffers arrives cut off.
 */
#ifndef TG_DPDK_KERNEL_FRAME_H
#define TG_DPDK_KERNEL_FRAME_H

#include "worker.h"

/* A burst of them; returns how many are left. */
uint32_t tg_kernel_frames(struct tg_worker *w, struct rte_mbuf **m, uint32_t n);

#endif
