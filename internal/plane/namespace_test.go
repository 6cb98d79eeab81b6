// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// inNamespace runs do on a thread that ends in a new network namespace.
func inNamespace(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}
