/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge without a kernel, beside replay_plane.h: the calls into core/ of bpf/edge_xdp.bpf.c and of what it includes, on
 * their slow path alone, as a bridge of two ports. Time stands still: allowances are what the world gives, no flow
 * becomes known by chance (`edge-refresh`), and no port is learned to be closed.
 */
#ifndef TG_TEST_REPLAY_EDGE_H
#define TG_TEST_REPLAY_EDGE_H

#include "commands.h"
#include "replay_plane.h"

/* Commands; see `commands` in replay.c. */
bool do_edge(const char *args);
bool do_edge_xdp(const char *args);
bool do_edge_refresh(const char *args);
void edge_reset(void);

#endif
