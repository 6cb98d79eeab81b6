// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// CountOpens counts, from now on, how often any process opens a file; the result returns the count so far.
func CountOpens(t *testing.T, path string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	// Watch closes, too, without counting them: otherwise the kernel would merge one open with the next.
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE); err != nil {
		t.Fatal(err)
	}
	count, buffer := 0, make([]byte, 4096)
	return func() int {
		t.Helper()
		for {
			n, err := unix.Read(fd, buffer)
			if errors.Is(err, unix.EAGAIN) {
				return count
			}
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < n; at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buffer[at+12:])) {
				switch mask := binary.NativeEndian.Uint32(buffer[at+4:]); {
				case mask&unix.IN_Q_OVERFLOW != 0:
					t.Fatal("more opens than the kernel keeps")
				case mask&unix.IN_OPEN != 0:
					count++
				}
			}
		}
	}
}
