// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// A trial protects for a while, compares what the gate has verified with what became of it, and detaches
// itself. A daemon that is killed cannot do that, so no key is valid beyond the trial: then the packet path
// leaves SYNs to the kernel by itself, within an epoch.
type trial struct {
	ends    time.Time // see begin
	gate    seen
	failing int   // looks in a row
	verdict error // why it was ended early
}

// seen holds the sums of all services' counters.
type seen struct{ sent, adopted, connected, opened, ready uint64 }

const (
	trialFew   = 3  // connections; fewer are not judged
	trialSent  = 20 // SYN-ACKs, likewise
	trialLooks = 3  // failing ones that end a trial: unfinished ones are no failures
)

// problem returns what is wrong; empty: nothing.
func (s seen) problem() string {
	switch {
	case s.adopted >= trialFew && s.connected*10 < s.adopted*9:
		return fmt.Sprintf("of %d connections that the kernel was given only %d got a socket: something on this machine drops them (`tidegate check` names rules that do); `takeover: auto` or translate gives the stack a handshake of its own", s.adopted, s.connected)
	case s.opened >= trialFew && s.ready*10 < s.opened*9:
		return fmt.Sprintf("of %d connections that were translated only %d were answered by the stack: is the port open in the firewall, and does somebody listen?", s.opened, s.ready)
	case s.sent >= trialSent && s.adopted+s.opened == 0:
		return fmt.Sprintf("%d SYN-ACKs were sent and no client has completed a handshake: they do not reach the clients, or there were no clients, only a flood or a scan", s.sent)
	}
	return ""
}

// conclusion says what a trial without a problem has shown.
func (s seen) conclusion() (level slog.Level, words string) {
	if s.adopted+s.opened < trialFew {
		return slog.LevelWarn, fmt.Sprintf("trial over: it proves nothing, since fewer than %d clients connected; run it while there are clients, or connect yourself", trialFew)
	}
	return slog.LevelInfo, "trial passed"
}

// onTrial returns the configuration with every service protected unless it is off.
func onTrial(cfg *config.Config) *config.Config {
	c := *cfg
	c.Services = slices.Clone(cfg.Services)
	for i := range c.Services {
		if c.Services[i].Mode != config.ModeOff {
			c.Services[i].Mode = config.ModeAlways
		}
	}
	c.OnStaleKeys = config.StaleKeysPass
	return &c
}

// beginTrial refuses if something is protected already, which the end of a trial would detach.
func beginTrial(opt *instance.Options, cfg *config.Config) (*trial, *config.Config, error) {
	if _, err := os.Stat(plane.PinDir(opt.BPFFS, cfg.Instance)); err == nil {
		return nil, nil, fmt.Errorf("instance %s is installed: a trial would take it down at its end; `tidegate off --instance %s` first, or try with another `instance`", cfg.Instance, cfg.Instance)
	}
	return &trial{}, onTrial(cfg), nil
}

// begin counts from when the programs are loaded, which takes seconds on a busy machine, and before the first key is.
func (t *trial) begin(now time.Time, length time.Duration) {
	if t != nil {
		t.ends = now.Add(length)
	}
}

// runTrial leaves nothing behind, whatever ends it.
func (g *gate) runTrial(ctx, force context.Context) error {
	g.log.Info("trial", "ends", g.trial.ends.Format(time.RFC3339))
	g.loop(ctx)
	off, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel(instance.ErrOff)
	s := g.trial.gate
	if g.trial.verdict == nil && ctx.Err() == nil {
		level, words := s.conclusion()
		g.log.Log(ctx, level, words, "answered", s.sent, "adopted", s.adopted, "translated", s.opened, "sockets", s.connected)
	}
	return errors.Join(g.trial.verdict, g.stop(off, force))
}

// covers reports whether a key of that epoch may be loaded.
func (t *trial) covers(epoch uint64, length time.Duration) bool {
	return t == nil || keys.EpochStart(epoch, length).Before(t.ends)
}

var errTrialReload = errors.New("a trial reads its configuration only at its start")

// look judges the trial; it returns true if the trial is over.
func (t *trial) look(g *gate) bool {
	if s, err := g.seen(); err == nil {
		t.gate = s
	}
	if t.gate.problem() == "" {
		t.failing = 0
	} else if t.failing++; t.failing == trialLooks {
		t.verdict = errors.New("trial ended early and taken down: " + t.gate.problem())
		return true
	}
	return !g.opt.Now().Before(t.ends)
}

// seen adds the services' counters up. Sockets are not counted for services with prefixes.
func (g *gate) seen() (s seen, err error) {
	ids := []uint32{0}
	for _, svc := range g.cfg.Services {
		ids = append(ids, g.services.ID(svc.Name))
	}
	for _, id := range ids {
		c, err := plane.ReadCounters(g.plane.Map("tg_counters"), id)
		if err != nil {
			return s, err
		}
		s.sent += c[schema.CounterCookieSent]
		s.adopted += c[schema.CounterAdopted]
		s.connected += c[schema.CounterConnected]
		s.opened += c[schema.CounterSplitOpened]
		s.ready += c[schema.CounterSplitReady]
	}
	return s, nil
}
