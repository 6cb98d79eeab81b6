// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// PingWithExtensions has a word echoed three times over a connection whose client sends
// that many bytes of IPv6 destination options with each of its segments.
func PingWithExtensions(from *rig.Namespace, to netip.AddrPort, size int, patience time.Duration) error {
	var c net.Conn
	err := from.Do(func() (err error) {
		d := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) {
				failed = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, string(load.OptionsExtension(size)))
			})
			if failed != nil {
				err = fmt.Errorf("IPV6_DSTOPTS: %w", failed)
			}
			return err
		}}
		d.SetMultipathTCP(false)
		c, err = d.Dial("tcp6", to.String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	for i := range 3 {
		if _, err := c.Write([]byte("tidegate?")); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		var got [9]byte
		if n, err := c.Read(got[:]); err != nil || string(got[:n]) != "tidegate?" {
			return fmt.Errorf("word %d: got %q, %w", i, got[:n], err)
		}
	}
	return nil
}
