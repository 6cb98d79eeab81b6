/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The proxy's decisions: which SYN is answered and with what, which ACK or RST proves its source,
 * what monitor mode counts, what becomes of a segment of a flow that is being set up or has ended.
 * A plane finds service, flow and whitelist entry, calls this, and acts on the small enum that it
 * returns.
 *
 * Must never: look anything up, build a packet, or know which plane asks.
 */
#ifndef TG_PROXY_RULES_H
#define TG_PROXY_RULES_H

#include "challenge.h"
#include "host.h"
#include "proxy_setup.h"

#define TG_RETRY_MS 100 /* a client that retransmits sooner is ignored */
#define TG_DUPLICATES 3 /* what signals a loss to a sender: RFC 5681 section 3.2 */

/* True if a client whose server has accepted must be shown that its data were lost, by duplicates of the
 * window: it has sent some, and nobody has kept them. */
TG_INLINE bool tg_setup_notifies(const struct tg_flow *f, uint8_t first_data)
{
	return first_data != TG_FIRST_DATA_ZERO_WINDOW && f->flags & TG_FLOW_HEARD;
}

/* True if the server's SYN-ACK, should it make the flow ready, is followed by no more than one packet to either side. */
TG_INLINE bool tg_setup_is_simple(const struct tg_flow *f, const struct tg_proxy_service *cfg)
{
	return !(f->flags & TG_FLOW_ASKS) && !tg_setup_notifies(f, cfg->first_data);
}

/* True if such a SYN-ACK is answered by the client's first segment: the box sends the client its window, and the server nothing. */
TG_INLINE bool tg_setup_defers(const struct tg_flow *f, const struct tg_proxy_service *cfg)
{
	return cfg->defer_accept && tg_setup_is_simple(f, cfg);
}

/* True if the client's window and the server's ACK, which tg_flow_window and tg_flow_ack make, are of the same length. */
TG_INLINE bool tg_setup_twins(const struct tg_flow *f, const struct tg_tcp_options *o)
{
	return f->flags & TG_FLOW_TS || !o->ts_ok;
}

/* True if a SYN-ACK that the server repeats, by `port`, is answered with both, the ACK and the client's window:
 * its client has carried nothing yet, so the window may be lost. */
TG_INLINE bool tg_ready_opens_again(const struct tg_flow *f, const struct tg_proxy_service *cfg,
				    uint16_t port)
{
	return cfg->defer_accept && f->waits == TG_FLOW_SILENT && port == f->server_port;
}

/* Where a segment in the server's name comes from, which arrived at `port`, while its flow is being set up. */
enum tg_origin {
	TG_ORIGIN_SERVER,
	TG_ORIGIN_CLIENT, /* who forges it */
	TG_ORIGIN_ROUTE, /* the client's, if there is a route to the server and it leads elsewhere */
};

TG_INLINE enum tg_origin tg_setup_origin(const struct tg_flow *f, uint32_t port, bool bridge)
{
	if (port != f->client_port)
		return TG_ORIGIN_SERVER;
	return bridge ? TG_ORIGIN_CLIENT : TG_ORIGIN_ROUTE;
}

/* ---- SYNs ---- */

/* A SYN to a service whose mode is not off. As for the host role, but there is no listener to
 * consult, and broadcast frames are never SYNs. */
TG_INLINE struct tg_decision tg_proxy_judge_syn(const struct tg_packet *syn,
						enum tg_parse_result result, uint32_t frame_len)
{
	return tg_host_judge_syn(syn, result, frame_len);
}

/* True for a flow that a SYN of its tuple does not replace: the server judges that SYN
 * (RFC 5961 section 4). */
TG_INLINE bool tg_flow_is_live(const struct tg_flow *f)
{
	return f && f->state == TG_FLOW_READY && !(f->flags & TG_FLOW_CLOSED);
}

enum tg_syn_act {
	TG_SYN_FORWARD,
	TG_SYN_DROP,
	TG_SYN_COOKIE, /* answer with a cookie */
	TG_SYN_CACHE, /* keep it, and answer */
	TG_SYN_AUTH, /* forward it if its source is whitelisted; else challenge it */
};

struct tg_syn_rule {
	enum tg_syn_act act;
	enum tg_counter counter; /* beside `syn`; what an answer counts, it counts itself */
};

/* A SYN to a service whose mode is not off. `d` is tg_proxy_judge_syn's, with
 * tg_host_judge_intact's behind it; `live` tg_flow_is_live of its tuple. */
