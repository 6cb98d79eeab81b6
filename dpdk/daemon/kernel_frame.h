/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of an interface of the kernel are not always as a wire has them. A sender on this machine
 * (a container, a virtual machine) may have left the checksum of TCP or UDP to a device: the field
 * then holds only the sum of the pseudo header. DPDK's driver does not pass on the kernel's flag
 * for that, but the field shows it; one in 65,536 right checksums looks the same, and is computed
 * again. And frames longer than the driver's buffers arrive truncated.
 */
#ifndef TG_DPDK_KERNEL_FRAME_H
#define TG_DPDK_KERNEL_FRAME_H

#include "worker.h"

/* Completes a burst of frames; returns how many are left. */
uint32_t tg_kernel_frames(struct tg_worker *w, struct rte_mbuf **m, uint32_t n);

#endif
