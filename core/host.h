/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The host role's judgement: what becomes of a SYN, and of an ACK, for a protected service.
 * Plane-neutral: a plane parses with packet.h, finds the service, calls this, and acts on the
 * verdict.
 */
#ifndef TG_HOST_H
#define TG_HOST_H

#include "allowance.h"
#include "cookie.h"
#include "intact.h"
#include "listener.h"
#include "synack.h"

enum tg_counter {
#define X(name, help) TG_COUNT_##name,
#include "counters.def"
#undef X
	TG_COUNTERS,
	TG_COUNT_NOTHING = TG_COUNTERS, /* this decision is not counted */
};

enum tg_verdict {
	TG_PASS,  /* to the kernel, untouched */
	TG_DROP,
	TG_REPLY, /* SYN: answer with a cookie. ACK: hand to the kernel as a connection */
};

struct tg_decision {
	enum tg_verdict verdict;
	enum tg_counter counter;
};

#define TG_DECIDE(v, c) ((struct tg_decision){.verdict = (v), .counter = (c)})

/* True for what the SYN path handles; everything else passes at once. */
TG_INLINE bool tg_host_is_syn(const struct tg_packet *pkt)
{
	return (pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_SYN;
}

/* True for the answer to a SYN. */
TG_INLINE bool tg_host_is_answer(const struct tg_packet *pkt)
{
	return (pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK);
}

/* True for what may complete a handshake: an ACK, with data or FIN or without. */
TG_INLINE bool tg_host_is_ack(const struct tg_packet *pkt)
{
	return (pkt->flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST)) == TG_TCP_ACK;
}

/* The parse results that condemn a packet whatever its destination (its port may not even be in
 * it). Checked only while some service is protected. No honest sender produces these: RFC 1858, RFC
 * 3128, RFC 7112, RFC 8504 section 5.3. */
TG_INLINE struct tg_decision tg_host_judge_parse(enum tg_parse_result result)
{
	switch (result) {
	case TG_PARSE_OVERLAY:
	case TG_PARSE_CUT_CHAIN:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_fragment);
	case TG_PARSE_EXT_CHAIN:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_ext_chain);
	case TG_PARSE_TAGS:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_tags);
	case TG_PARSE_CUT_TCP:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	default:
		return TG_DECIDE(TG_PASS, TG_COUNT_NOTHING);
	}
}

/* How the stack gets a connection that a verified ACK begins. */
enum tg_takeover {
	TG_TAKEOVER_NONE,      /* not at all: the kernel answered its SYN */
	TG_TAKEOVER_ADOPT,     /* it makes its socket from the cookie */
	TG_TAKEOVER_TRANSLATE, /* it completes a handshake with numbers of its own, and they are translated */
};

/* `translates`: a program that translates runs beside. Where adoption is known not to work, what
 * would be adopted is translated instead. */
TG_INLINE enum tg_takeover tg_host_takeover(enum tg_listener listener, bool translates)
{
	if (TG_LIKELY(listener == TG_LISTENER_OK))
		return TG_TAKEOVER_ADOPT;
	if (translates && (listener == TG_LISTENER_TRANSLATE || listener == TG_LISTENER_MPTCP ||
			   listener == TG_LISTENER_REFUSED))
		return TG_TAKEOVER_TRANSLATE;
	return TG_TAKEOVER_NONE;
}

/* A SYN, judged by the listener at its destination. The answer is the same for adoption and
 * translation. */
TG_INLINE struct tg_decision tg_host_judge_listener(enum tg_listener listener, bool translates)
{
	return tg_host_takeover(listener, translates) != TG_TAKEOVER_NONE
		       ? TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent)
		       : TG_DECIDE(TG_PASS, TG_COUNT_pass_listener);
}

/* A SYN in a frame that could not be adopted from (tg_frame_is_adoptable), so that an answer would
 * be useless. Most kernels drop it. One with stacked VLAN devices does not, and so the SYN passes,
 * within an allowance: a flood must not pass this way. (Not `allowed`, too, is
 * tg_frame_is_twice_untagged.) */
#define TG_TAGGED_SYN_COST_NS 2000000ULL /* of each CPU's time: 500 a second */
TG_INLINE struct tg_decision tg_host_judge_tags(bool allowed)
{
	return allowed ? TG_DECIDE(TG_PASS, TG_COUNT_pass_stack)
		       : TG_DECIDE(TG_DROP, TG_COUNT_drop_stack);
}

/* A SYN to a service whose mode is not off, in a frame of `frame_len` bytes, if a listener
 * is there for its answer. In monitor mode the plane counts would_answer or would_drop
 * instead of acting.
 * TG_REPLY still depends on the socket filter and on the epoch's key. */
