/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the figures of docs/cookie-format.md from the constants of the code and
 * looks them up there: a layout that changes makes the document fail.
 */
#include "test.h"

#define EPOCH_DEFAULT_S 8 /* internal/config: the default epoch length */

static char *doc;

static void must_say(const char *line)
{
	if (!strstr(doc, line))
		fail_msg("docs/cookie-format.md does not say: %s", line);
}

/* 4194304 -> 4,194,304 */
static const char *with_commas(uint64_t n)
{
	static char text[32];
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i, at = 0;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}

/* The mean time until one forgery succeeds, in the most readable unit. */
static void mean_time(char *text, size_t size, double seconds)
{
	if (seconds < 600)
		snprintf(text, size, "%.1f s", seconds);
	else if (seconds < 7200)
		snprintf(text, size, "%.0f min", seconds / 60);
	else if (seconds < 72 * 3600)
		snprintf(text, size, "%.0f h", seconds / 3600);
	else if (seconds < 365.25 * 86400)
		snprintf(text, size, "%.0f days", seconds / 86400);
	else
		snprintf(text, size, "%.0f years", seconds / (365.25 * 86400));
}

static void forging(void **state)
{
	static const uint64_t rates[] = {10000, 100000, 1000000, 10000000, 148809523};
	char line[200], plain[64], ts[64], rate[32];
	unsigned plain_bits = TG_COOKIE_PLAIN_MAC_BITS;
	unsigned ts_bits = TG_COOKIE_TS_ISN_MAC_BITS + TG_COOKIE_TS_VAL_MAC_BITS;
	int i;

	(void)state;
	snprintf(line, sizeof(line), "| plain | %u | 2^-%u = 1 in %s |", plain_bits, plain_bits,
		 with_commas(1ULL << plain_bits));
	must_say(line);
	snprintf(line, sizeof(line), "| timestamp | %u | 2^-%u = 1 in %s |", ts_bits, ts_bits,
		 with_commas(1ULL << ts_bits));
	must_say(line);
	for (i = 0; i < 5; i++) {
		double per_s = (double)rates[i];

		mean_time(plain, sizeof(plain), (double)(1ULL << plain_bits) / per_s);
		mean_time(ts, sizeof(ts), (double)(1ULL << ts_bits) / per_s);
		snprintf(rate, sizeof(rate), "%s", with_commas(rates[i]));
		snprintf(line, sizeof(line), "| %s | %.4f | %s | %.2g | %s |", rate,
			 per_s / (double)(1ULL << plain_bits), plain,
			 per_s / (double)(1ULL << ts_bits), ts);
		must_say(line);
	}
}

/* A cookie's lifetime, measured with the code in milliseconds, not by formula. */
static void replay_window(void **state)
{
	const uint64_t len_ms = EPOCH_DEFAULT_S * 1000, start = 1000 * len_ms;
	uint64_t made, now, shortest = UINT64_MAX, longest = 0;
	char line[160];

	(void)state;
	for (made = start; made < start + len_ms; made++) {
		uint32_t isn = (uint32_t)(made / len_ms & 1) << 31;

		/* jump to the end of the window by whole epochs, then test its edge */
		for (now = made; tg_cookie_epoch(isn, now / len_ms) == made / len_ms;)
			now = (now / len_ms + 1) * len_ms;
		shortest = now - made < shortest ? now - made : shortest;
		longest = now - made > longest ? now - made : longest;
	}
	assert_true(shortest == len_ms + 1); /* made in the last millisecond */
	assert_true(longest == 2 * len_ms);
	snprintf(line, sizeof(line), "at least %llu s and at most %llu s",
		 (unsigned long long)shortest / 1000, (unsigned long long)longest / 1000);
	must_say(line);
}

static void mss_table(void **state)
{
	char line[160];
	uint32_t i;

	(void)state;
	for (i = 0; i < 8; i++) {
		snprintf(line, sizeof(line), "| %u | %u | %u |", i, tg_mss_value(4, i),
			 tg_mss_value(6, i));
		must_say(line);
	}
}

static void layouts(void **state)
{
	char line[160];

	(void)state;
	snprintf(line, sizeof(line), "P 1 + MSS 3 + wscale 4 + SACK 1 + ECN 1 + MAC %d = 32",
		 TG_COOKIE_PLAIN_MAC_BITS);
	must_say(line);
	snprintf(line, sizeof(line), "ISN: P 1 + MAC %d = 32", TG_COOKIE_TS_ISN_MAC_BITS);
	must_say(line);
	snprintf(line, sizeof(line), "TSval: MSS 16 + wscale 4 + SACK 1 + ECN 1 + MAC %d = 32",
		 TG_COOKIE_TS_VAL_MAC_BITS);
	must_say(line);
}

/* An empty document must fail: must_say is not a no-op. */
static void canary_wrong_figure_is_missed(void **state)
{
	(void)state;
	assert_null(strstr(doc, "| plain | 23 |"));
	assert_null(strstr(doc, "2^-23"));
}

int tg_test_figures(const char *doc_path)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forging),
		cmocka_unit_test(replay_window),
		cmocka_unit_test(mss_table),
		cmocka_unit_test(layouts),
		cmocka_unit_test(canary_wrong_figure_is_missed),
	};
	FILE *f = fopen(doc_path, "r");
	size_t len;
	int failed;

	doc = calloc(1, 1 << 16);
	if (!f || !doc) {
		fprintf(stderr, "cannot read %s\n", doc_path);
		return 1;
	}
	len = fread(doc, 1, (1 << 16) - 1, f);
	fclose(f);
	doc[len] = 0;
	failed = cmocka_run_group_tests_name("figures of docs/cookie-format.md", tests, NULL, NULL);
	free(doc);
	return failed;
}
