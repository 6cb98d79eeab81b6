// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Vanish makes the kernel forget a connection without a word to the peer, as a reboot does: the socket is
// put into repair mode (TCP_REPAIR) and disconnected. Closing alone would leave the connection there for as
// long as a process that was just forked holds a copy of the descriptor, and its port could not connect to
// the same peer again (EADDRNOTAVAIL). The caller still closes fd.
func Vanish(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
		return fmt.Errorf("TCP_REPAIR: %w", err)
	}
	nobody := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unsafe.Sizeof(nobody)); errno != 0 {
		return fmt.Errorf("disconnect: %w", errno)
	}
	return nil
}
