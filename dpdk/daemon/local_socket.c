/* SPDX-License-Identifier: Apache-2.0
 *
 * local_socket.h.
 */
#include "local_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "say.h"

int tg_local_listen(const char *path, int type)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(a.sun_path)) {
		tg_say("--socket: the path is too long");
		return -1;
	}
	strcpy(a.sun_path, path);
	(void)unlink(path);
	umask(0077); /* keys and frames go through it */
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4)) {
		tg_say("--socket %s: %s", path, strerror(errno));
		return -1;
	}
	return fd;
}
