/* SPDX-License-Identifier: Apache-2.0
 *
 * What the native tests of core/ share. Tests are cmocka's; each file gives one
 * group, main.c runs them all under AddressSanitizer and UBSan.
 */
#ifndef TG_TEST_H
#define TG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../host.h"
#include "../splitmix.h" /* so that a failure repeats */
#include "../live_sockets.h"
#include "../tuple_filter.h"

int tg_test_hash(void);
int tg_test_checksum(void);
int tg_test_cookie(void);
int tg_test_figures(const char *doc_path);
int tg_test_options(void);
int tg_test_packet(void);
int tg_test_synack(void);
int tg_test_fast_segment(void);
int tg_test_fast_syn(void);
int tg_test_filter(void);
int tg_test_filter_bits(void);
int tg_test_translate(void);
int tg_test_near_flow(void);
int tg_test_syn_cache_front(void);
int tg_test_proxy(void);
int tg_test_share(void);
int tg_test_challenge(void);
int tg_test_bloom(void);
int tg_test_listener(void);
int tg_test_closed_port(void);
int tg_test_reply(void);
int tg_test_edge(void);
int tg_test_patrol(void);
int tg_test_syn_cache(void);
int tg_test_security(void);
int tg_test_tag(void);
int tg_test_server_flow(void);
int tg_test_split(void);
int tg_test_source_limit(void);

static inline uint32_t tg_test_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One's-complement sum of big-endian words, carried at once. */
static inline uint16_t tg_test_sum16(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0, i;

	for (i = 0; i < len; i++) {
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

/* A heap copy of exactly `len` bytes: the sanitizer reports an access one byte past it. */
static inline uint8_t *tg_test_exact(const void *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	if (len)
		memcpy(copy, data, len);
	return copy;
}

#endif
