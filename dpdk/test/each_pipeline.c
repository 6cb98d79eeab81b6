/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipelines of this processor, for tests of what all of them must do alike.
 */
#include "tests.h"

#ifdef __x86_64__
test_pipeline tg_pipeline_burst_v4_emulated;
#endif

void test_each_pipeline(void (*each)(test_pipeline *p, const char *name, uint32_t wide))
{
	each(tg_pipeline_burst_any, "for any CPU", 0);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
		each(tg_pipeline_burst_v3, "x86-64-v3", 4);
		each(tg_pipeline_burst_v4_emulated, "x86-64-v4, emulated", 8);
	}
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
		each(tg_pipeline_burst_v4, "x86-64-v4", 8);
#endif
}
