// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errCgo: then the threads of others cannot be reached.
var errCgo = errors.New("tidegate-bgp was built with cgo and cannot give up its privileges; build it with CGO_ENABLED=0, as `make build` does")

// dropPrivileges gives up every capability, of all threads and for ever: `tidegate run`, which starts this program, has some, and
// opening connections needs none.
func dropPrivileges() error {
	if _, _, err := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); err == syscall.ENOTSUP {
		return errCgo
	} else if err != 0 {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, err := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); err != 0 {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); err != 0 {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
