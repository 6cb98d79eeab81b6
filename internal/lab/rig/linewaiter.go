// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"io"
	"time"
)

// The line by which `tidegate run` reports that it is ready, and how long that may take.
const (
	ReadyLine    = "ready"
	ReadyTimeout = 3 * time.Minute
)

// LineWaiter is a writer that waits for a line.
type LineWaiter struct {
	want string
	buf  []byte
	Seen chan struct{}
	done bool
}

var _ io.Writer = (*LineWaiter)(nil)

// NewLineWaiter waits for the line `want`, spaces around it aside; Seen is closed when it comes.
func NewLineWaiter(want string) *LineWaiter {
	return &LineWaiter{want: want, Seen: make(chan struct{})}
}

func (w *LineWaiter) Write(b []byte) (int, error) {
	if w.done {
		return len(b), nil
	}
	w.buf = append(w.buf, b...)
	for {
		line, rest, found := bytes.Cut(w.buf, []byte("\n"))
		if !found {
			return len(b), nil
		}
		if string(bytes.TrimSpace(line)) == w.want {
			w.done, w.buf = true, nil
			close(w.Seen)
			return len(b), nil
		}
		w.buf = rest
	}
}
