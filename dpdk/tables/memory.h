/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for the tables: whole pages from the kernel, zeroed, large ones where it
 * has them, so that it is the same with huge pages given to DPDK and without.
 *
 * Must never: be called for a packet.
 */
#ifndef TG_DPDK_MEMORY_H
#define TG_DPDK_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define TG_PAGE_LARGE ((size_t)2 << 20)
#define TG_PAGE_SMALL ((size_t)4096)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Memory read for every frame should be in large pages: nothing smaller than
 * a sixteenth of one is worth it. */
static inline size_t tg_pages_len(size_t len)
{
	return len < TG_PAGE_LARGE / 16 ? len : (len + TG_PAGE_LARGE - 1) & ~(TG_PAGE_LARGE - 1);
}

static inline uint8_t *tg_pages_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* NULL without memory. The first touch zeroes a page, which
 * takes up to milliseconds for a large one: call tg_pages_populate before packets arrive. */
static inline void *tg_pages_get(size_t len)
{
	size_t want = tg_pages_len(len), skip;
	uint8_t *p;

	if (want < TG_PAGE_LARGE)
		return tg_pages_map(want);
	p = tg_pages_map(want + TG_PAGE_LARGE);
	if (!p)
		return NULL;
	skip = -(uintptr_t)p & (TG_PAGE_LARGE - 1); /* start at a large page's boundary */
	if (skip)
		(void)munmap(p, skip);
	(void)munmap(p + skip + want, TG_PAGE_LARGE - skip);
	(void)madvise(p + skip, want, MADV_HUGEPAGE); /* fails on a kernel without large pages */
	return p + skip;
}

static inline void tg_pages_put(void *p, size_t len)
{
	if (p)
		(void)munmap(p, tg_pages_len(len));
}

/* Faults in all of it, from the memory nearest to the calling
 * thread; the contents stay. False: there is not enough memory. */
static inline bool tg_pages_populate(void *p, size_t len)
{
	volatile uint8_t *page, *first = (uint8_t *)((uintptr_t)p & ~(TG_PAGE_SMALL - 1));

	len += (uintptr_t)p & (TG_PAGE_SMALL - 1);
	if (madvise((void *)first, len, MADV_POPULATE_WRITE) == 0)
		return true;
	if (errno != EINVAL)
		return false;
	for (page = first; page < first + len; page += TG_PAGE_SMALL) /* Linux before 5.14 */
		*page = *page;
	return true;
}

/* Zeroes all of it by returning the pages to the kernel. */
static inline void tg_pages_clear(void *p, size_t len)
{
	(void)madvise(p, len, MADV_DONTNEED);
}

#endif
