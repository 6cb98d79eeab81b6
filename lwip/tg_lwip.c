/* SPDX-License-Identifier: Apache-2.0
 *
 * SYN-flood defence for unmodified lwIP, called through its hooks.
 *
 * lwIP hands us every segment that found a listener and no connection, before
 * tcp_listen_input() sees it. A SYN is left to lwIP, takes the place of an
 * older half-open connection, or is answered with a cookie. An ACK that returns
 * a cookie gets the PCB that lwIP would have made for its SYN, in SYN_RCVD, and
 * is then given to tcp_input() once more: accepting, data and FIN are lwIP's.
 *
 * lwIP warns hooks not to change TCP state. At a listener it is allowed to us:
 * after the hook, tcp_input() only frees the pbuf and returns (lwIP 2.1.0 to
 * 2.2.1); the tests hold every version that they fetch to that.
 *
 * Must never: allocate but from lwIP's pools, keep anything per client, wait.
 */
#include <string.h>

#include "lwip/inet_chksum.h"
#include "lwip/ip.h"
#include "lwip/priv/memp_priv.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "lwip/sys.h"
#include "tg_lwip_hooks.h"
#include "tg_lwip_layout.h"

#if TG_LWIP_STATS
struct tg_lwip_stats tg_lwip_stats;
#define TG_STATS_INC(field) (++tg_lwip_stats.field)
#else
#define TG_STATS_INC(field)
#endif

/* The whole state of the module. */
static struct {
	struct tg_layout_state layout;
	u32_t clock_ms;      /* sys_now() up to which clock_s has been counted */
	u32_t clock_s;       /* seconds since tg_lwip_init */
	u32_t last_cookie_s; /* when a cookie was last sent */
	u8_t ready;          /* tg_lwip_init was called */
	u8_t cookie_sent;    /* last_cookie_s is valid */
} tg;

void tg_lwip_init(const u8_t secret[TG_LWIP_SECRET_LEN])
{
	memset(&tg, 0, sizeof(tg));
	tg_layout_init(&tg.layout, secret);
	tg.clock_ms = sys_now();
	tg.ready = 1;
}

#if TG_COOKIES
/* Seconds since the start. Summed from differences, so that the wrap of
 * sys_now() after 49.7 days does not matter. */
static u32_t tg_now_s(void)
{
	u32_t elapsed_s = (sys_now() - tg.clock_ms) / 1000;

	tg.clock_ms += elapsed_s * 1000;
	tg.clock_s += elapsed_s;
	return tg.clock_s;
}
#endif

/* An address in core's format. */
static void tg_addr_set(union tg_addr *out, const ip_addr_t *ip)
{
	out->d[0] = out->d[1] = 0;
#if LWIP_IPV6
	if (IP_IS_V6(ip)) {
		memcpy(out->w, ip_2_ip6(ip)->addr, sizeof(ip_2_ip6(ip)->addr));
		return;
	}
#endif
#if LWIP_IPV4
	out->w[0] = ip4_addr_get_u32(ip_2_ip4(ip));
#endif
}

static void tg_tuple_set(struct tg_packet *pkt, const ip_addr_t *src, const ip_addr_t *dst,
			 u16_t src_port, u16_t dst_port)
{
	pkt->family = IP_IS_V6(src) ? 6 : 4;
	tg_addr_set(&pkt->src, src);
	tg_addr_set(&pkt->dst, dst);
	pkt->ports = lwip_htons(src_port) | (u32_t)lwip_htons(dst_port) << 16;
}

#if TG_LWIP_ISN
/* RFC 6528: ISN = M + F(tuple, key), M counting 4 microseconds. The byte 'I'
 * separates F from every hash that a cookie shows. Where keys rotate, F
 * changes with them: a tuple's ISNs then increase only for the life of a key. */
u32_t tg_lwip_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip,
		  u16_t remote_port)
{
	struct tg_packet pkt;

	tg_tuple_set(&pkt, remote_ip, local_ip, remote_port, local_port);
	return sys_now() * 250 + tg_tuple_siphash_u40(&pkt, 0, 'I', &tg.layout.keys.k[0]);
}
#endif

