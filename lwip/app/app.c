/* SPDX-License-Identifier: Apache-2.0
 *
 * See app.h. No heap and no printf: the page is put together by hand.
 */
#include "app.h"

#include <string.h>

#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "lwip/sys.h"
#include "lwip/tcp.h"
#include "lwip/udp.h"
#include "tg_lwip.h"

#define TEXT_MAX 1024
#define HTTP_MSS_MIN 64

static struct {
	u32_t sink_bytes, sink_accepted, http_served;
	u32_t beacon_due_ms;
	struct udp_pcb *beacon;
	ip_addr_t lab_ip;
} app;

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_secret(struct app_config *config, const char *value, size_t len)
{
	size_t i;

	if (len != 64)
		return -1;
	for (i = 0; i < 32; i++) {
		int hi = hex_digit(value[2 * i]), lo = hex_digit(value[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -1;
		config->secret[i] = (u8_t)(hi << 4 | lo);
	}
	config->have_secret = 1;
	return 0;
}

static int parse_number(const char *value, size_t len, u32_t max)
{
	u32_t v = 0;
	size_t i;

	if (len == 0 || len > 5)
		return -1;
	for (i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9')
			return -1;
		v = v * 10 + (u32_t)(value[i] - '0');
	}
	return v > max ? -1 : (int)v;
}

static int parse_pair(struct app_config *config, const char *key, size_t key_len, const char *value,
		      size_t value_len)
{
	int n;

	if (key_len == 6 && memcmp(key, "secret", 6) == 0)
		return parse_secret(config, value, value_len);
	n = parse_number(value, value_len, 255);
	if (n < 0)
		return -1;
	if (key_len == 5 && memcmp(key, "queue", 5) == 0 && n > 0)
		config->queue = (u16_t)n;
	else if (key_len == 6 && memcmp(key, "beacon", 6) == 0)
		config->beacon = n != 0;
	else if (key_len == 5 && memcmp(key, "bench", 5) == 0)
		config->bench = n != 0;
	else
		return -1;
	return 0;
}

int app_config_parse(struct app_config *config, const char *args)
{
	memset(config, 0, sizeof(*config));
	config->queue = 8;
	while (*args) {
		size_t len = strcspn(args, " "), key_len = strcspn(args, "= ");

		/* The first word is the image's name, which has no '='. */
		if (key_len < len &&
		    parse_pair(config, args, key_len, args + key_len + 1, len - key_len - 1) != 0)
			return -1;
		args += len;
		while (*args == ' ')
			args++;
	}
	return 0;
}

void app_netif_addresses(struct netif *netif)
{
	ip4_addr_t ip, mask, gw;
	ip6_addr_t ip6;

	IP4_ADDR(&ip, 198, 18, 7, 2);
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gw, 198, 18, 7, 1);
	netif_set_addr(netif, &ip, &mask, &gw);
	netif_create_ip6_linklocal_address(netif, 1);
	netif_ip6_addr_set_state(netif, 0, IP6_ADDR_PREFERRED);
	IP6_ADDR(&ip6, PP_HTONL(0xfd7d7467), PP_HTONL(0x00070000), 0, PP_HTONL(2));
	ip6_addr_assign_zone(&ip6, IP6_UNICAST, netif);
	netif_ip6_addr_set(netif, 1, &ip6);
	netif_ip6_addr_set_state(netif, 1, IP6_ADDR_PREFERRED);
	ip_addr_copy_from_ip4(app.lab_ip, gw);
}

/* ---- the sink ---- */

static err_t sink_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	LWIP_UNUSED_ARG(arg);
	LWIP_UNUSED_ARG(err);
	if (p == NULL)
		return tcp_close(pcb);
	app.sink_bytes += p->tot_len;
	tcp_recved(pcb, p->tot_len);
	pbuf_free(p);
	return ERR_OK;
}

static err_t sink_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
	LWIP_UNUSED_ARG(arg);
	if (err != ERR_OK || pcb == NULL)
		return ERR_VAL;
	app.sink_accepted++;
	tcp_recv(pcb, sink_recv);
	return ERR_OK;
}

/* ---- the status page ---- */

struct text {
	char bytes[TEXT_MAX];
	u16_t len;
};

static void put(struct text *t, const char *s)
{
	while (*s && t->len < TEXT_MAX)
		t->bytes[t->len++] = *s++;
}

static void put_u32(struct text *t, u32_t v)
{
	char digits[11];
	int i = 10;

	digits[i] = 0;
	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	put(t, digits + i);
}

static void field(struct text *t, const char *name, u32_t v)
{
	put(t, t->bytes[t->len - 1] == '{' ? "\"" : ",\"");
	put(t, name);
	put(t, "\":");
	put_u32(t, v);
}

