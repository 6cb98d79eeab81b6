// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/fleet"
)

// Reports of many nodes over few connections: what the servers have to store and answer is that of the nodes, and without their TLS connections and accounts.

// speakers let all nodes report, each every ReportEvery, until ctx ends.
type speakers struct {
	all  []*fleet.Speaker
	done sync.WaitGroup
}

// startSpeakers connects, and has the nodes begin one after the other, as evenly as they report later.
func (x *simulation) startSpeakers(ctx context.Context, names []string, log *slog.Logger) (*speakers, error) {
	s := &speakers{}
	n := x.o.Connections
	for i := range n {
		speaker, err := fleet.NewSpeaker(x.c.access("operator", i))
		if err != nil {
			return s, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		s.all = append(s.all, speaker)
		mine := make([]string, 0, len(names)/n+1)
		gates := make([]*simGate, 0, cap(mine))
		for k := i; k < len(names); k += n {
			mine, gates = append(mine, names[k]), append(gates, x.gates[k])
		}
		s.done.Go(func() { hearFor(ctx, speaker, gates) })
		s.done.Go(func() {
			speakFor(ctx, speaker, mine, time.Duration(i)*fleet.ReportEvery/time.Duration(len(names)), log)
		})
	}
	return s, nil
}

func (s *speakers) close() {
	for _, speaker := range s.all {
		speaker.Close()
	}
	s.done.Wait()
}

// hearFor notes revisions for the nodes of a connection.
func hearFor(ctx context.Context, speaker *fleet.Speaker, gates []*simGate) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-speaker.Heard():
			for _, g := range gates {
				_ = g.Apply(ctx, n, &fleet.Desired{})
			}
		}
	}
}

// speakFor lets nodes take turns. One whose servers do not answer has its next turn when it is due.
func speakFor(ctx context.Context, speaker *fleet.Speaker, names []string, first time.Duration, log *slog.Logger) {
	var turns sync.WaitGroup
	defer turns.Wait()
	select {
	case <-ctx.Done():
		return
	case <-time.After(first):
	}
	tick := time.NewTicker(fleet.ReportEvery / time.Duration(len(names)))
	defer tick.Stop()
	for i := 0; ; i++ {
		name := names[i%len(names)]
		turns.Go(func() {
			err := speaker.Turn(ctx, fleet.Report{Node: name, Version: "simulated", Role: "host", Key: "0a0a0a0a", Modes: map[string]config.Mode{"web": config.ModeAlways}})
			if err != nil && ctx.Err() == nil {
				log.Warn("a turn", "error", err)
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
