/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The proxy role. Plane-neutral: a plane parses, finds service, flow and whitelist entry, asks
 * proxy_rules.h, and acts on its decision; the other headers build what is sent and stored.
 *
 *   strategy      first SYN is answered with       whitelisted, or connected, by
 *   cookie        cookie SYN-ACK                   ACK whose cookie verifies: translated
 *   auth-cookie   cookie SYN-ACK                   ACK whose cookie verifies
 *   auth-full     SYN-ACK                          any ACK
 *   auth-wrong    SYN-ACK that acknowledges wrong  any RST
 *   auth-ttl      SYN-ACK                          ACK with the TTL of the SYN
 *   cache         SYN-ACK, and is remembered       ACK of what is remembered: translated;
 *                 if there is no room: as cookie   as cookie, for two epochs from then
 */
#ifndef TG_PROXY_H
#define TG_PROXY_H

#include "challenge.h"
#include "proxy_keys.h"
#include "proxy_rules.h"
#include "proxy_service.h"
#include "proxy_setup.h"
#include "white_bitmap.h"

#endif
