/* SPDX-License-Identifier: Apache-2.0
 *
 * The bits of the socket filter, set and cleared by several CPUs: in whatever order their accesses fall, a
 * cell in use has both its bits in the end. Two CPUs go through every order, three through many at
 * random. Each is a thread, of which one at a time takes the step from one access to the next.
 */
#include <pthread.h>
#include <semaphore.h>

static void cpu_waits(void);
#define TG_FILTER_STEP() cpu_waits()

#include "../filter_bits.h"
#include "test.h"

#define CPUS_MAX 3
#define STEPS_MAX 64
#define NOW 100
#define KEEP 5

/* Two cells with one bit of the front; another has the next. */
static const struct tg_filter_index here = {8, 9}, beside = {15, 14}, apart = {16, 17};

static struct {
	uint32_t cells[TG_FILTER_LINE_CELLS * 2];
	uint64_t word, front;
} filter;

struct cpu {
	void (*does)(struct tg_filter_index at);
	struct tg_filter_index at;
	pthread_t thread;
	sem_t may;
	bool done;
};

static sem_t waits; /* some CPU does */
static __thread struct cpu *self;

static void cpu_waits(void)
{
	sem_post(&waits);
	sem_wait(&self->may);
}

static void opens(struct tg_filter_index at)
{
	__sync_fetch_and_add(&filter.cells[at.first], TG_FILTER_LIVE_ONE);
	cpu_waits();
	tg_filter_bits_set(&filter.word, &filter.front, at);
}

static void closes(struct tg_filter_index at)
{
	*(volatile uint32_t *)&filter.cells[at.first] = NOW;
	cpu_waits();
	tg_filter_bits_set(&filter.word, &filter.front, at);
}

/* As tg_filter_may_exist in bpf/lib/gate.h. */
static void asks(struct tg_filter_index at)
{
	const volatile uint32_t *cell = &filter.cells[at.first];

	if (!(*(volatile uint64_t *)&filter.front & tg_filter_front_bit(at)))
		return;
	cpu_waits();
	if (!(*(volatile uint64_t *)&filter.word & tg_filter_bit(at)))
		return;
	cpu_waits();
	if (tg_filter_cell_hit(*cell, NOW, KEEP))
		return;
	cpu_waits();
	tg_filter_bits_clear(&filter.word, &filter.front, at, &filter.cells[at.first], NOW, KEEP);
}

static void *cpu_runs(void *arg)
{
	self = arg;
	sem_wait(&self->may);
	self->does(self->at);
	self->done = true;
	sem_post(&waits);
	return NULL;
}

/* The choices of a run: at each step, which of the CPUs that are not done goes on. */
struct order {
	uint32_t choice[STEPS_MAX], of[STEPS_MAX];
	uint32_t steps;
	const struct tg_filter_index *always; /* in use, and to be seen as such after each step */
};

static void check(struct tg_filter_index at, const struct order *o)
{
	char steps[STEPS_MAX + 1] = "";
	uint32_t i;

	if (!tg_filter_cell_hit(filter.cells[at.first], NOW, KEEP) ||
	    (filter.word & tg_filter_bit(at) && filter.front & tg_filter_front_bit(at)))
		return;
	for (i = 0; i < o->steps; i++)
		steps[i] = (char)('0' + o->choice[i]);
	fail_msg("cell %u is in use, its bit is %d and the front's %d, after choices %s", at.first,
		 !!(filter.word & tg_filter_bit(at)), !!(filter.front & tg_filter_front_bit(at)),
		 steps);
}