static u32_t half_open(void)
{
	const struct tcp_pcb *pcb;
	u32_t n = 0;

	for (pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
		n += pcb->state == SYN_RCVD;
	return n;
}

static void page(struct text *t)
{
	t->len = 0;
	put(t, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{");
	field(t, "uptime_ms", sys_now());
	field(t, "http_served", app.http_served);
	field(t, "sink_bytes", app.sink_bytes);
	field(t, "sink_accepted", app.sink_accepted);
	field(t, "half_open", half_open());
	field(t, "pcb_used", lwip_stats.memp[MEMP_TCP_PCB]->used);
	field(t, "seg_used", lwip_stats.memp[MEMP_TCP_SEG]->used);
	field(t, "pool_used", lwip_stats.memp[MEMP_PBUF_POOL]->used);
	field(t, "pool_err", lwip_stats.memp[MEMP_PBUF_POOL]->err);
	field(t, "heap_used", lwip_stats.mem.used);
	field(t, "tcp_recv", lwip_stats.tcp.recv);
	field(t, "tcp_chkerr", lwip_stats.tcp.chkerr);
#if TG_LWIP_STATS
	field(t, "syn_queued", tg_lwip_stats.syn_queued);
	field(t, "syn_bad", tg_lwip_stats.syn_bad);
	field(t, "recycled", tg_lwip_stats.recycled);
	field(t, "cookie_sent", tg_lwip_stats.cookie_sent);
	field(t, "cookie_nomem", tg_lwip_stats.cookie_nomem);
	field(t, "cookie_valid", tg_lwip_stats.cookie_valid);
	field(t, "cookie_invalid", tg_lwip_stats.cookie_invalid);
	field(t, "cookie_idle", tg_lwip_stats.cookie_idle);
	field(t, "rebuild_full", tg_lwip_stats.rebuild_full);
#endif
	put(t, "}\n");
}

static err_t http_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	static struct text t;
	char end[4] = {0};

	LWIP_UNUSED_ARG(arg);
	LWIP_UNUSED_ARG(err);
	if (p == NULL)
		return tcp_close(pcb);
	tcp_recved(pcb, p->tot_len);
	/* A request ends at its empty line; one in several segments is
	 * answered when the last has arrived. */
	if (p->tot_len >= 4)
		pbuf_copy_partial(p, end, 4, (u16_t)(p->tot_len - 4));
	pbuf_free(p);
	if (memcmp(end, "\r\n\r\n", 4) != 0)
		return ERR_OK;
	app.http_served++;
	page(&t);
	/* lwIP's tcp_write() asserts on an MSS that is too small for its own
	 * options; no honest client has one. */
	if (pcb->mss < HTTP_MSS_MIN || tcp_write(pcb, t.bytes, t.len, TCP_WRITE_FLAG_COPY) != ERR_OK) {
		tcp_abort(pcb);
		return ERR_ABRT;
	}
	return tcp_close(pcb);
}

static err_t http_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
	LWIP_UNUSED_ARG(arg);
	if (err != ERR_OK || pcb == NULL)
		return ERR_VAL;
	tcp_recv(pcb, http_recv);
	return ERR_OK;
}

/* ---- the beacon ----
 * Eight words of 4 bytes, little-endian:
 *
 *   "TGB1" | device time in ms | bytes sunk | TCP segments received |
 *   cookies sent | connections recycled | half-open connections |
 *   microseconds slept                                                    */
#define BEACON_WORDS 8

static void put32(u8_t *b, u32_t v)
{
	b[0] = (u8_t)v;
	b[1] = (u8_t)(v >> 8);
	b[2] = (u8_t)(v >> 16);
	b[3] = (u8_t)(v >> 24);
}

void app_poll(void)
{
	u32_t now_ms = sys_now();
	struct pbuf *p;
	u8_t *b;

	if (app.beacon == NULL || (s32_t)(now_ms - app.beacon_due_ms) < 0)
		return;
	app.beacon_due_ms = now_ms + APP_BEACON_INTERVAL_MS;
	p = pbuf_alloc(PBUF_TRANSPORT, BEACON_WORDS * 4, PBUF_RAM);
	if (p == NULL)
		return;
	b = p->payload;
	memcpy(b, "TGB1", 4);
	put32(b + 4, now_ms);
	put32(b + 8, app.sink_bytes);
	put32(b + 12, lwip_stats.tcp.recv);
#if TG_LWIP_STATS
	put32(b + 16, tg_lwip_stats.cookie_sent);
	put32(b + 20, tg_lwip_stats.recycled);
#else
	memset(b + 16, 0, 8);
#endif
	put32(b + 24, half_open());
	put32(b + 28, app_idle_us());
	udp_sendto(app.beacon, p, &app.lab_ip, APP_BEACON_PORT);
	pbuf_free(p);
}

static void listen_on(u16_t port, u8_t queue, tcp_accept_fn accept)
{
	struct tcp_pcb *pcb = tcp_new_ip_type(IPADDR_TYPE_ANY);

	LWIP_ASSERT("a pcb for the listener", pcb != NULL);
	tcp_bind(pcb, IP_ANY_TYPE, port);
	pcb = tcp_listen_with_backlog(pcb, queue);
	LWIP_ASSERT("a listener", pcb != NULL);
	tcp_accept(pcb, accept);
}

void app_start(const struct app_config *config)
{
	listen_on(APP_SINK_PORT, (u8_t)config->queue, sink_accept);
	listen_on(APP_HTTP_PORT, (u8_t)config->queue, http_accept);
	if (config->beacon) {
		app.beacon = udp_new();
		app.beacon_due_ms = sys_now();
	}
}
