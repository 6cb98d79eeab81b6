// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server that adopts holds a source to its limit, although the edge before it has verified the source's cookies.
func TestSourceLimitOfServer(t *testing.T) {
	const limit, burst = 5, 40
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "learning: 0s")
	w.server.configure("always", "source_limits: {new_per_second: 5, action: reset}")
	w.startBoth()
	began, served, reset := time.Now(), 0, 0
	for range burst {
		c, err := w.dial(false, 0)
		if err == nil {
			defer c.Close()
			err = say(c, "hello")
		}
		switch {
		case err == nil:
			served++
		case errors.Is(err, unix.ECONNRESET):
			reset++
		default:
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	t.Logf("%d of %d connections were served in %v, %d were reset", served, burst, took.Round(time.Millisecond), reset)
	if most := int(limit*(1+took.Seconds())) + 1; served < limit || served > most || served+reset != burst {
		t.Errorf("%d of %d connections were served in %v, want %d to %d; %d were reset", served, burst, took, limit, most, reset)
	}
}
