// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

// announceReady writes the line "ready" and notifies the service manager, if there is one (sd_notify(3), READY=1), so that
// `systemctl start` returns when the services are protected. A failed notification is only worth a line of the log.
func announceReady(stdout, stderr io.Writer) {
	fmt.Fprintln(stdout, "ready")
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := notify(path, "READY=1"); err != nil {
		fmt.Fprintf(stderr, "service manager not told that services are protected (NOTIFY_SOCKET=%s): %v\n", path, err)
	}
}

// notify sends one datagram; a path that begins with @ is in the abstract name space, as net takes it.
func notify(path, state string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}
