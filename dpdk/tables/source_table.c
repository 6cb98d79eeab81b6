/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the table of the lists, and the look-up, which is not inline: most frames need none.
 */
#include "source_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

#define BLOCKS_MAX (1U << 23) /* as internal/sourcelist makes them: 512 MiB */

static bool read_all(int fd, void *to, size_t len)
{
	uint8_t *at = to;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* Of an open file; NULL and `*why`. */
static struct tg_source_table *table_of(int fd, const char **why)
{
	struct tg_source_table *t;
	struct stat s;

	*why = "the file is no table of lists; let `tidegate run` write it";
	if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_size <= 0 ||
	    s.st_size % (off_t)sizeof(struct tg_list_block) ||
	    s.st_size / (off_t)sizeof(struct tg_list_block) > BLOCKS_MAX)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->n = (uint32_t)((size_t)s.st_size / sizeof(struct tg_list_block));
		t->blocks = tg_pages_get((size_t)s.st_size);
	}
	if (!t || !t->blocks || !tg_pages_populate(t->blocks, (size_t)s.st_size)) {
		*why = "out of memory; shorten the lists";
		tg_source_table_release(t);
		return NULL;
	}
	t->users = 1;
	if (!read_all(fd, t->blocks, (size_t)s.st_size) ||
	    t->blocks->word[TG_LIST_AT_MAGIC] != TG_LIST_MAGIC) {
		tg_source_table_release(t);
		return NULL;
	}
	return t;
}

struct tg_source_table *tg_source_table_read(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct tg_source_table *t;

	if (fd < 0) {
		*why = strerror(errno);
		return NULL;
	}
	t = table_of(fd, why);
	close(fd);
	return t;
}

void tg_source_table_release(struct tg_source_table *t)
{
	if (!t || (t->users && --t->users))
		return;
	tg_pages_put(t->blocks, (size_t)t->n * sizeof(struct tg_list_block));
	free(t);
}

enum tg_listed tg_source_table_says(const struct tg_source_table *t, uint8_t family,
				    const union tg_addr *addr)
{
	return (enum tg_listed)TG_LIST_KIND(tg_list_find(t, family, addr, false));
}