TG_INLINE struct tg_syn_rule tg_proxy_syn(uint32_t mode, uint32_t strategy, struct tg_decision d,
					  bool live)
{
	if (TG_UNLIKELY(live && d.verdict == TG_REPLY))
		d = TG_DECIDE(TG_PASS, TG_COUNT_pass_existing);
	if (TG_UNLIKELY(mode == TG_MODE_MONITOR))
		return (struct tg_syn_rule){TG_SYN_FORWARD, tg_host_monitor(d)};
	if (TG_UNLIKELY(d.verdict != TG_REPLY))
		return (struct tg_syn_rule){d.verdict == TG_DROP ? TG_SYN_DROP : TG_SYN_FORWARD,
					    d.counter};
	if (strategy == TG_STRATEGY_COOKIE)
		return (struct tg_syn_rule){TG_SYN_COOKIE, TG_COUNT_NOTHING};
	return (struct tg_syn_rule){strategy == TG_STRATEGY_CACHE ? TG_SYN_CACHE : TG_SYN_AUTH,
				    TG_COUNT_NOTHING};
}

/* True for a SYN that the gate answers in its server's name, so that a port must be open for it
 * (core/closed_port.h). */
TG_INLINE bool tg_syn_connects(enum tg_syn_act act)
{
	return act == TG_SYN_COOKIE || act == TG_SYN_CACHE;
}

/* ---- ACKs and RSTs without a flow ---- */

/* True for anything but a SYN that is forwarded without checks: in monitor mode, unless cookies may be
 * outstanding, everything, and a first fragment, because handshakes are not fragmented. */
TG_INLINE bool tg_proxy_unasked(const struct tg_service *svc, enum tg_parse_result result)
{
	return (svc->mode == TG_MODE_MONITOR && !svc->verify) || result == TG_PARSE_FRAGMENT;
}

/* True for what may prove its source, in a frame of `frame_len` bytes. A frame with false lengths
 * proves nothing and is not counted: its receiver will drop it. */
TG_INLINE bool tg_proxy_may_prove(uint32_t strategy, const struct tg_packet *pkt, uint32_t frame_len)
{
	if (strategy == TG_STRATEGY_AUTH_WRONG ? !(pkt->flags & TG_TCP_RST) : !tg_host_is_ack(pkt))
		return false;
	return tg_host_ack_is_whole(pkt, frame_len);
}

enum tg_proof {
	TG_PROOF_NONE, /* it goes on to the server */
	TG_PROOF_COOKIE, /* proven and reset if its cookie verifies; else it goes on, and that is counted */
	TG_PROOF_GIVEN, /* to be whitelisted; it goes on */
	TG_PROOF_RESET, /* to be whitelisted, and reset, so that the client retries */
};

/* Under an auth strategy, of what tg_proxy_may_prove and comes from no whitelisted source. */
TG_INLINE enum tg_proof tg_proxy_proof(uint32_t strategy, const struct tg_packet *pkt, uint8_t ttl,
				       const struct tg_siphash_key *key)
{
	if (strategy == TG_STRATEGY_AUTH_COOKIE)
		return TG_PROOF_COOKIE;
	if (strategy == TG_STRATEGY_AUTH_WRONG)
		return TG_PROOF_GIVEN;
	if (strategy == TG_STRATEGY_AUTH_FULL)
		/* of an older connection, too: it shows that the source is real */
		return tg_challenge_answered(pkt, 0, key) ? TG_PROOF_RESET : TG_PROOF_GIVEN;
	return tg_challenge_answered(pkt, ttl, key) ? TG_PROOF_RESET : TG_PROOF_NONE;
}

/* True for an ACK under `cookie` whose cookie did not verify, if it is to be checked once more as a
 * window probe. `f` is a flow of its tuple, or NULL. */
TG_INLINE bool tg_proxy_asks_probe(const struct tg_packet *pkt, const struct tg_flow *f,
				   bool may_prove)
{
	return !f && may_prove && tg_may_be_window_probe(pkt);
}

enum tg_unknown {
	TG_UNKNOWN_FORWARD, /* it may be of a connection that is older than this proxy */
	TG_UNKNOWN_DROP, /* another connection of its tuple is being set up */
	TG_UNKNOWN_TRANSLATE, /* its flow has ended: a retransmission */
};

/* What becomes of a packet that has opened nothing; `f` is a flow of its tuple, or NULL. What goes
 * on, though it might have proven its source, is counted as invalid. */
TG_INLINE enum tg_unknown tg_proxy_unknown(const struct tg_flow *f)
{
	if (!f)
		return TG_UNKNOWN_FORWARD;
	return f->state == TG_FLOW_SETUP ? TG_UNKNOWN_DROP : TG_UNKNOWN_TRANSLATE;
}

