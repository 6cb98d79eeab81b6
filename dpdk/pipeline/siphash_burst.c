/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses among the variants of siphash_burst.h by the CPU's features.
 */
#include "siphash_burst.h"

#include <string.h>

static bool always(void)
{
	return true;
}

#ifdef __x86_64__
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}
#endif

const struct tg_siphash_variant tg_siphash_variants[] = {
#ifdef __x86_64__
	{"avx512", tg_siphash_burst_avx512, has_avx512},
	{"avx2", tg_siphash_burst_avx2, has_avx2},
#endif
	{"scalar", tg_siphash_burst_scalar, always},
	{0},
};

const struct tg_siphash_variant *tg_siphash_choose(const char *name)
{
	const struct tg_siphash_variant *w;

	for (w = tg_siphash_variants; w->name; w++)
		if ((!name || strcmp(name, w->name) == 0) && w->works())
			return w;
	return NULL;
}
