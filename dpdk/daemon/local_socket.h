/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of the file system, for the program's own user only.
 */
#ifndef TG_DPDK_LOCAL_SOCKET_H
#define TG_DPDK_LOCAL_SOCKET_H

/* Listens at a path, in place of whatever is there, without ever waiting. -1 on error, which has been printed. */
int tg_local_listen(const char *path, int type);

#endif
