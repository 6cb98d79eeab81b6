/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The forms of SYN that fast paths answer: the two that nearly every client sends (core/fast_syn.h), and
 * whatever else a sender makes of its TCP options (core/fast_syn_any.h). A fast path is written once for
 * all; `form` and `family` are constants at each call. Decides nothing that the slow path would decide differently.
 */
#ifndef TG_BPF_SYN_FORMS_H
#define TG_BPF_SYN_FORMS_H

#include "fast_syn.h"
#include "intact.h"
#include "syn.h"
#include "../../core/fast_syn_any.h"

enum tg_syn_form {
	TG_SYN_TS,    /* 20 bytes of options */
	TG_SYN_NO_TS, /* 12 */
	TG_SYN_ANY,
};

/* What a fast path returns instead of an XDP action. Nothing is done and nothing counted: */
#define TG_FAST_SLOW 0x600  /* the slow path decides */
#define TG_FAST_OTHER 0x601 /* the SYN is not of this form */

static __always_inline bool tg_fast_decided(int action)
{
	return (__u32)action < TG_FAST_SLOW;
}

/* True if the frame may be one of form TG_SYN_ANY, or of any other. */
static __always_inline bool tg_any_syn_is_here(const __u8 *frame, const __u8 *end)
{
	return (frame + tg_any_syn_len(4) <= end && tg_any_syn_may_be(frame, 4)) ||
	       (frame + tg_any_syn_len(6) <= end && tg_any_syn_may_be(frame, 6));
}

/* True if the frame is a common SYN, as far as its flags, options and length tell. */
static __always_inline bool tg_any_syn_is_common(const __u8 *frame, const __u8 *end, __u8 family,
						 const struct tg_packet *syn)
{
	const __u8 *options = frame + tg_any_syn_len(family);
	__u16 flags = tg_load16(options + TG_TCP_DOFF - TG_TCP_HDR_LEN);
	struct tg_tcp_options o;

	if (flags == 0x02a0 && options + 20 <= end)
		return tg_fast_syn_options(options, true, &o) && !tg_any_syn_data_len(syn);
	return flags == 0x0280 && options + 12 <= end && tg_fast_syn_options(options, false, &o) &&
	       !tg_any_syn_data_len(syn);
}

/* True if that is so, and the fast path of common SYNs has looked at it: the service agrees to all that it offers. */
static __always_inline bool tg_any_syn_was_seen(const __u8 *frame, const __u8 *end, __u8 family,
						const struct tg_packet *syn,
						const struct tg_service *svc)
{
	return tg_any_syn_is_common(frame, end, family, syn) &&
	       tg_fast_syn_agrees(
		       svc, frame[tg_any_syn_len(family) + TG_TCP_DOFF - TG_TCP_HDR_LEN] == 0xa0);
}

/* A SYN of form TG_SYN_ANY in a CPU's own memory: there is no room for it on the stack. */
struct tg_syn_room {
	struct tg_packet syn;
	struct tg_options_cursor options;
	struct tg_tcp_options offered;
	struct tg_any_options read;
	__u32 data; /* the sum of its data */
	struct tg_synack answer;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_syn_room);
} tg_syn_rooms SEC(".maps");

static __always_inline struct tg_syn_room *tg_syn_room_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_syn_rooms, &zero);
}

/* Where a SYN of this form is read to: `local`, or that memory. */
static __always_inline struct tg_packet *tg_form_syn(enum tg_syn_form form, struct tg_packet *local)
{
	struct tg_syn_room *room;

	if (form != TG_SYN_ANY)
		return local;
	room = tg_syn_room_get();
	return room ? &room->syn : 0;
}

/* True if the frame's headers are a SYN's of this form, as far as its options; then `syn` holds what the
 * answer needs. */
