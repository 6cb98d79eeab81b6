// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// The first client of a port without a listener is connected and reset: until then the box does
// not know. Every later one gets the same answer as without the box, until there is a listener.
func TestRefusedIsRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		strategy string
		bridge   bool
	}{"router, cookie": {"cookie", false}, "bridge, cookie": {"cookie", true}, "router, cache": {"cache", false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.bridge)
			w.start(w.config(c.strategy))
			for _, ipv6 := range families() {
				if err := w.tryWord(ipv6); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: the first client got %v, want a reset", familyName(ipv6), err)
				}
				for range 5 {
					if err := w.tryWord(ipv6); !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("%s: a client after the first got %v, want ECONNREFUSED", familyName(ipv6), err)
					}
				}
			}
			w.serve(echo)
			for _, ipv6 := range families() {
				w.await("somebody who listens is found", func() bool { return w.tryWord(ipv6) == nil })
				for range 5 {
					if err := w.tryWord(ipv6); err != nil {
						t.Errorf("%s: with a listener again: %v", familyName(ipv6), err)
					}
				}
			}
		})
	}
}

// tryWord connects and has a word echoed.
func (w *world) tryWord(ipv6 bool) error {
	c, err := w.dial(ipv6)
	if err != nil {
		return err
	}
	defer c.Close()
	return echoed(c)
}

func echoed(c *net.TCPConn) error {
	word := []byte("word")
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(word); err != nil {
		return err
	}
	_, err := io.ReadFull(c, word)
	return err
}
