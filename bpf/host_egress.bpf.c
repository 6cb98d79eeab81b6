/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC egress (TCX), role host: the other direction of host_translate.bpf.c. It is
 * server_egress.bpf.c, which here ignores all packets while no connection is translated, and
 * reinjects nothing that our XDP program would answer.
 */
#define TG_HOST
#include "server_egress.bpf.c"