#if TG_LWIP_POLICY != TG_LWIP_POLICY_DROP

static int tg_pool_empty(void)
{
#if MEMP_MEM_MALLOC
	return 0; /* unknown before trying */
#else
	return *memp_pools[MEMP_TCP_PCB]->tab == NULL;
#endif
}

static int tg_is_child(const struct tcp_pcb *pcb, const struct tcp_pcb_listen *lpcb)
{
#if LWIP_CALLBACK_API || TCP_LISTEN_BACKLOG
	return pcb->listener == lpcb;
#else
	return pcb->local_port == lpcb->local_port;
#endif
}

/* The oldest half-open connection of one listener, or of all
 * (NULL). lwIP inserts new ones at the front and counts age in half seconds, so of
 * equals the last is the oldest. `count` is set to their number. */
static struct tcp_pcb *tg_oldest_half_open(const struct tcp_pcb_listen *lpcb, u32_t *count)
{
	struct tcp_pcb *pcb, *oldest = NULL;
	u32_t oldest_age = 0;

	*count = 0;
	for (pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next) {
		u32_t age = tcp_ticks - pcb->tmr;

		if (pcb->state != SYN_RCVD || (lpcb != NULL && !tg_is_child(pcb, lpcb)))
			continue;
		++*count;
		if (age >= oldest_age) {
			oldest = pcb;
			oldest_age = age;
		}
	}
	return oldest;
}

/* Drops the oldest half-open connection, without a RST to an address that
 * was most likely forged. */
static void tg_recycle(const struct tcp_pcb_listen *lpcb)
{
	u32_t count;
	struct tcp_pcb *oldest = tg_oldest_half_open(lpcb, &count);

	if (oldest != NULL) {
		TG_STATS_INC(recycled);
		tcp_abandon(oldest, 0);
	}
}

static int tg_backlog_full(const struct tcp_pcb_listen *lpcb)
{
#if TCP_LISTEN_BACKLOG
	return lpcb->accepts_pending >= lpcb->backlog;
#else
	LWIP_UNUSED_ARG(lpcb);
	return 0;
#endif
}

#if TG_COOKIES

/* Copies the options into one piece and parses them. */
static void tg_options_get(struct tg_tcp_options *o, const struct tcp_hdr *hdr, u16_t opt_len,
			   u16_t opt1_len, const u8_t *opt2)
{
	struct tg_options_cursor c;

	c.at = 0;
	c.len = opt_len;
	memcpy(c.bytes, hdr + 1, opt1_len);
	if (opt2 != NULL)
		memcpy(c.bytes + opt1_len, opt2, (size_t)(opt_len - opt1_len));
	*o = tg_tcp_options_parse(&c);
}

static struct netif *tg_route(const struct tcp_pcb_listen *lpcb)
{
	if (lpcb->netif_idx != NETIF_NO_INDEX)
		return netif_get_by_index(lpcb->netif_idx);
	return ip_route(ip_current_dest_addr(), ip_current_src_addr());
}

/* What lwIP's own SYN-ACK would offer to this SYN, without what the layout cannot
 * restore later. */
static void tg_options_answer(struct tg_tcp_options *answer, const struct tg_tcp_options *offered,
			      struct netif *netif)
{
	memset(answer, 0, sizeof(*answer));
#if TCP_CALCULATE_EFF_SEND_MSS
	answer->mss = tcp_eff_send_mss_netif(TCP_MSS, netif, ip_current_src_addr());
#else
	LWIP_UNUSED_ARG(netif);
	answer->mss = TCP_MSS;
#endif
	answer->wscale = TG_WSCALE_NONE;
#if TG_KEEPS_WSCALE
	if (offered->wscale != TG_WSCALE_NONE)
		answer->wscale = TCP_RCV_SCALE;
#endif
#if TG_KEEPS_SACK
	answer->sack_ok = offered->sack_ok;
#endif
#if LWIP_TCP_TIMESTAMPS
	answer->ts_ok = offered->ts_ok;
	answer->tsval = sys_now();
	answer->tsecr = offered->tsval;
#endif
	LWIP_UNUSED_ARG(offered);
}

