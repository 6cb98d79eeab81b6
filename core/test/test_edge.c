/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge: what it judges, its allowance, and which clocks a verifier agrees with.
 */
#include "test.h"
#include "../edge.h"

static void kinds_and_judgements(void **state)
{
	static const struct {
		uint8_t flags;
		enum tg_edge_kind kind;
		bool may_verify;
		enum tg_counter dropped_as;
	} rows[] = {
		{TG_TCP_SYN, TG_EDGE_SYN, false, TG_COUNTERS},
		{TG_TCP_SYN | TG_TCP_FIN, TG_EDGE_SYN, false, TG_COUNTERS},
		{TG_TCP_SYN | TG_TCP_ACK, TG_EDGE_SYNACK, false, TG_COUNT_drop_synack},
		{TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST, TG_EDGE_SYNACK, false, TG_COUNT_drop_synack},
		{TG_TCP_RST, TG_EDGE_RST, false, TG_COUNT_drop_rst},
		{TG_TCP_RST | TG_TCP_ACK, TG_EDGE_RST, false, TG_COUNT_drop_rst},
		{TG_TCP_FIN, TG_EDGE_FIN, false, TG_COUNT_drop_fin},
		{TG_TCP_FIN | TG_TCP_ACK, TG_EDGE_FIN, true, TG_COUNT_drop_fin},
		{TG_TCP_ACK, TG_EDGE_ACK, true, TG_COUNT_drop_ack},
		{TG_TCP_ACK | TG_TCP_PSH | TG_TCP_ECE | TG_TCP_CWR, TG_EDGE_ACK, true,
		 TG_COUNT_drop_ack},
		{0, TG_EDGE_STRAY, false, TG_COUNT_drop_stray},
		{TG_TCP_PSH | TG_TCP_URG, TG_EDGE_STRAY, false, TG_COUNT_drop_stray},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tg_packet p = {.flags = rows[i].flags};
		enum tg_edge_kind kind = tg_edge_kind(&p);
		struct tg_decision d;

		assert_int_equal(kind, rows[i].kind);
		assert_int_equal(tg_edge_may_verify(&p), rows[i].may_verify);
		if (kind == TG_EDGE_SYN)
			continue;
		d = tg_edge_judge(kind, TG_EDGE_UNKNOWN);
		assert_int_equal(d.verdict, TG_DROP);
		assert_int_equal(d.counter, rows[i].dropped_as);
		assert_int_equal(tg_edge_judge(kind, TG_EDGE_KNOWN).verdict, TG_PASS);
		/* SYN-ACKs and strays are never left to the server */
		d = tg_edge_judge(kind, TG_EDGE_ALLOWED);
		assert_int_equal(d.verdict == TG_PASS,
				 kind != TG_EDGE_SYNACK && kind != TG_EDGE_STRAY);
		d = tg_edge_judge(kind, TG_EDGE_LEARNING);
		assert_int_equal(d.verdict == TG_PASS,
				 kind != TG_EDGE_SYNACK && kind != TG_EDGE_STRAY);
	}
}

/* Which packets may add their own flow to the filter: none that passes within the allowance. */
static void refreshing(void **state)
{
	(void)state;
	assert_true(tg_edge_may_refresh(TG_EDGE_KNOWN));
	assert_true(tg_edge_may_refresh(TG_EDGE_LEARNING));
	assert_true(tg_edge_may_refresh(TG_EDGE_NO_KEY));
	assert_false(tg_edge_may_refresh(TG_EDGE_ALLOWED));
	assert_false(tg_edge_may_refresh(TG_EDGE_UNKNOWN));
	assert_false(tg_edge_may_refresh(TG_EDGE_BROKEN));
	assert_false(tg_edge_may_refresh(TG_EDGE_ROUTED));
}

/* The allowance over ten seconds: as many as it says, plus or minus a tenth of a
 * second's worth, however fast packets arrive and however the clock steps. */
static void allowance(void **state)
{
	static const uint64_t steps_ns[] = {100, 1000, 4000000, 250000000};
	static const uint64_t costs_ns[] = {1000, 100000, 10000000, 500000000};
	size_t s, c;

	(void)state;
	for (s = 0; s < 4; s++)
		for (c = 0; c < 4; c++) {
			struct tg_allowance a = {0};
			uint64_t now, passed = 0, burst, want = 10000000000ULL / costs_ns[c];

			/* one CPU offers a burst at each step of its clock */
			burst = steps_ns[s] / 100 + 2;
			for (now = 1000000000; now < 11000000000ULL;
			     now += steps_ns[s] < 100000 ? 100000 : steps_ns[s]) {
				uint64_t n;

				for (n = 0; n < burst + 100000 / costs_ns[c]; n++)
					passed += tg_allowance_take(&a, costs_ns[c], now);
			}
			if (passed > want + TG_ALLOWANCE_SAVED_NS / costs_ns[c] + 1)
				fail_msg("step %llu cost %llu: %llu passed, %llu are allowed",
					 (unsigned long long)steps_ns[s],
					 (unsigned long long)costs_ns[c],
					 (unsigned long long)passed, (unsigned long long)want);
			if (steps_ns[s] <= TG_ALLOWANCE_SAVED_NS && passed + passed / 10 + 2 < want)
				fail_msg("step %llu cost %llu: only %llu of %llu passed",
					 (unsigned long long)steps_ns[s],
					 (unsigned long long)costs_ns[c],
					 (unsigned long long)passed, (unsigned long long)want);
		}
	for (c = 0; c < 1000; c++) {
		struct tg_allowance a = {0};

		assert_false(tg_allowance_take(&a, TG_ALLOWANCE_NONE, c));
		assert_true(tg_allowance_take(&a, TG_ALLOWANCE_ALL, c));
	}
}

