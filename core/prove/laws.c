/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the core, tested on every value of what they range over, or, where that is more than a
 * machine counts in seconds, on all values of one part beside the edges of the others.
 *
 *   laws            prints "N passed, N failed"
 *   laws --all      with the loops over 2^32 values, too
 *   laws --canary   one law that is false: must fail
 */
#include <stdio.h>
#include <string.h>

#include "../cookie.h"
#include "../translate.h"

#define LAW(condition)                                                                             \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);             \
			return false;                                                              \
		}                                                                                  \
	} while (0)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool every; /* --all */

static const uint32_t edges[] = {
	0,          1,          2,          0x7fff,     0x8000,     0xfffe,     0xffff,
	0x10000,    0x10001,    0x1ffff,    0x7fffffff, 0x80000000, 0xffff0000, 0xffff0001,
	0xfffeffff, 0xfffffffe, 0xffffffff, 0x12345678, 0xa5a5a5a5, 0x00ff00ff,
};

/* A fold keeps the residue modulo 0xffff, and only 0 folds to 0. The argument of tg_csum_update16
 * is below 2^18, so that these are all of its cases. */
static bool fold_keeps_the_residue(void)
{
	uint64_t x, most = every ? 1ULL << 32 : 1ULL << 20;
	uint32_t i;

	for (x = 0; x < most; x++) {
		LAW(tg_csum_fold(x) % 0xffff == x % 0xffff);
		LAW((tg_csum_fold(x) == 0) == (x == 0));
	}
	for (i = 0; i < 64; i++) /* about each power of two and at the end */
		for (x = (1ULL << i) - 40; x != (1ULL << i) + 40; x++) {
			LAW(tg_csum_fold(x) % 0xffff == x % 0xffff);
			LAW((tg_csum_fold(x) == 0) == (x == 0));
		}
	return true;
}

/* `rest` is what the other words of the header fold to. It is never 0: the pseudo-header and the
 * IPv4 header both have words that are not. */
static bool update_equals_recomputation(void)
{
	uint32_t rest, i, j;

	for (rest = 1; rest <= 0xffff; rest++)
		for (i = 0; i < COUNT(edges); i++)
			for (j = 0; j < COUNT(edges); j++) {
				uint32_t from = edges[i], to = edges[j];
				uint16_t field = tg_csum_finish((uint64_t)rest + from);
				uint16_t half = tg_csum_finish((uint64_t)rest + (uint16_t)from);

				LAW(tg_csum_update32(field, from, to) ==
				    tg_csum_finish((uint64_t)rest + to));
				LAW(tg_csum_update16(half, (uint16_t)from, (uint16_t)to) ==
				    tg_csum_finish((uint64_t)rest + (uint16_t)to));
			}
	return true;
}

static bool swaps_are_their_own_inverse(void)
{
	uint32_t x;

	for (x = 0; x <= 0xffff; x++)
		LAW(tg_swap16(tg_swap16(x)) == x);
	for (x = 0; x < COUNT(edges); x++)
		LAW(tg_swap32(tg_swap32(edges[x])) == edges[x]);
	return true;
}

/* For every MSS: rounded down to the table, to the largest entry that is not above it. */
static bool mss_is_rounded_down(void)
{
	uint32_t mss, index, family;

	for (family = 4; family <= 6; family += 2)
		for (mss = 0; mss <= 0xffff; mss++) {
			index = tg_mss_index((uint8_t)family, (uint16_t)mss);
			LAW(index < 8);
			LAW(index == 0 || tg_mss_value((uint8_t)family, index) <= mss);
			LAW(index == 7 || tg_mss_value((uint8_t)family, index + 1) > mss);
			LAW(tg_mss_index((uint8_t)family, tg_mss_value((uint8_t)family, index)) ==
			    index);
		}
	return true;
}

