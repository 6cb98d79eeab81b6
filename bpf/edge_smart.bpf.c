/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge (edge_xdp.bpf.c) with cookies in the layout smartcookie. A separate object, so that the
 * usual layout pays nothing for the choice.
 */
#define TG_EDGE_SMART
#include "edge_xdp.bpf.c"