TG_INLINE struct tg_decision tg_host_judge_syn(const struct tg_packet *syn,
					       enum tg_parse_result result, uint32_t frame_len)
{
	if (syn->flags & (TG_TCP_FIN | TG_TCP_RST))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_flags);
	if (result == TG_PARSE_FRAGMENT)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_fragment);
	if (syn->tcp_hdr_len < TG_TCP_HDR_LEN || syn->tcp_hdr_len > syn->l4_len ||
	    syn->l4_off + syn->l4_len > frame_len)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	if (tg_packet_is_group(syn))
		return TG_DECIDE(TG_PASS, TG_COUNT_pass_frame);
	if (tg_packet_source_is_bogus(syn))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_source);
	return TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
}

/* Whose a SYN is, by its MAC and IP addresses. */
enum tg_own {
	TG_OWN_ALL, /* for this machine */
	TG_OWN_NOT, /* sent to another MAC address, or to no local address: not ours */
	TG_OWN_SOURCE, /* it claims to come from this machine; the kernel drops it ("martian") */
};

/* TG_REPLY: continue with it. */
TG_INLINE struct tg_decision tg_host_judge_own(enum tg_own own)
{
	if (own == TG_OWN_NOT)
		return TG_DECIDE(TG_PASS, TG_COUNT_pass_frame);
	if (own == TG_OWN_SOURCE)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_source);
	return TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
}

/* A SYN that would be answered, or an ACK that has verified, once its sums are known. The kernel
 * does not answer what is not intact, and neither do we. */
TG_INLINE struct tg_decision tg_host_judge_intact(enum tg_intact intact)
{
	switch (intact) {
	case TG_INTACT:
		return TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
	case TG_INTACT_ROUTED:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_source_route);
	case TG_INTACT_BAD_OPTIONS:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	default:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_checksum);
	}
}

/* What happens to a SYN, or is counted, when no key of this epoch is loaded. */
TG_INLINE struct tg_decision tg_host_judge_no_key(uint32_t stale_keys)
{
	return stale_keys == TG_STALE_DROP ? TG_DECIDE(TG_DROP, TG_COUNT_drop_no_key)
					   : TG_DECIDE(TG_PASS, TG_COUNT_pass_no_key);
}

/* True while ACKs that do not verify have to pass: for want of a key, SYNs have gone unanswered to the stack behind, and a
 * cookie check knows none of its numbers. `key` is that of the verifier's own epoch. Which epoch such a number seems to name
 * is chance: whether the key of that one is still there must not matter. */
TG_INLINE bool tg_host_fails_open(uint32_t stale_keys, const struct tg_siphash_key *key)
{
	return !key && stale_keys == TG_STALE_PASS;
}

/* What monitor mode counts for a SYN: what would become of it, unless it would pass. */
TG_INLINE enum tg_counter tg_host_monitor(struct tg_decision d)
{
	if (d.verdict == TG_PASS)
		return TG_COUNT_NOTHING;
	return d.verdict == TG_DROP ? TG_COUNT_would_drop : TG_COUNT_would_answer;
}

/* False for an ACK whose lengths lie, in a frame of `frame_len` bytes: the kernel
 * will drop it, so it is neither adopted nor counted. */
TG_INLINE bool tg_host_ack_is_whole(const struct tg_packet *ack, uint32_t frame_len)
{
	return ack->tcp_hdr_len >= TG_TCP_HDR_LEN && ack->tcp_hdr_len <= ack->l4_len &&
	       ack->l4_off + ack->l4_len <= frame_len;
}

/* True if the service still offers what a cookie has negotiated. The kernel refuses to adopt what
 * the system's settings no longer allow: that is not the listener's fault, if the cookie is older
 * than the change. */
TG_INLINE bool tg_host_offers(const struct tg_service *svc, const struct tg_agreed *agreed)
{
	return (!agreed->sack_ok || svc->sack) && (!agreed->ts_ok || svc->timestamps) &&
	       (agreed->wscale == TG_WSCALE_NONE || svc->wscale != TG_WSCALE_NONE);
}

/* Our timestamp clock goes on so many ms after the TSval of the cookie.
 *
 * That TSval holds option bits and MAC, not the time of sending. A kernel that continues from there
 * takes the handshake's round-trip time for 1 ms, whatever it was: it probes for the tail of the
 * first window while that is under way, and RACK and BBR keep 1 ms as the shortest one for a long
 * time. A sample of more than INT_MAX us (2,147,483 ms) it does not use (tcp_rtt_tsopt_us), so that
 * it begins as RFC 6298 2.1 has it, with none. The peer never sees the clock go backwards. */
#define TG_ADOPT_TSVAL_AHEAD_MS (1U << 22)

/* What an ACK says that may carry a cookie. */
struct tg_ack {
	struct tg_cookie cookie;
	uint32_t tsval; /* the client's */
	bool ts_ok;
};

/* `o` are the options of the ACK. */
TG_INLINE struct tg_ack tg_host_read_ack(const struct tg_packet *ack, const struct tg_tcp_options *o)
{
	return (struct tg_ack){
		.cookie = {.isn = ack->ack - 1, .tsval = o->tsecr},
		.tsval = o->tsval,
		.ts_ok = o->ts_ok,
	};
}

#endif