/* True if a verifier with clock `verifier_ns` accepts a cookie made
 * when the maker's clock was `maker_ns`. Keys are not needed: parity decides. */
static bool agrees(uint64_t maker_ns, uint64_t verifier_ns, uint64_t len, uint64_t ahead)
{
	uint64_t made = tg_epoch_at(maker_ns, len);

	return tg_cookie_epoch((uint32_t)(made & 1) << 31,
			       tg_epoch_verifying(verifier_ns, len, ahead)) == made;
}

/* Every skew up to `ahead` either way, every phase, every handshake up to
 * L - 2 ahead: accepted. Beyond, some phase is refused: the bound is tight. */
static void clocks_that_differ(void **state)
{
	const int64_t len = 8000; /* any unit */
	int64_t ahead, skew, phase, h;

	(void)state;
	for (ahead = 0; ahead <= len / 2; ahead += 500)
		for (skew = -ahead; skew <= ahead; skew += 250)
			for (phase = 0; phase < len; phase += 50) {
				int64_t maker = 1000 * len + phase;

				for (h = 0; h <= len - 2 * ahead; h += 50)
					assert_true(agrees((uint64_t)maker,
							   (uint64_t)(maker + skew + h),
							   (uint64_t)len, (uint64_t)ahead));
			}
	for (ahead = 0; ahead <= len / 2; ahead += 500) {
		/* behind by more than `ahead`: refused in the epoch's first moment */
		assert_false(agrees((uint64_t)(1000 * len), (uint64_t)(1000 * len - ahead - 1),
				    (uint64_t)len, (uint64_t)ahead));
		/* before and after: the last moment of the epoch, and the handshake at its longest */
		assert_false(agrees((uint64_t)(1001 * len - 1), (uint64_t)(1002 * len - ahead),
				    (uint64_t)len, (uint64_t)ahead));
	}
	/* what was: a verifier behind its maker refused */
	assert_false(agrees((uint64_t)(1000 * len), (uint64_t)(1000 * len - 1), (uint64_t)len, 0));
}

/* An epoch that is remembered saves a division and never changes an answer: within two epochs it
 * answers, elsewhere it does not. */
static void epoch_without_a_division(void **state)
{
	static const uint64_t lens[] = {0, 1, 7, 8000, 64000000000ULL, 86400000000000ULL};
	uint64_t base, epoch, near;
	int64_t off;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (base = 1000; base < 1010; base++)
			for (off = -3; off <= 3; off++) {
				uint64_t unix_ns = base * lens[i] + (uint64_t)(lens[i] > 3 ? off : 0);
				uint64_t right = tg_epoch_at(unix_ns, lens[i]);

				for (near = 995; near < 1015; near++) {
					bool known = tg_epoch_near(unix_ns, lens[i], near, &epoch);

					assert_int_equal(known, lens[i] && (near == right ||
									    near + 1 == right));
					assert_true(!known || epoch == right);
				}
				assert_false(tg_epoch_near(unix_ns, lens[i], 0, &epoch));
			}
}

/* With a second key: a whole epoch of skew either way and a handshake of an epoch, in
 * every phase; and not more: the bound is tight. */
static bool agrees_older(uint64_t maker_ns, uint64_t verifier_ns, uint64_t len)
{
	uint64_t made = tg_epoch_at(maker_ns, len);
	uint64_t first = tg_cookie_epoch((uint32_t)(made & 1) << 31,
					 tg_epoch_verifying(verifier_ns, len, len));

	return first == made || first - TG_EPOCHS_OLDER == made;
}

static void clocks_a_whole_epoch_apart(void **state)
{
	const int64_t len = 8000;
	int64_t skew, phase, h;

	(void)state;
	for (skew = -len; skew <= len; skew += 250)
		for (phase = 0; phase < len; phase += 50)
			for (h = 0; h <= len; h += 50)
				assert_true(agrees_older((uint64_t)(1000 * len + phase),
							 (uint64_t)(1000 * len + phase + skew + h),
							 (uint64_t)len));
	assert_false(agrees_older((uint64_t)(1000 * len), (uint64_t)(999 * len - 1), (uint64_t)len));
	assert_false(agrees_older((uint64_t)(1001 * len - 1), (uint64_t)(1003 * len), (uint64_t)len));
}

/* Never more than two epochs at a time, one of each parity, for any `ahead`. */
static void two_epochs_at_a_moment(void **state)
{
	const uint64_t len = 1000;
	uint64_t ahead, now, e;

	(void)state;
	for (ahead = 0; ahead <= len / 2; ahead += 100)
		for (now = 50 * len; now < 53 * len; now += 7) {
			uint32_t taken = 0, parities = 0;

			for (e = 40; e < 60; e++)
				if (agrees(e * len, now, len, ahead)) {
					taken++;
					parities |= 1U << (e & 1);
				}
			assert_int_equal(taken, 2);
			assert_int_equal(parities, 3);
		}
}

static void hops(void **state)
{
	int ttl;

	(void)state;
	for (ttl = 0; ttl < 256; ttl++) {
		assert_int_equal(tg_edge_expires((uint8_t)ttl, 16), ttl < 16);
		assert_false(tg_edge_expires((uint8_t)ttl, 0));
	}
}

int tg_test_edge(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_and_judgements),
		cmocka_unit_test(refreshing),
		cmocka_unit_test(allowance),
		cmocka_unit_test(clocks_that_differ),
		cmocka_unit_test(epoch_without_a_division),
		cmocka_unit_test(clocks_a_whole_epoch_apart),
		cmocka_unit_test(two_epochs_at_a_moment),
		cmocka_unit_test(hops),
	};

	return cmocka_run_group_tests_name("edge", tests, NULL, NULL);
}
