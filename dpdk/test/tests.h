/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the test program; check.h counts for all of them.
 */
#ifndef TG_TEST_TESTS_H
#define TG_TEST_TESTS_H

#include "../../core/test/check.h"
#include "harness.h"

typedef void test_pipeline(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port);

/* Calls `each` with each pipeline that runs on this processor, and how many frames it processes at once; 0: one. */
void test_each_pipeline(void (*each)(test_pipeline *p, const char *name, uint32_t wide));

void test_hash(void);
void test_rss(void);
void test_tables(void);
void test_crowd(void);
void test_bursts(void);
void test_fast(void);
void test_flood(void);
void test_flows(void);
void test_store(void);
void test_icmp(void);
void test_router(void);
void test_still(void);
void test_lists(void);
void test_source_limits(void);
void test_automatic(void);
void test_counts(void);
void test_capture(void);
void test_remember(void);
void test_bad(void);
void test_card(void);

#endif
