// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to one of the program's sockets of messages. While the connections of others wait to be accepted it waits
// for its turn, at most answerTime: package net would give up at once there (EAGAIN).
func dial(path string) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := connect(fd, path, time.Now().Add(answerTime)); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func connect(fd int, path string, until time.Time) error {
	for {
		left := unix.NsecToTimeval(max(time.Until(until), time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &left); err != nil {
			return err
		}
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		switch {
		case errors.Is(err, unix.EINTR) && time.Now().Before(until): // a signal of Go's own
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("it has not accepted anyone for %v: %w", answerTime, os.ErrDeadlineExceeded)
		default:
			return err
		}
	}
}
