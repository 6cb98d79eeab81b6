/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that clients are offered, where the last answer does not apply.
 */
#include "advertised.h"

void tg_advertised_find(struct tg_worker *w, const struct tg_packet *pkt, uint32_t id)
{
	const struct tg_proxy_service *proxy_cfg = &w->config->proxy_cfg[id];
	struct tg_server_key key = tg_server_key(pkt, false);
	struct tg_service advertised = tg_proxy_advertised(&w->config->services[id], proxy_cfg,
							   tg_servers_find(&w->servers, &key),
							   pkt->family);

	w->advertised = (struct tg_advertised_last){key, w->config, id, advertised};
}