/* Packs every set of options into a cookie of each form and unpacks it. */
static bool option_bits_come_back(uint64_t mac, uint64_t epoch, bool ts)
{
	uint32_t flags, mss, most = ts ? 0xffff : 7;

	for (mss = 0; mss <= most; mss++)
		for (flags = 0; flags < 1U << TG_COOKIE_FLAG_BITS; flags++) {
			uint8_t wscale = flags >> 2;
			bool sack = flags >> 1 & 1, ecn = flags & 1;
			uint32_t bits = tg_cookie_option_bits(mss, wscale, sack, ecn);
			struct tg_cookie c = tg_cookie_of_mac(mac, bits, ts, epoch);
			struct tg_agreed a;

			LAW(tg_cookie_claimed_bits(c, ts) == bits);
			LAW(tg_cookie_has_mac(c, ts, epoch, mac));
			LAW(!tg_cookie_has_mac(c, ts, epoch + 1, mac));
			a = tg_cookie_agreed(4, bits, ts);
			LAW(a.mss == (ts ? mss : tg_mss_value(4, mss)));
			LAW(a.wscale == wscale && a.sack_ok == sack && a.ecn_ok == ecn);
			LAW(a.ts_ok == ts);
		}
	return true;
}

static bool cookies_unpack_to_what_was_packed(void)
{
	uint32_t i;

	for (i = 0; i < COUNT(edges); i++) {
		uint64_t mac = (uint64_t)edges[i] << 32 | edges[COUNT(edges) - 1 - i];

		LAW(option_bits_come_back(mac, i, false));
		LAW(option_bits_come_back(mac, i, true));
	}
	return true;
}

/* Every bit of the MAC that a cookie carries counts: 22 without timestamps, 41 with. */
static bool every_bit_of_the_mac_counts(void)
{
	uint32_t i, bit;

	for (i = 0; i < COUNT(edges); i++)
		for (bit = 0; bit < 64; bit++) {
			uint64_t mac = (uint64_t)edges[i] << 32 | edges[i];
			struct tg_cookie plain = tg_cookie_of_mac(mac, 0x155, false, 6);
			struct tg_cookie ts = tg_cookie_of_mac(mac, 0x155555, true, 6);

			LAW(tg_cookie_has_mac(plain, false, 6, mac ^ 1ULL << bit) == (bit >= 22));
			LAW(tg_cookie_has_mac(ts, true, 6, mac ^ 1ULL << bit) == (bit >= 41));
		}
	return true;
}

/* A cookie of epoch e names e to a verifier in e and in e + 1, and to none in e + 2 or e - 1; the
 * same where the epoch's number wraps. */
static bool epochs_are_chosen_over_the_wrap(void)
{
	static const uint64_t about[] = {0, 1ULL << 31, 1ULL << 32, 1ULL << 63};
	uint32_t i, ts;
	uint64_t e;

	for (i = 0; i < COUNT(about); i++)
		for (e = about[i] - 1000; e != about[i] + 1000; e++)
			for (ts = 0; ts < 2; ts++) {
				uint32_t isn = tg_cookie_of_mac(~e, 0x1ff, ts, e).isn;

				LAW(tg_cookie_epoch(isn, e) == e);
				LAW(tg_cookie_epoch(isn, e + 1) == e);
				LAW(tg_cookie_epoch(isn, e + 2) == e + 2);
				LAW(tg_cookie_epoch(isn, e - 1) == e - 2);
			}
	return true;
}

/* What the writer writes, the reader reads: every MSS and shift, with SACK and timestamps or not. */
static bool options_are_read_as_written(void)
{
	uint32_t mss, set;

	for (mss = 0; mss <= 0xffff; mss++)
		for (set = 0; set < 64; set++) {
			struct tg_tcp_options o = {
				.mss = (uint16_t)mss,
				.wscale = set >> 2,
				.sack_ok = set >> 1 & 1,
				.ts_ok = set & 1,
				.tsval = set & 1 ? 0x80000001 + mss : 0,
				.tsecr = set & 1 ? ~mss : 0,
			};
			struct tg_options_cursor c = {.at = 0};
			struct tg_writer w = {c.bytes, c.bytes + TG_TCP_OPTIONS_MAX_LEN};
			struct tg_tcp_options r;
			uint64_t sum = 0;

			LAW(tg_tcp_options_write(&w, &o, &sum));
			c.len = (uint32_t)(w.at - c.bytes);
			LAW(c.len == tg_tcp_options_len(&o));
			LAW(tg_csum_fold(sum) == tg_csum_fold(tg_csum_add(0, c.bytes, c.len)));
			r = tg_tcp_options_parse(&c);
			LAW(r.mss == o.mss && r.wscale == o.wscale && r.sack_ok == o.sack_ok);
			LAW(r.ts_ok == o.ts_ok && r.tsval == o.tsval && r.tsecr == o.tsecr);
		}
	return true;
}

