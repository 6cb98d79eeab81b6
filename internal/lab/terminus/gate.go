// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/role/filterman"
)

// The server's own gate as a detector: it reports clients that have completed
// handshakes, which proves their address, and then make too many connections.

const (
	offenderRate  = 300 // connections/s of an offender
	gateLimit     = 100 // of the server's gate
	gateReports   = "offender reported"
	offenderFor   = 4 * time.Second
	dialPatience  = 500 * time.Millisecond
	offenderSlots = 200 // concurrent connections
)

// offender makes connections to the server, each a complete handshake.
type offender struct {
	made        atomic.Int64
	first, last atomic.Int64 // Unix nanoseconds of established connections
}

// offend runs an offender in a namespace for its time.
func (t *Network) offend(ctx context.Context, ns string) (*offender, error) {
	o := &offender{}
	room := make(chan struct{}, offenderSlots)
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(time.Second / offenderRate)
	defer tick.Stop()
	for end := time.Now().Add(offenderFor); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-tick.C:
		}
		select {
		case room <- struct{}{}:
		default:
			continue // all wait for answers that a filter blocks
		}
		all.Go(func() {
			defer func() { <-room }()
			t.offendOnce(ns, o)
		})
	}
	return o, nil
}

func (t *Network) offendOnce(ns string, o *offender) {
	var c net.Conn
	err := t.ns[ns].Do(func() (err error) {
		c, err = net.DialTimeout(t.tcp(), t.port(addrServer, portWeb), dialPatience)
		return err
	})
	if err != nil {
		return
	}
	// The client's connect succeeds on a SYN-ACK; only the server's answer proves the connection.
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dialPatience))
	if _, err := c.Write([]byte("GET\n")); err != nil {
		return
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return
	}
	now := time.Now().UnixNano()
	o.made.Add(1)
	o.first.CompareAndSwap(0, now)
	o.last.Store(now)
}

// filtersOf returns the number of installed filters on a source.
func (t *terminus) filtersOf(ctx context.Context, src string) (n int, err error) {
	list, err := t.api.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		if e.State == filterman.Installed && e.Src == hostPrefix(t.at(src)) {
			n++
		}
	}
	return n, nil
}

// gate: an offender behind a patrol is filtered there; one whose packets arrive without
// the codepoint is reported, and the request is refused.
func (t *terminus) gate(ctx context.Context, row *Row) error {
	blocked := t.counter("pa", "filter_blocked")
	begin := time.Now()
	c := t.webClient("c-client")
	defer c.stop()
	bot, err := t.offend(ctx, "a-bot")
	if err != nil {
		return err
	}
	filters, err := t.filtersOf(ctx, addrBot)
	if err != nil {
		return err
	}
	blocked = t.counter("pa", "filter_blocked") - blocked
	legacy, err := t.offend(ctx, "b-att")
	if err != nil {
		return err
	}
	refused, err := t.filtersOf(ctx, addrB)
	if err != nil {
		return err
	}
	o := attackOutcome{filtered: float64(bot.last.Load()-bot.first.Load()) / 1e9,
		success: c.success(begin, time.Now().Add(-clientWait/2))}
	reason := t.gateReason(addrB)
	row.conclude(o, fmt.Sprintf("bot: %d connections, then %d packets blocked at A's patrol; from B, without the codepoint: %d connections, gate says %q",
		bot.made.Load(), blocked, legacy.made.Load(), reason),
		filters == 1 && blocked > 0 && o.filtered < offenderFor.Seconds()-1 && refused == 0 &&
			legacy.made.Load() > gateLimit*int64(offenderFor/time.Second) && reason == filterman.Refused.String() && o.success >= legitOK)
	return nil
}

// gateReason is what the server's gate logged about its report on a source.
func (t *terminus) gateReason(src string) string {
	for line := range strings.SplitSeq(t.nodes["gate"].proc.Stderr.String(), "; ") {
		if strings.Contains(line, gateReports) && strings.Contains(line, "source="+hostPrefix(t.at(src)).String()) {
			_, rest, _ := strings.Cut(line, "filter=")
			state, _, _ := strings.Cut(rest, " ")
			return state
		}
	}
	return "nothing"
}
