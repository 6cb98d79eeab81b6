// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/fleet"
)

// simGate is a node without a packet path.
type simGate struct {
	mu       sync.Mutex
	revision uint64
	at       time.Time
	modes    map[string]config.Mode
}

func (g *simGate) Applied() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.revision
}

func (g *simGate) Apply(_ context.Context, n uint64, d *fleet.Desired) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revision, g.at, g.modes = n, time.Now(), d.Modes
	return nil
}

func (g *simGate) Report(r *fleet.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Version, r.Role, r.Key, r.Modes = "simulated", "host", "0a0a0a0a", g.modes
}

// complaints collects what nodes log as a warning or worse.
type complaints struct {
	mu    sync.Mutex
	count int
	kinds map[string]int
}

func (c *complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (c *complaints) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *complaints) WithGroup(string) slog.Handler { return c }

func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if len(c.kinds) < 20 || c.kinds[text] > 0 {
		c.kinds[text]++
	}
	return nil
}

func (c *complaints) so() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
