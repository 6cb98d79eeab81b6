/* SPDX-License-Identifier: Apache-2.0
 *
 * The translating server without a kernel, beside replay_plane.h: the calls into core/ of
 * bpf/server_xdp.bpf.c, server_ingress.bpf.c and server_egress.bpf.c and of what they include, on their
 * slow path alone. No socket has a connection; what listens is the service's port of one address
 * of each family.
 */
#ifndef TG_TEST_REPLAY_SERVER_H
#define TG_TEST_REPLAY_SERVER_H

#include "commands.h"
#include "replay_plane.h"

/* Commands; see `commands` in replay.c. */
bool do_server(const char *args);
bool do_server_edge(const char *args);
bool do_server_xdp(const char *args);
bool do_server_ingress(const char *args);
bool do_server_confirm(const char *args);
bool do_server_egress(const char *args);
void server_reset(void);

#endif
