/* SPDX-License-Identifier: Apache-2.0
 *
 * Allow and deny lists (core/source_list.h): the table that `tidegate run` has made of them, read
 * from a file. Nothing of it is ever changed; new lists are a new table.
 */
#ifndef TG_DPDK_SOURCE_TABLE_H
#define TG_DPDK_SOURCE_TABLE_H

#include <stdint.h>

struct tg_source_table;

typedef const struct tg_source_table *tg_list_table;

struct tg_source_table {
	uint32_t users; /* configurations that hold it; only the control thread uses it */
	uint32_t n; /* blocks */
	struct tg_list_block *blocks;
};

#define TG_LIST_BLOCK(table, at) ((at) < (table)->n ? &(table)->blocks[at] : NULL)
#include "../core/source_list.h"

/* NULL and `*why` if the file is no table, cannot be read, or there is no memory. */
struct tg_source_table *tg_source_table_read(const char *path, const char **why);
void tg_source_table_release(struct tg_source_table *t);

/* What the lists say of an address. */
enum tg_listed tg_source_table_says(const struct tg_source_table *t, uint8_t family,
				    const union tg_addr *addr);

#endif
