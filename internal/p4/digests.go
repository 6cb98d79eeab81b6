// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// Samples of digests, each ending with the switch's second; p4/v1model/white.p4,
// flows.p4 and learn.p4. bmv2 packs fields byte by byte. The length of a list's
// samples shows its kind.
const (
	whenLen        = 4
	whiteSampleLen = 1 + 8 + whenLen
	flowSampleLen  = 1 + 1 + 9*4 + 4 + 1 + 1 + 2 + whenLen
	macSampleLen   = 6 + 2 + whenLen

	digestWait = time.Millisecond // for further samples, before digests are sent
	digestMost = 32               // at once

	// Buffers before the first one seen that are acknowledged: no controller received them.
	unheardMost = 4096
)

// digests passes the switch's digests to the tables that they concern, in a goroutine
// of its own, as they arrive.
type digests struct {
	c    *Controller
	from *simpleswitch.Digests
	done chan struct{}
	next map[int32]int64 // the next buffer, by list

	mu      sync.Mutex
	failed  error
	closing bool
}

// listen starts to receive digests.
func listen(ctx context.Context, c *Controller) (*digests, error) {
	lists := int32(2)
	if c.table == nil { // only addresses
		lists = 1
	}
	for list := int32(1); list <= lists; list++ {
		if err := c.sw.DigestLimits(list, digestWait, digestMost); err != nil {
			return nil, err
		}
	}
	from, err := simpleswitch.DialDigests(ctx, c.cfg.Notifications)
	if err != nil {
		return nil, err
	}
	d := &digests{c: c, from: from, done: make(chan struct{}), next: map[int32]int64{}}
	go d.run()
	return d, nil
}

func (d *digests) run() {
	defer close(d.done)
	for {
		g, err := d.from.Next()
		if err == nil {
			err = d.take(g)
		}
		if err != nil {
			d.mu.Lock()
			if !d.closing {
				d.failed = err
			}
			d.mu.Unlock()
			return
		}
	}
}

func (d *digests) take(g simpleswitch.Digest) error {
	for _, sample := range g.Samples {
		var err error
		switch {
		case len(sample) == macSampleLen:
			err = d.c.macs.take(sample)
		case d.c.cfg.isAuth() && len(sample) == whiteSampleLen:
			err = d.c.table.put(sample[:1], [][]byte{sample[1:9]}, actionWhite)
		case d.c.cfg.Program == ProgramCookie && len(sample) == flowSampleLen:
			err = d.c.table.takeFlow(sample)
		default:
			err = fmt.Errorf("digest of %d bytes; is the switch running %s?", len(sample), d.c.cfg.Program)
		}
		if err != nil {
			return err
		}
	}
	// The switch keeps unacknowledged buffers, even earlier ones that no controller received.
	next, known := d.next[g.List]
	if !known {
		next = max(g.Buffer-unheardMost, 0)
	}
	for ; next <= g.Buffer; next++ {
		if err := d.c.sw.AckDigests(g.List, next); err != nil {
			return err
		}
	}
	d.next[g.List] = next
	return nil
}

// failure is why digests are no longer received.
func (d *digests) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *digests) close() error {
	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	err := d.from.Close()
	<-d.done
	return err
}