static __always_inline bool tg_form_head(const __u8 *frame, const __u8 *end, __u8 family,
					 enum tg_syn_form form, struct tg_packet *syn)
{
	if (form == TG_SYN_ANY) {
		if (frame + tg_any_syn_len(family) > end || !tg_any_syn_may_be(frame, family) ||
		    !tg_any_syn_head(frame, family, syn))
			return false;
		TG_BARRIER(); /* it is read from there: the stack has no room to keep it */
		return true;
	}
	return frame + tg_fast_syn_len(family, form == TG_SYN_TS) <= end &&
	       tg_fast_syn_head(frame, family, form == TG_SYN_TS, syn);
}

/* Reads options that only the parser understands; a function of its own, for few. */
TG_GLOBAL int tg_any_syn_parse(struct xdp_md *ctx)
{
	struct tg_syn_room *room = tg_syn_room_get();

	if (!room)
		return TG_FAST_SLOW;
	room->offered = (struct tg_tcp_options){};
	return tg_syn_options_in(ctx, &room->syn, &room->options, &room->offered) && !room->offered.auth
		       ? XDP_TX
		       : TG_FAST_SLOW;
}

/* Sums the data of the SYN whose head is in that memory. False if they are not all there. */
static __always_inline bool tg_any_syn_sum(struct xdp_md *ctx, struct tg_syn_room *room)
{
	__u32 zero = 0;
	struct tg_sum_room *bytes = bpf_map_lookup_elem(&tg_sum_rooms, &zero);
	__s64 sum;

	if (!bytes)
		return false;
	sum = tg_sum_span(ctx, bytes, room->syn.l4_off + room->syn.tcp_hdr_len,
			  tg_any_syn_data_len(&room->syn), 0);
	room->data = (__u32)sum;
	return sum >= 0;
}

/* What tg_any_syn_offers returns, with the sum of the SYN's data. */
static __always_inline int tg_any_syn_offers_beside(struct xdp_md *ctx, struct tg_syn_room *room,
						    __u8 family, __u32 data)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	enum tg_any_syn what;

	if (frame + tg_any_syn_len(family) > end)
		return TG_FAST_SLOW;
	what = tg_any_syn_rest(frame, end, family, &room->syn, data, &room->offered, &room->read);
	if (what == TG_ANY_SYN_READ)
		return XDP_TX;
	return what == TG_ANY_SYN_STRANGE ? tg_any_syn_parse(ctx) : TG_FAST_SLOW;
}

/* The same of one with data. */
TG_GLOBAL int tg_any_syn_offers_data(struct xdp_md *ctx)
{
	struct tg_syn_room *room = tg_syn_room_get();

	if (!room || !tg_any_syn_sum(ctx, room))
		return TG_FAST_SLOW;
	return room->syn.family == 4 ? tg_any_syn_offers_beside(ctx, room, 4, room->data)
				     : tg_any_syn_offers_beside(ctx, room, 6, room->data);
}

/* XDP_TX if the SYN in the frame, whose head is in that memory, is to be answered; then what it offers is there, too. */
static __always_inline int tg_any_syn_offers(struct xdp_md *ctx, __u8 family)
{
	struct tg_syn_room *room = tg_syn_room_get();

	if (!room)
		return TG_FAST_SLOW;
	return TG_UNLIKELY(tg_any_syn_data_len(&room->syn))
		       ? tg_any_syn_offers_data(ctx)
		       : tg_any_syn_offers_beside(ctx, room, family, 0);
}

/* XDP_TX if such a SYN is to be answered; then `offered` says what it offers, and of the two common forms
 * `addrs` is the sum of its addresses. */
static __always_inline int tg_form_rest(struct xdp_md *ctx, const __u8 *frame, __u8 family,
					enum tg_syn_form form, const struct tg_packet *syn,
					struct tg_tcp_options *offered, uint64_t *addrs)
{
	const bool ts = form == TG_SYN_TS;