static void run(struct cpu *cpus, uint32_t n, struct order *o, uint64_t *random)
{
	uint32_t i, left = n, known = o->steps;

	sem_init(&waits, 0, 0);
	for (i = 0; i < n; i++) {
		cpus[i].done = false;
		sem_init(&cpus[i].may, 0, 0);
		assert_int_equal(pthread_create(&cpus[i].thread, NULL, cpu_runs, &cpus[i]), 0);
	}
	for (o->steps = 0; left; o->steps++) {
		uint32_t pick;

		assert_true(o->steps < STEPS_MAX);
		if (o->steps >= known)
			o->choice[o->steps] = random ? (uint32_t)(tg_splitmix(random) % left) : 0;
		o->of[o->steps] = left;
		pick = o->choice[o->steps];
		for (i = 0; cpus[i].done || pick--; i++)
			;
		sem_post(&cpus[i].may);
		sem_wait(&waits);
		left -= cpus[i].done;
		if (o->always)
			check(*o->always, o);
	}
	for (i = 0; i < n; i++)
		pthread_join(cpus[i].thread, NULL);
}

/* The next order of all; false after the last. */
static bool next(struct order *o)
{
	while (o->steps && o->choice[o->steps - 1] + 1 == o->of[o->steps - 1])
		o->steps--;
	if (!o->steps)
		return false;
	o->choice[o->steps - 1]++;
	return true;
}

/* Sockets were here and beside, long ago. */
static void begin(void)
{
	memset(&filter, 0, sizeof(filter));
	filter.cells[here.first] = filter.cells[beside.first] = NOW - KEEP - 1;
	filter.word = tg_filter_bit(here) | tg_filter_bit(beside);
	filter.front = tg_filter_front_bit(here);
}

static void (*const users[])(struct tg_filter_index) = {opens, closes};

static void two_cpus_in_every_order(void **state)
{
	const struct tg_filter_index places[] = {here, beside, apart};
	uint32_t user, place, orders = 0;

	(void)state;
	for (user = 0; user < 2; user++) {
		for (place = 0; place < 3; place++) {
			struct order o = {.steps = 0};
			struct cpu cpus[] = {{.does = asks, .at = here},
					     {.does = users[user], .at = places[place]}};

			do {
				begin();
				filter.word &= ~tg_filter_bit(beside);
				run(cpus, 2, &o, NULL);
				check(places[place], &o);
				orders++;
			} while (next(&o));
		}
	}
	assert_true(orders > 1000);
}

static void three_cpus_at_random(void **state)
{
	const struct tg_filter_index places[] = {here, beside};
	uint64_t random = 1;
	uint32_t i;

	(void)state;
	for (i = 0; i < 4000; i++) {
		struct order o = {.steps = 0};
		struct cpu cpus[] = {{.does = asks, .at = here},
				     {.does = asks, .at = places[i & 1]},
				     {.does = users[i >> 1 & 1], .at = places[i >> 2 & 1]}};

		begin();
		run(cpus, 3, &o, &random);
		check(here, &o);
		check(beside, &o);
	}
}

/* What is in use is seen at any time while a neighbour loses its bit. */
static void neighbours_in_use_keep_their_bits(void **state)
{
	struct order o = {.always = &beside};
	struct cpu cpus[] = {{.does = asks, .at = here}, {.does = asks, .at = here}};

	(void)state;
	do {
		begin();
		filter.cells[beside.first] = TG_FILTER_LIVE_ONE;
		run(cpus, 2, &o, NULL);
		assert_int_equal(filter.word, tg_filter_bit(beside));
	} while (next(&o));
}

/* What nothing is using any more loses its bits, the front's with the last. */
static void dead_cells_lose_their_bits(void **state)
{
	struct order o = {.steps = 0};
	struct cpu first = {.does = asks, .at = here}, second = {.does = asks, .at = beside};

	(void)state;
	begin();
	run(&first, 1, &o, NULL);
	assert_int_equal(filter.word, tg_filter_bit(beside));
	assert_int_equal(filter.front, tg_filter_front_bit(here));
	o.steps = 0;
	run(&second, 1, &o, NULL);
	assert_int_equal(filter.word, 0);
	assert_int_equal(filter.front, 0);
}

int tg_test_filter_bits(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_cpus_in_every_order),
		cmocka_unit_test(three_cpus_at_random),
		cmocka_unit_test(neighbours_in_use_keep_their_bits),
		cmocka_unit_test(dead_cells_lose_their_bits),
	};

	return cmocka_run_group_tests_name("bits of the socket filter", tests, NULL, NULL);
}
