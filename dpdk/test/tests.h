/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the test program; check.h counts for all of them.
 */
#ifndef TG_TEST_TESTS_H
#define TG_TEST_TESTS_H

#include "../../core/test/check.h"
#include "harness.h"

void test_hash(void);
void test_rss(void);
void test_tables(void);
void test_crowd(void);
void test_bursts(void);
void test_fast(void);
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

#endif