/* Every window and shift: down divides, up multiplies and stops at the field's end. */
static bool windows_are_scaled(void)
{
	uint32_t w;
	int s;

	for (w = 0; w <= 0xffff; w++)
		for (s = 0; s <= 14; s++) {
			uint64_t up = (uint64_t)w << s;

			LAW(tg_window_shift((uint16_t)w, -s) == w >> s);
			LAW(tg_window_shift((uint16_t)w, s) == (up > 0xffff ? 0xffff : up));
		}
	return true;
}

static struct tg_flow opposite(struct tg_flow f)
{
	f.seq_delta = -f.seq_delta;
	f.ts_delta = -f.ts_delta;
	return f;
}

/* Translates a segment of 20 + 40 bytes there and, with the opposite differences, back: it is as
 * before, and after each the updated checksum is the recomputed one. */
static bool there_and_back(const uint8_t segment[60], uint32_t len, const struct tg_flow *f,
			   bool ack, enum tg_direction dir)
{
	uint8_t header[TG_TCP_HDR_LEN];
	struct tg_options_cursor c = {.at = 0};
	struct tg_flow flows[2] = {*f, opposite(*f)};
	uint32_t i;

	memcpy(header, segment, sizeof(header));
	memcpy(c.bytes, segment + sizeof(header), 40);
	header[TG_TCP_FLAGS] = ack ? TG_TCP_ACK : 0;
	for (i = 0; i < 2; i++) {
		/* 6: the pseudo-header's protocol */
		uint64_t was = tg_csum_add(tg_csum_add(6, header, 20), c.bytes, 40), sum = 0;

		c.at = 0;
		c.len = len;
		tg_translate_header(header, &flows[i], dir, &sum);
		tg_translate_options(&c, &flows[i], ack, dir, &sum);
		LAW(tg_translate_checksum(tg_csum_finish(was), sum) ==
		    tg_csum_finish(tg_csum_add(tg_csum_add(6, header, 20), c.bytes, 40)));
	}
	LAW(memcmp(header, segment, TG_TCP_FLAGS) == 0);
	LAW(memcmp(c.bytes, segment + sizeof(header), 40) == 0);
	return true;
}

/* Every kind and length of the first option, every length of the list, both directions. */
static bool translation_is_undone(void)
{
	uint8_t segment[60];
	uint32_t kind, len, total, i;

	for (i = 0; i < sizeof(segment); i++)
		segment[i] = (uint8_t)(i * 37 + 250);
	for (kind = 0; kind < 256; kind++)
		for (len = 0; len < 256; len++)
			for (total = 0; total <= TG_TCP_OPTIONS_MAX_LEN; total++) {
				uint32_t n = kind + len + total;
				struct tg_flow f = {
					.seq_delta = edges[n % COUNT(edges)],
					.ts_delta = edges[n / 2 % COUNT(edges)],
					.flags = n & 4 ? TG_FLOW_TS : 0,
				};

				segment[20] = (uint8_t)kind;
				segment[21] = (uint8_t)len;
				LAW(there_and_back(segment, total, &f, n & 1, TG_TO_SERVER));
				LAW(there_and_back(segment, total, &f, n & 1, TG_TO_CLIENT));
			}
	return true;
}

