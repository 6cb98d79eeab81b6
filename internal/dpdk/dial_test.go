// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Where others wait to be accepted, dial waits behind them; package net does not.
func TestDialWaitsForItsTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	first, err := dial(path) // it waits to be accepted, and nobody else may
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if c, err := net.Dial("unixpacket", path); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("package net connects, or fails for another reason: %v, %v", c, err)
	}
	done := make(chan error)
	go func() {
		c, err := dial(path)
		if err == nil {
			_, err = c.Write([]byte("hello"))
			c.Close()
		}
		done <- err
	}()
	for _, want := range []string{"", "hello"} {
		c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if want != "" {
			buf := make([]byte, 16)
			n, err := unix.Read(c, buf)
			if err != nil || string(buf[:n]) != want {
				t.Errorf("read %q, %v", buf[:n], err)
			}
		}
		unix.Close(c)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDialSaysWhatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	if _, err := dial(path); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v, want ENOENT", err)
	}
}
