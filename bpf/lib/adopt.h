/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Has the kernel make a connection from a verified ACK, and records what that shows about this
 * listener (core/listener.h): for its socket, never for what userspace finds there later, and for
 * no other listener of the service.
 *
 * Must never: record anything that a frame or a cookie is the reason for.
 */
#ifndef TG_BPF_ADOPT_H
#define TG_BPF_ADOPT_H

#include "listeners.h"
#include "sock_fields.h"

/* The MSS for the kernel, which accepts none below its minimum. */
static __always_inline __u16 tg_mss_adopted(__u8 family, const struct tg_agreed *agreed)
{
	__u16 least = tg_mss_least(family);

	return agreed->mss > least ? agreed->mss : least;
}

/* Hands the connection to the kernel. 0, or a negative error of the kfunc. */
static __always_inline int tg_adopt(struct __sk_buff *skb, struct tcp_sock *listener, __u8 family,
				    const struct tg_ack *ack, const struct tg_agreed *agreed,
				    const struct tg_service *svc)
{
	bool wscale = agreed->wscale != TG_WSCALE_NONE;
	struct bpf_tcp_req_attrs attrs = {
		.rcv_tsval = ack->tsval,
		.rcv_tsecr = ack->cookie.tsval + TG_ADOPT_TSVAL_AHEAD_MS,
		.mss = tg_mss_adopted(family, agreed),
		.wscale_ok = wscale,
		.snd_wscale = wscale ? agreed->wscale : 0,
		.rcv_wscale = wscale ? svc->wscale : 0,
		.sack_ok = agreed->sack_ok,
		.tstamp_ok = agreed->ts_ok,
		.ecn_ok = agreed->ecn_ok,
	};

	return bpf_sk_assign_tcp_reqsk(skb, (struct sock *)listener, &attrs, sizeof(attrs));
}

/* Records a refusal for the listener that refused: in the entry of the place that its socket is
 * bound to, unless another socket has taken that place since userspace looked. `sk` listens. */
TG_GLOBAL int tg_refusal_note(const struct tg_listener_key *at, __u64 cookie, __u32 why, __u32 isn)
{
	struct tg_listener_key key;
	struct tg_listener_entry *e;

	if (!at)
		return 0;
	key = *at; /* Linux 6.1 takes no other memory than the stack's as a key */
	e = bpf_map_lookup_elem(&tg_listeners, &key);
	if (!e && why == TG_REFUSAL_MPTCP) {
		/* Userspace has not seen it. Once for each such listener, of a map that has
		 * all its room from the start. */
		struct tg_listener_entry fresh = {.cookie = cookie, .state = TG_LISTENER_OK};

		bpf_map_update_elem(&tg_listeners, &key, &fresh, BPF_NOEXIST);
		e = bpf_map_lookup_elem(&tg_listeners, &key);
	}
	/* What is proven about this socket holds whatever was there before. */
	if (!e || (why != TG_REFUSAL_MPTCP && !tg_listener_is(e, cookie)))
		return 0;
	if (why == TG_REFUSAL_MPTCP)
		e->cookie = cookie; /* so that userspace sees whether it is there still */
	return tg_listener_refused(e, (enum tg_refusal)why, isn, TG_CLOCK_NS());
}

/* The place that a listener is bound to, for packets of a family. */
static __always_inline void tg_listener_key_of(const struct bpf_sock *sk, const struct tg_packet *pkt,
					       struct tg_listener_key *key)
{
	key->port_be = TG_DST_PORT_BE(pkt);
	key->family = pkt->family;
	if (pkt->family == 4) {
		key->addr.w[0] = sk->src_ip4;
		return;
	}
	key->addr.w[0] = sk->src_ip6[0];
	key->addr.w[1] = sk->src_ip6[1];
	key->addr.w[2] = sk->src_ip6[2];
	key->addr.w[3] = sk->src_ip6[3];
}

/* Adopts the ACK for the listener, and notes what that shows of the listener. True if it
 * worked. `proves`: that will be seen by the socket (lib/proof.h). */
static __always_inline bool tg_listener_adopt(struct __sk_buff *skb, struct bpf_sock *sk,
					      const struct tg_packet *pkt, const struct tg_ack *ack,
					      const struct tg_agreed *agreed,
					      struct tg_service *svc, bool proves)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	enum tg_refusal why = TG_REFUSAL_MPTCP;
	struct tg_listener_key key = {};
	__u64 cookie;
	int err;

	if (!tp)
		return false;
	if (TG_UNLIKELY(tg_sock_takes_no_cookies(tp))) {
		tg_bell_ring(TG_BELL_REFUSED, tg_swap16(TG_DST_PORT_BE(pkt)));
		return false; /* which is no listener's fault */
	}
	if (TG_LIKELY(!tg_sock_is_mptcp(tp))) {
		err = tg_adopt(skb, tp, pkt->family, ack, agreed, svc);
		/* Any error but this (no memory) is of the moment, and so is a listener that
		 * is being closed; the client's next segment tries again. A cookie that is
		 * older than a change of the system's settings is not the listener's fault. */
		if (err && (err != -TG_EINVAL || sk->state != BPF_TCP_LISTEN ||
			    !tg_host_offers(svc, agreed)))
			return false;
		why = err ? TG_REFUSAL_UNEXPLAINED : TG_REFUSAL_NONE;
	}
	tg_listener_key_of(sk, pkt, &key);
	cookie = tg_sock_cookie(tp);
	if (why == TG_REFUSAL_NONE && proves)
		return true; /* no news before its socket is there */
	if (why == TG_REFUSAL_NONE) {
		struct tg_listener_entry *e = bpf_map_lookup_elem(&tg_listeners, &key);

		if (e && tg_listener_is(e, cookie))
			tg_listener_adopted(e);
		return true;
	}
	if (tg_refusal_note(&key, cookie, why, ack->cookie.isn))
		*tg_service_listener_at(svc, key.family) = TG_LISTENER_VARIES;
	/* A listener for both families has two places, and is MPTCP at either. */
	if (why == TG_REFUSAL_MPTCP && sk->family == TG_AF_INET6 && !key.addr.d[0] &&
	    !key.addr.d[1] && !tg_sock_is_ipv6only(tp)) {
		key.family = key.family == 4 ? 6 : 4;
		if (tg_refusal_note(&key, cookie, why, ack->cookie.isn))
			*tg_service_listener_at(svc, key.family) = TG_LISTENER_VARIES;
	}
	tg_bell_ring(TG_BELL_REFUSED, tg_swap16(key.port_be));
	return false;
}

#endif
