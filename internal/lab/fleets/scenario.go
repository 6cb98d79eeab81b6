// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// happen lets everything happen.
func (x *lab) happen(ctx context.Context) (err error) {
	o := x.o
	joined := x.until(ctx, func(fleet.Node) bool { return true })
	if len(joined) != len(x.gates) {
		return errors.Join(ctx.Err(), fmt.Errorf("%d of %d gates have reported to the fleet within %v", len(joined), len(x.gates), o.Patience), x.nats.alive())
	}
	if err := x.awaitRoutes(ctx); err != nil {
		return err
	}
	x.clients = &clients{hub: x.net.hub, every: o.Every, timeout: o.Timeout}
	for _, g := range x.gates {
		x.clients.gates = append(x.clients.gates, netip.AddrPortFrom(g.addr, rig.ServicePort))
	}
	x.began = time.Now()
	x.clients.start(ctx)

	// A desired state.
	state := fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeAuto}}
	if err := x.revise(ctx, "a desired state is applied (mode auto)", state, time.Time{}); err != nil {
		return err
	}

	// The flood.
	var floods load.FloodSet
	defer func() { err = errors.Join(err, floods.Close()) }()
	for _, g := range x.gates {
		f, err := load.NewFlood(g.hubPort, g.ownPort, load.FloodOptions{Target: netip.AddrPortFrom(g.addr, rig.ServicePort), CPU: -1})
		if err != nil {
			return err
		}
		floods = append(floods, f)
	}
	flooding, endFlood := context.WithCancel(ctx)
	defer endFlood()
	var flood sync.WaitGroup
	var sent load.FloodStats
	var floodErr error
	floodBegan := time.Now()
	flood.Go(func() { sent, floodErr = floods.Run(flooding, o.Rate) })
	x.eventsOf(ctx, "the flood begins", event.AttackBegan, floodBegan)

	// A NATS server dies.
	died := time.Now()
	if o.Servers > 1 {
		x.nats.kill(0)
	}
	state.Deny = []string{"203.0.113.77 # after the death"}
	what := "a NATS server is killed, and a prefix denied at once"
	if o.Servers == 1 {
		what = "a prefix is denied"
	}
	if err := x.revise(ctx, what, state, died); err != nil {
		endFlood()
		flood.Wait()
		return err
	}
	if err := x.upgrade(ctx); err != nil {
		endFlood()
		flood.Wait()
		return err
	}

	endFlood()
	flood.Wait()
	ended := time.Now()
	if floodErr != nil {
		return floodErr
	}
	x.res.SYNs, x.res.Rate = sent.Frames, float64(sent.Frames)/sent.Wall.Seconds()
	x.eventsOf(ctx, "the flood ends", event.AttackEnded, ended)
	x.clients.end()
	x.res.Requests, x.res.Served, x.res.Errors = x.clients.made, x.clients.ok, x.clients.errs
	if x.res.Requests == 0 {
		return errors.New("the clients made no request")
	}
	return errors.Join(ctx.Err(), x.nats.alive())
}

// revise applies a state; began is when what it is measured from happened, zero: the moment before it is applied.
func (x *lab) revise(ctx context.Context, what string, d fleet.Desired, began time.Time) error {
	if began.IsZero() {
		began = time.Now()
	}
	n, err := apply(ctx, x.op, d, x.o.Patience)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	at := x.until(ctx, func(r fleet.Node) bool { return r.Revision >= n })
	x.row(what, "gates have it in force", began, len(x.gates), values(at))
	return ctx.Err()
}

// eventsOf waits until each gate has had an event of a kind, and notes when, and when the NATS servers had it.
func (x *lab) eventsOf(ctx context.Context, what string, kind event.Kind, since time.Time) {
	at, received := map[string]time.Time{}, map[string]time.Time{}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(at) < len(x.gates); time.Sleep(50 * time.Millisecond) {
		short, stop := context.WithTimeout(ctx, 5*time.Second)
		_ = x.op.Events(short, since, false, func(e fleet.NodeEvent) error {
			var ev event.Event
			if json.Unmarshal(e.Event, &ev) != nil || ev.Kind != kind || ev.Time.Before(since) {
				return nil
			}
			if _, there := at[e.Node]; !there {
				at[e.Node], received[e.Node] = ev.Time, e.Received
			}
			return nil
		})
		stop()
	}
	x.row(what, "gates have noticed", since, len(x.gates), values(at))
	x.row(what, "the operator can see it of so many gates", since, len(x.gates), values(received))
}

// upgrade stops gate1 and starts another version in its place.
func (x *lab) upgrade(ctx context.Context) error {
	g := x.gates[0]
	exe, before, after, err := nextVersion(ctx, x.exe, filepath.Join(x.w.Dir, "next"))
	if err != nil {
		return err
	}
	stopped := time.Now()
	g.proc.End(syscall.SIGTERM, 20*time.Second) // the packet path stays in place
	if err := x.startGate(ctx, g, exe); err != nil {
		return err
	}
	started := time.Now()
	seen := x.until1(ctx, func(n fleet.Node) bool { return n.Report.Node == g.name && n.Version == after && n.At.After(stopped) })
	x.row("gate1 is stopped and started in another version", "`fleet status` shows it", stopped, 1, seen)
	x.res.Upgraded = before + " to " + after
	if x.o.Routers == 0 {
		return ctx.Err()
	}
	gone, back := x.routes(ctx, g.addr, stopped, started)
	x.row("gate1 is stopped and started in another version", "routers have withdrawn its route", stopped, x.o.Routers, gone)
	x.row("gate1 is stopped and started in another version", "routers have its route again", stopped, x.o.Routers, back)
	return ctx.Err()
}

// nextVersion makes a copy of the program whose version is another: the same code, with other letters where its version stands.
func nextVersion(ctx context.Context, exe, dir string) (path, before, after string, err error) {
	out, err := exec.CommandContext(ctx, exe, "version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		return "", "", "", fmt.Errorf("%s version: %q: %w", exe, out, err)
	}
	before = words[1]
	after = strings.Repeat("N", min(4, len(before))) + before[min(4, len(before)):]
	if len(before) < 5 { // not stamped: too short to be found
		return exe, before, before, nil
	}
	image, err := os.ReadFile(exe)
	if err != nil {
		return "", "", "", err
	}
	changed := bytes.ReplaceAll(image, []byte(before), []byte(after))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", "", err
	}
	path = filepath.Join(dir, "tidegate")
	if err := os.WriteFile(path, changed, 0o700); err != nil {
		return "", "", "", err
	}
	err = os.Symlink(filepath.Join(filepath.Dir(exe), "tidegate-bgp"), filepath.Join(dir, "tidegate-bgp"))
	return path, before, after, err
}
