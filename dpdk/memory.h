/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for the tables: whole pages from the kernel, zeroed, large ones where it
 * has them, so that it is the same with huge pages given to DPDK and without.
 *
 * Must never: be called for a packet.
 */
#ifndef TG_DPDK_MEMORY_H
#define TG_DPDK_MEMORY_H

#include <stddef.h>
#include <sys/mman.h>

/* NULL if there is none. Pages that are never touched cost nothing. */
static inline void *tg_pages_get(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, len, MADV_HUGEPAGE); /* a kernel without them says no */
	return p;
}

static inline void tg_pages_put(void *p, size_t len)
{
	if (p)
		(void)munmap(p, len);
}

/* Makes all of it zero again by giving the pages back. */
static inline void tg_pages_clear(void *p, size_t len)
{
	(void)madvise(p, len, MADV_DONTNEED);
}

#endif