/* Answers a SYN with a cookie; stores nothing. */
static void tg_cookie_send(const struct tcp_pcb_listen *lpcb, const struct tcp_hdr *syn,
			   const struct tg_packet *pkt, const struct tg_tcp_options *offered)
{
	struct netif *netif = tg_route(lpcb);
	struct tg_tcp_options answer;
	struct tcp_hdr *hdr;
	struct pbuf *p = NULL;
	struct tg_writer w;
	uint64_t sum = 0;
	u32_t now_s = tg_now_s();
	u16_t len;

	tg_options_answer(&answer, offered, netif);
	len = (u16_t)(TCP_HLEN + tg_tcp_options_len(&answer));
	if (netif != NULL)
		p = pbuf_alloc(PBUF_IP, len, TG_LWIP_PBUF_TYPE);
	if (p == NULL || p->len != len) {
		TG_STATS_INC(cookie_nomem);
		if (p != NULL)
			pbuf_free(p);
		return;
	}
	hdr = (struct tcp_hdr *)p->payload;
	hdr->src = lwip_htons(syn->dest);
	hdr->dest = lwip_htons(syn->src);
	hdr->seqno = lwip_htonl(tg_layout_make(&tg.layout, pkt, offered, now_s));
	hdr->ackno = lwip_htonl(syn->seqno + 1);
	TCPH_HDRLEN_FLAGS_SET(hdr, len / 4, TCP_SYN | TCP_ACK);
	hdr->wnd = lwip_htons((u16_t)TCPWND_MIN16(TCP_WND));
	hdr->chksum = 0;
	hdr->urgp = 0;
	w.at = (uint8_t *)(hdr + 1);
	w.end = (uint8_t *)hdr + len;
	tg_tcp_options_write(&w, &answer, &sum); /* cannot fail: len was computed for it */
#if CHECKSUM_GEN_TCP
	IF__NETIF_CHECKSUM_ENABLED(netif, NETIF_CHECKSUM_GEN_TCP)
	{
		hdr->chksum = ip_chksum_pseudo(p, IP_PROTO_TCP, p->tot_len, ip_current_dest_addr(),
					       ip_current_src_addr());
	}
#endif
	TCP_STATS_INC(tcp.xmit);
	ip_output_if(p, ip_current_dest_addr(), ip_current_src_addr(), lpcb->ttl, lpcb->tos,
		     IP_PROTO_TCP, netif);
	pbuf_free(p);
	tg.last_cookie_s = now_s;
	tg.cookie_sent = 1;
	TG_STATS_INC(cookie_sent);
}

/* A PCB for a client that has proven its address: a half-open connection is dropped
 * for it if necessary. NULL if there is still no room. */
static struct tcp_pcb *tg_pcb_alloc(const struct tcp_pcb_listen *lpcb)
{
#if TCP_LISTEN_BACKLOG
	if (tg_backlog_full(lpcb)) {
		u32_t half_open;

		tg_oldest_half_open(lpcb, &half_open);
		if ((u32_t)lpcb->accepts_pending - half_open >= lpcb->backlog)
			return NULL; /* full of connections that the application has not accepted */
	}
#endif
	if (tg_pool_empty())
		tg_recycle(NULL);
	return tcp_alloc(lpcb->prio);
}

/* What the cookie and the ACK say of the client's options. */
static void tg_pcb_options(struct tcp_pcb *pcb, const struct tg_agreed *agreed,
			   const struct tg_tcp_options *on_ack)
{
	pcb->mss = LWIP_MIN(agreed->mss, TCP_MSS);
#if TCP_CALCULATE_EFF_SEND_MSS
	pcb->mss = tcp_eff_send_mss(pcb->mss, &pcb->local_ip, &pcb->remote_ip);
#endif
#if TG_KEEPS_WSCALE
	if (agreed->wscale != TG_WSCALE_NONE) {
		pcb->snd_scale = agreed->wscale;
		pcb->rcv_scale = TCP_RCV_SCALE;
		tcp_set_flags(pcb, TF_WND_SCALE);
		pcb->rcv_wnd = pcb->rcv_ann_wnd = TCP_WND;
	}
#endif
#if TG_KEEPS_SACK
	if (agreed->sack_ok)
		tcp_set_flags(pcb, TF_SACK);
#endif
#if LWIP_TCP_TIMESTAMPS
	/* RFC 7323: once negotiated, timestamps are in every segment; else in none.
	 * tcp_input() takes TS.Recent from this ACK. */
	if (on_ack->ts_ok) {
		pcb->ts_lastacksent = pcb->rcv_nxt;
		tcp_set_flags(pcb, TF_TIMESTAMP);
	}
#endif
	LWIP_UNUSED_ARG(on_ack);
}