	if (form == TG_SYN_ANY)
		return tg_any_syn_offers(ctx, family);
	if (TG_LIKELY(tg_fast_syn_rest(frame, family, ts, syn, offered, addrs)))
		return XDP_TX;
	return tg_fast_syn_options(frame + tg_fast_syn_l4(family) + TG_TCP_HDR_LEN, ts, offered)
		       ? TG_FAST_SLOW
		       : TG_FAST_OTHER;
}

/* True if the form's answer is what this service answers. */
static __always_inline bool tg_form_agrees(const struct tg_service *svc, enum tg_syn_form form)
{
	return form == TG_SYN_ANY || tg_fast_syn_agrees(svc, form == TG_SYN_TS);
}

/* True if its answer has timestamps. */
static __always_inline bool tg_form_stamps(const struct tg_service *svc, enum tg_syn_form form)
{
	const struct tg_syn_room *room;

	if (form != TG_SYN_ANY)
		return form == TG_SYN_TS;
	room = tg_syn_room_get();
	return room && room->offered.ts_ok && svc->timestamps;
}

/* The cookie for the SYN in that memory, whose answer stands beside it, to this destination. False if no key of that epoch is
 * loaded. */
static __always_inline bool tg_any_syn_hash(struct tg_destination *d, const struct tg_syn_room *room,
					    __u64 epoch, struct tg_cookie *cookie)
{
	__u32 bits = room->answer.option_bits;
	bool ts_ok = room->answer.options.ts_ok;
#ifdef TG_ANY_SYN_HASH_BY_CALL
	(void)d;
	*cookie = tg_cookie_make_by_call(&room->syn, bits, ts_ok, epoch);
	if (!cookie->isn && !cookie->tsval)
		return false; /* or, of one in 2^32, the slow path makes it again */
#else
	const struct tg_begun *begun = tg_cookie_begun(d, epoch);

	if (!begun)
		return false;
	*cookie = tg_cookie_make_begun(begun, &room->syn, bits, ts_ok, epoch);
#endif
	return true;
}

/* Answers the SYN in that memory. Negative, with nothing done, if no key of this epoch is loaded; 0: tg_syn_write. */
static __always_inline int tg_any_syn_answer(struct xdp_md *ctx, __u8 family,
					     const struct tg_host_settings *settings,
					     struct tg_destination *d, const struct tg_service *svc)
{
	struct tg_syn_room *room = tg_syn_room_get();
	struct tg_cookie cookie;

	if (!room)
		return -TG_EINVAL;
	room->syn.family = family; /* as it is: the compiler shall know */
	room->answer = tg_synack_agree(&room->syn, &room->offered, svc);
	TG_BARRIER(); /* read from there: the verifier is not to go through a hash once for each outcome */
	if (!tg_any_syn_hash(d, room, tg_epoch_now(settings), &cookie))
		return -TG_EINVAL;
	return tg_syn_write(ctx, &room->syn, &room->answer, cookie);
}

/* Answers the SYN in the frame with the epoch's cookie, and counts it. What it returns is the program's action;
 * TG_FAST_SLOW if no key of this epoch is loaded. */
static __always_inline int tg_form_send(struct xdp_md *ctx, __u8 *frame, __u8 family,
					enum tg_syn_form form,
					const struct tg_host_settings *settings,
					struct tg_destination *d, const struct tg_service *svc,
					const struct tg_packet *syn,
					const struct tg_tcp_options *offered, uint64_t addrs,
					struct tg_counter_row *row)
{
	int answered = true;

	if (form == TG_SYN_ANY) {
		answered = tg_any_syn_answer(ctx, family, settings, d, svc);
		if (answered < 0)
			return TG_FAST_SLOW;
	} else if (!tg_fast_syn_send(frame, family, form == TG_SYN_TS, settings, d, svc, syn,
				     offered, addrs)) {
		return TG_FAST_SLOW;
	}
	tg_count(row, TG_COUNT_syn);
	tg_count(row, answered ? TG_COUNT_cookie_sent : TG_COUNT_drop_tx);
	return answered ? XDP_TX : XDP_DROP;
}

#endif