/* The fast path for timestamps alone changes what the walk over the options changes. */
static bool aligned_timestamps_are_translated_alike(void)
{
	uint32_t i, j, set;

	for (i = 0; i < COUNT(edges); i++)
		for (j = 0; j < COUNT(edges); j++)
			for (set = 0; set < 4; set++) {
				enum tg_direction dir = set & 1 ? TG_TO_CLIENT : TG_TO_SERVER;
				bool ack = set >> 1;
				struct tg_flow f = {.flags = TG_FLOW_TS, .ts_delta = edges[i]};
				struct tg_options_cursor c = {.bytes = {1, 1, 8, 10}, .len = 12};
				uint64_t walked = 0, at_once = 0;
				uint8_t list[12];

				tg_store32(c.bytes + 4, edges[j]);
				tg_store32(c.bytes + 8, ~edges[j]);
				memcpy(list, c.bytes, sizeof(list));
				LAW(tg_translate_is_aligned(list));
				tg_translate_timestamps(list + 4, &f, ack, dir, &at_once);
				tg_translate_options(&c, &f, ack, dir, &walked);
				LAW(memcmp(list, c.bytes, sizeof(list)) == 0);
				LAW(tg_csum_fold(at_once) % 0xffff == tg_csum_fold(walked) % 0xffff);
			}
	return true;
}

/* Numbers that a segment was given on its way are taken back where an ICMP error quotes it. */
static bool quotations_are_translated_back(void)
{
	uint32_t i, j, dir;

	for (i = 0; i < COUNT(edges); i++)
		for (j = 0; j < COUNT(edges); j++)
			for (dir = TG_TO_SERVER; dir <= TG_TO_CLIENT; dir++) {
				uint8_t tcp[TG_TCP_HDR_LEN] = {0}, was[TG_TCP_HDR_LEN];
				struct tg_flow f = {.seq_delta = edges[i]};
				uint64_t sum = 0;

				tcp[TG_TCP_FLAGS] = TG_TCP_ACK;
				tg_store32(tcp + TG_TCP_SEQ, edges[j]);
				tg_store32(tcp + TG_TCP_ACKED, ~edges[j]);
				memcpy(was, tcp, sizeof(was));
				tg_translate_header(tcp, &f, dir, &sum);
				tg_translate_quoted(tcp, &f, dir, &sum);
				LAW(memcmp(tcp, was, sizeof(was)) == 0);
				LAW(tg_csum_fold(sum) % 0xffff == 0);
			}
	return true;
}

/* False, for one value of `rest` in 65,535: RFC 1624's equation 2. */
static bool canary(void)
{
	const uint16_t from = 0x5555, to = 0x3333;
	uint32_t rest;

	for (rest = 1; rest <= 0xffff; rest++) {
		uint16_t field = tg_csum_finish((uint64_t)rest + from);

		LAW(tg_csum_fold((uint64_t)field + from + (uint16_t)~to) ==
		    tg_csum_finish((uint64_t)rest + to));
	}
	return true;
}

static const struct {
	const char *name;
	bool (*holds)(void);
} laws[] = {
	{"a fold keeps the residue", fold_keeps_the_residue},
	{"a checksum's update equals its recomputation", update_equals_recomputation},
	{"swaps are their own inverse", swaps_are_their_own_inverse},
	{"an MSS is rounded down", mss_is_rounded_down},
	{"cookies unpack to what was packed", cookies_unpack_to_what_was_packed},
	{"every bit of the MAC counts", every_bit_of_the_mac_counts},
	{"epochs are chosen over the wrap", epochs_are_chosen_over_the_wrap},
	{"options are read as written", options_are_read_as_written},
	{"windows are scaled", windows_are_scaled},
	{"translation there and back is the identity", translation_is_undone},
	{"aligned timestamps are translated as the walk does",
	 aligned_timestamps_are_translated_alike},
	{"quotations are translated back", quotations_are_translated_back},
};

int main(int argc, char **argv)
{
	uint32_t i, passed = 0;

	if (argc > 1 && !strcmp(argv[1], "--canary"))
		return !canary();
	every = argc > 1 && !strcmp(argv[1], "--all");
	for (i = 0; i < COUNT(laws); i++) {
		bool ok = laws[i].holds();

		if (!ok)
			printf("law: FAIL: %s\n", laws[i].name);
		passed += ok;
	}
	printf("%u passed, %u failed\n", passed, (uint32_t)COUNT(laws) - passed);
	return passed != COUNT(laws);
}