/* The shift that was announced to a new flow's client: what was agreed on, and has been forgotten
 * since then, is what the service says. */
TG_INLINE uint8_t tg_proxy_flow_wscale(const struct tg_service *svc,
				       const struct tg_service *advertised)
{
	return advertised->wscale == TG_WSCALE_NONE ? svc->wscale : advertised->wscale;
}

/* ---- segments of a flow ---- */

enum tg_client_segment {
	TG_FROM_CLIENT_TRANSLATE,
	TG_FROM_CLIENT_SETUP, /* the server has not answered yet */
	TG_FROM_CLIENT_NOFLOW, /* the port may have been taken for a new connection */
};

/* What is no SYN, from the client's side. */
TG_INLINE enum tg_client_segment tg_flow_from_client(const struct tg_flow *f,
						     const struct tg_packet *pkt)
{
	if (TG_LIKELY(tg_flow_is_live(f)))
		return TG_FROM_CLIENT_TRANSLATE;
	if (f->state == TG_FLOW_SETUP && (pkt->ack == f->seq_delta + 1 || !(pkt->flags & TG_TCP_ACK)))
		return TG_FROM_CLIENT_SETUP;
	return TG_FROM_CLIENT_NOFLOW;
}

enum tg_server_segment {
	TG_FROM_SERVER_TRANSLATE,
	TG_FROM_SERVER_SETUP,
	TG_FROM_SERVER_REACK, /* its SYN-ACK once more: its handshake is completed again */
	TG_FROM_SERVER_RESTART, /* tg_flow_restart, then translate */
};

/* `port` is that of this box by which it came. */
TG_INLINE enum tg_server_segment tg_flow_from_server(const struct tg_flow *f,
						     const struct tg_packet *pkt, uint16_t port)
{
	if (f->state == TG_FLOW_SETUP)
		return TG_FROM_SERVER_SETUP;
	if (TG_LIKELY((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) != (TG_TCP_SYN | TG_TCP_ACK)))
		return TG_FROM_SERVER_TRANSLATE;
	if (pkt->ack == f->client_isn + 1)
		return TG_FROM_SERVER_REACK;
	return port == f->server_port ? TG_FROM_SERVER_RESTART : TG_FROM_SERVER_TRANSLATE;
}

enum tg_retry {
	TG_RETRY_DROP, /* a RST of other numbers */
	TG_RETRY_GIVES_UP, /* the server is to forget the SYN, too */
	TG_RETRY_EARLY, /* not heard */
	TG_RETRY_SEND, /* the SYN to the server is retransmitted */
};

/* The client's segment while its server has not answered. Notes that it has sent data. */
TG_INLINE enum tg_retry tg_flow_retry(struct tg_flow *f, const struct tg_packet *pkt, uint32_t now_ms)
{
	if (pkt->flags & TG_TCP_RST)
		return pkt->seq == f->client_isn + 1 ? TG_RETRY_GIVES_UP : TG_RETRY_DROP;
	if (pkt->l4_len > pkt->tcp_hdr_len)
		f->flags |= TG_FLOW_HEARD;
	return (uint16_t)(now_ms - f->syn.ms) < TG_RETRY_MS ? TG_RETRY_EARLY : TG_RETRY_SEND;
}

/* Makes a flow ready to be put into the table for the ACK that has verified. `known` is what
 * was learned of its server, or NULL; `port` the client's, in eight bits. */
TG_INLINE void tg_flow_prepare(struct tg_flow *f, const struct tg_packet *ack,
			       struct tg_learned *known, uint32_t now_ms, uint8_t port)
{
	if (TG_UNLIKELY(tg_learned_is_stale(known, now_ms))) {
		f->flags |= TG_FLOW_ASKS;
		if (known)
			known->asked_ms = now_ms; /* one probes, not all that arrive now */
	}
	if (ack->l4_len > ack->tcp_hdr_len)
		f->flags |= TG_FLOW_HEARD;
	f->client_port = port;
}

/* The end of a flow in set-up whose client gives up, for the server: `isn` is
 * tg_flow_syn_isn. */
TG_INLINE struct tg_segment tg_flow_give_up(const struct tg_packet *rst, const struct tg_flow *f,
					    uint32_t isn)
{
	struct tg_segment s = tg_flow_syn(rst, f, isn + 1, false);

	s.flags = TG_TCP_RST;
	s.kind = TG_SEGMENT_PLAIN;
	return s;
}

#endif