/* Sets the PCB to the state in which tcp_listen_input() leaves it after its SYN-ACK. */
static struct tcp_pcb *tg_pcb_rebuild(struct tcp_pcb_listen *lpcb, const struct tcp_hdr *ack,
				      const struct tg_agreed *agreed,
				      const struct tg_tcp_options *on_ack)
{
	struct tcp_pcb *pcb = tg_pcb_alloc(lpcb);
	u32_t isn = ack->ackno - 1;

	if (pcb == NULL)
		return NULL;
	ip_addr_copy(pcb->local_ip, *ip_current_dest_addr());
	ip_addr_copy(pcb->remote_ip, *ip_current_src_addr());
	pcb->local_port = lpcb->local_port;
	pcb->remote_port = ack->src;
	pcb->state = SYN_RCVD;
	pcb->rcv_nxt = ack->seqno;
	pcb->rcv_ann_right_edge = pcb->rcv_nxt + TCPWND_MIN16(TCP_WND); /* announced in the SYN-ACK */
	pcb->snd_wl2 = isn;
	pcb->lastack = isn;
	pcb->snd_nxt = isn + 1;
	pcb->snd_lbb = isn + 1;
	pcb->snd_wl1 = ack->seqno - 2; /* so that this ACK updates the window */
	pcb->callback_arg = lpcb->callback_arg;
#if LWIP_CALLBACK_API || TCP_LISTEN_BACKLOG
	pcb->listener = lpcb;
#endif
	pcb->so_options = lpcb->so_options & SOF_INHERITED;
	pcb->netif_idx = lpcb->netif_idx;
	TCP_REG_ACTIVE(pcb);
	tg_pcb_options(pcb, agreed, on_ack);
	MIB2_STATS_INC(mib2.tcppassiveopens);
#if LWIP_TCP_PCB_NUM_EXT_ARGS
	if (tcp_ext_arg_invoke_callbacks_passive_open(lpcb, pcb) != ERR_OK) {
		tcp_abandon(pcb, 0);
		return NULL;
	}
#endif
	return pcb;
}

/* Undoes what tcp_input() has done to the segment so far and passes it
 * to tcp_input() again, which now finds a connection. The caller keeps its reference. */
static void tg_reinput(struct pbuf *p, struct tcp_hdr *hdr, u16_t opt_len, u16_t opt1_len,
		       const u8_t *opt2)
{
	hdr->src = lwip_htons(hdr->src);
	hdr->dest = lwip_htons(hdr->dest);
	hdr->seqno = lwip_htonl(hdr->seqno);
	hdr->ackno = lwip_htonl(hdr->ackno);
	hdr->wnd = lwip_htons(hdr->wnd);
	if (opt2 != NULL) {
		u16_t opt2_len = (u16_t)(opt_len - opt1_len);

		pbuf_add_header_force(p->next, opt2_len);
		p->tot_len = (u16_t)(p->tot_len + opt2_len);
	}
	pbuf_add_header_force(p, (size_t)TCP_HLEN + opt1_len);
	/* One segment, counted once. */
#if TCP_STATS
	lwip_stats.tcp.recv--;
#endif
#if MIB2_STATS
	lwip_stats.mib2.tcpinsegs--;
#endif
	pbuf_ref(p);
	tcp_input(p, ip_current_input_netif());
}

/* An ACK at a listener. Other than ERR_OK: it has been handled. */
static err_t tg_ack_input(struct tcp_pcb_listen *lpcb, struct tcp_hdr *hdr, u16_t opt_len,
			  u16_t opt1_len, u8_t *opt2, struct pbuf *p)
{
	struct tg_tcp_options on_ack;
	struct tg_agreed agreed;
	struct tg_packet pkt;
	u32_t now_s = tg_now_s();

	/* If no cookie has been sent for the lifetime of one, none can come
	 * back: an ACK flood alone costs no hash and cannot succeed. */
	if (!tg.cookie_sent || now_s - tg.last_cookie_s >= TG_LIFE_S) {
		tg.cookie_sent = 0;
		TG_STATS_INC(cookie_idle);
		return ERR_OK;
	}
	tg_tuple_set(&pkt, ip_current_src_addr(), ip_current_dest_addr(), hdr->src, hdr->dest);
	pkt.seq = hdr->seqno;
	pkt.ack = hdr->ackno;
	if (!tg_layout_verify(&tg.layout, &pkt, now_s, &agreed)) {
		TG_STATS_INC(cookie_invalid);
		return ERR_OK; /* lwIP answers with a RST */
	}
	tg_options_get(&on_ack, hdr, opt_len, opt1_len, opt2);
	if (tg_pcb_rebuild(lpcb, hdr, &agreed, &on_ack) == NULL) {
		/* Silence: the client will retransmit its data, with this cookie. */
		TG_STATS_INC(rebuild_full);
		TCP_STATS_INC(tcp.memerr);
		return ERR_MEM;
	}
	TG_STATS_INC(cookie_valid);
	tg_reinput(p, hdr, opt_len, opt1_len, opt2);
	return ERR_USE;
}

#endif /* TG_COOKIES */

/* A SYN at a listener. Other than ERR_OK: it has been handled. */
static err_t tg_syn_input(struct tcp_pcb_listen *lpcb, const struct tcp_hdr *hdr, u16_t opt_len,
			  u16_t opt1_len, const u8_t *opt2)
{
#if TG_COOKIES
	if (TG_LWIP_POLICY == TG_LWIP_POLICY_COOKIES_ALWAYS || tg_backlog_full(lpcb) ||
	    tg_pool_empty()) {
		struct tg_tcp_options offered;
		struct tg_packet pkt;

		tg_options_get(&offered, hdr, opt_len, opt1_len, opt2);
		if (offered.mss == 0) /* RFC 9293 section 3.7.1 */
			offered.mss = IP_IS_V6(ip_current_src_addr()) ? 1220 : 536;
		tg_tuple_set(&pkt, ip_current_src_addr(), ip_current_dest_addr(), hdr->src,
			     hdr->dest);
		pkt.seq = hdr->seqno;
		tg_cookie_send(lpcb, hdr, &pkt, &offered);
		return ERR_USE;
	}
#else
	LWIP_UNUSED_ARG(hdr);
	LWIP_UNUSED_ARG(opt_len);
	LWIP_UNUSED_ARG(opt1_len);
	LWIP_UNUSED_ARG(opt2);
	if (tg_backlog_full(lpcb))
		tg_recycle(lpcb);
	else if (tg_pool_empty())
		tg_recycle(NULL);
#endif
	TG_STATS_INC(syn_queued);
	return ERR_OK;
}

err_t tg_lwip_inpacket(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t opt_len, u16_t opt1_len,
		       u8_t *opt2, struct pbuf *p)
{
	struct tcp_pcb_listen *lpcb = (struct tcp_pcb_listen *)pcb;
	u8_t flags;

	if (pcb->state != LISTEN || !tg.ready)
		return ERR_OK;
	flags = TCPH_FLAGS(hdr);
	if (flags & TCP_SYN) {
		if (flags & (TCP_RST | TCP_FIN)) {
			TG_STATS_INC(syn_bad);
			return ERR_VAL;
		}
		return flags & TCP_ACK ? ERR_OK : tg_syn_input(lpcb, hdr, opt_len, opt1_len, opt2);
	}
#if TG_COOKIES
	if ((flags & (TCP_ACK | TCP_RST)) == TCP_ACK)
		return tg_ack_input(lpcb, hdr, opt_len, opt1_len, opt2, p);
#else
	LWIP_UNUSED_ARG(p);
#endif
	return ERR_OK;
}

#endif /* TG_LWIP_POLICY != TG_LWIP_POLICY_DROP */
