// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/config"
	"tidegate/internal/fleet"
)

// recordingGate has what it is told, and refuses monitor if it is picky.
type recordingGate struct {
	picky   bool
	number  uint64
	applied chan *fleet.Desired
}

func (g *recordingGate) Applied() uint64 { return g.number }

func (g *recordingGate) Apply(_ context.Context, n uint64, d *fleet.Desired) error {
	if g.picky && d.Modes["web"] == config.ModeMonitor {
		return errors.New("no monitor here")
	}
	g.number = n
	g.applied <- d
	return nil
}

func (g *recordingGate) Report(*fleet.Report) {}

func (g *recordingGate) next(t *testing.T) *fleet.Desired {
	t.Helper()
	select {
	case d := <-g.applied:
		return d
	case <-time.After(time.Minute):
		t.Fatal("no revision within a minute")
		return nil
	}
}

// newFleet is a NATS server with the buckets, and how it is reached.
func newFleet(ctx context.Context, t *testing.T) (fleet.Access, *fleet.Operator) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	access := fleet.Access{Servers: []string{s.ClientURL()}}
	o := operator(t, access)
	if err := o.Init(ctx, 1); err != nil {
		t.Fatal(err)
	}
	return access, o
}

func operator(t *testing.T, access fleet.Access) *fleet.Operator {
	t.Helper()
	o, err := fleet.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// fleetRun runs `tidegate fleet` and returns what it prints.
func fleetRun(access fleet.Access, args ...string) (string, error) {
	return rootRun(append([]string{"fleet", "--server", access.Servers[0]}, args...)...)
}

func rootRun(args ...string) (string, error) {
	root := newRootCmd()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String(), err
}

// Canaries that fail take the fleet back to the newest state that was valid and for all, whatever lies on top of it.
func TestFailedCanaryReturnsToTheLastStateForAll(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	good := fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeAlways}, Deny: []string{"203.0.113.0/24"}}
	if _, err := o.Apply(ctx, fleet.Revision{Desired: good}, 0); err != nil {
		t.Fatal(err)
	}
	canary, other := &recordingGate{picky: true, applied: make(chan *fleet.Desired, 64)}, &recordingGate{applied: make(chan *fleet.Desired, 64)}
	for name, g := range map[string]*recordingGate{"gate1": canary, "gate2": other} {
		go fleet.NewMember(access, name, g, slog.New(slog.DiscardHandler)).Run(ctx)
		g.next(t)
	}
	conn, err := nats.Connect(access.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, fleet.DesiredBucket)
	if err != nil {
		t.Fatal(err)
	}
	try := func() error {
		seen, err := o.Current(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := rollout{canary: []string{"gate1"}, timeout: time.Minute}
		return r.run(ctx, o, fleet.Revision{Desired: fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeMonitor}}}, seen, io.Discard, io.Discard)
	}
	for what, put := range map[string]func() error{
		"garbage": func() error { _, err := kv.PutString(ctx, "all", "garbage"); return err },
		"canaries of a roll-out that was never completed": func() error {
			seen, err := o.Current(ctx)
			if err != nil {
				return err
			}
			_, err = o.Apply(ctx, fleet.Revision{Desired: fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeOff}}, Only: []string{"gate3"}}, seen.Number)
			return err
		},
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := try(); err == nil || !strings.Contains(err.Error(), "takes it back") {
			t.Errorf("%s: %v, want failed canaries", what, err)
		}
		if got := fleet.Diff(&good, other.next(t)); len(got) != 0 {
			t.Errorf("%s: a node that is no canary is taken to another state: %v", what, got)
		}
	}

	// Nothing valid is left.
	for range 64 {
		if _, err := kv.PutString(ctx, "all", "garbage"); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "apply without --canary") {
		t.Errorf("without a state to return to: %v", err)
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte("modes: {web: always}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := fleetRun(access, "diff", path); err == nil || !strings.Contains(out, "nothing to compare with") {
		t.Errorf("diff with garbage alone: %v: %s", err, out)
	}
	if out, err := fleetRun(access, "apply", path); err != nil || !strings.Contains(out, "is garbage, which every node refuses") {
		t.Errorf("apply onto garbage: %v: %s", err, out)
	}
	if _, err := kv.PutString(ctx, "all", "garbage"); err != nil {
		t.Fatal(err)
	}
	if out, err := fleetRun(access, "diff", path); err != nil || !strings.Contains(out, "is garbage, which every node refuses") || !strings.Contains(out, "no difference") {
		t.Errorf("diff with garbage on top: %v: %s", err, out)
	}
}

// The operator's program dies while canaries are watched. A node that was away meanwhile has what is in force for the others, status names the
// roll-out, and another operator completes it or takes it back.
func TestUnfinishedRollOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	modes := func(m config.Mode) fleet.Desired { return fleet.Desired{Modes: map[string]config.Mode{"web": m}} }
	join := func(name string, g *recordingGate) (leave context.CancelFunc) {
		ctx, leave := context.WithCancel(ctx)
		go fleet.NewMember(access, name, g, slog.New(slog.DiscardHandler)).Run(ctx)
		return leave
	}
	apply := func(m config.Mode, after uint64) uint64 {
		t.Helper()
		n, err := o.Apply(ctx, fleet.Revision{Desired: modes(m)}, after)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	must := func(g *recordingGate, want config.Mode) {
		t.Helper()
		if d := g.next(t); d.Modes["web"] != want {
			t.Fatalf("mode %q, want %q", d.Modes["web"], want)
		}
	}
	first := apply(config.ModeOff, 0)
	newGate := func() *recordingGate { return &recordingGate{applied: make(chan *fleet.Desired, 64)} }
	canary, away := newGate(), newGate()
	join("gate1", canary)
	leave := join("gate2", away)
	must(canary, config.ModeOff)
	must(away, config.ModeOff)
	leave()
	apply(config.ModeAuto, first)
	must(canary, config.ModeAuto)

	// dies begins a roll-out whose operator is cut off as soon as the canary has it.
	dies := func(m config.Mode) {
		t.Helper()
		dead := operator(t, access)
		seen, err := dead.Current(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			r := rollout{canary: []string{"gate1"}, hold: time.Hour, timeout: time.Minute}
			ended <- r.run(ctx, dead, fleet.Revision{Desired: modes(m)}, seen, io.Discard, io.Discard)
		}()
		must(canary, m)
		dead.Close()
		if err := <-ended; err == nil {
			t.Fatal("the roll-out ended well without its operator")
		}
	}
	dies(config.ModeMonitor)
	leave = join("gate2", away)
	must(away, config.ModeAuto) // what it missed
	newcomer := newGate()
	join("gate3", newcomer)
	must(newcomer, config.ModeAuto)
	if out, err := fleetRun(access, "status"); err == nil || !strings.Contains(out, "has reached only its canaries (gate1)") || !strings.Contains(out, "apply --resume") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := fleetRun(access, "rollback", "--hold", "10s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(canary, config.ModeAuto)
	must(away, config.ModeAuto)
	must(newcomer, config.ModeAuto)

	// Once more, completed.
	dies(config.ModeAlways)
	leave()
	leave = join("gate2", away) // it has what the others shall have, by its number
	defer leave()
	if out, err := fleetRun(access, "apply", "--resume", "--hold", "1s"); err == nil || !strings.Contains(out, "reports every 10s") {
		t.Errorf("a hold that is too short: %v: %s", err, out)
	}
	if out, err := fleetRun(access, "apply", "--resume", "--hold", "10s"); err != nil || !strings.Contains(out, "is in force at every node") {
		t.Fatalf("%v: %s", err, out)
	}
	must(canary, config.ModeAlways)
	must(away, config.ModeAlways)
	if out, err := fleetRun(access, "apply", "--resume"); err == nil || !strings.Contains(out, "no roll-out is unfinished") {
		t.Errorf("%v: %s", err, out)
	}
}

// Rollbacks go further and further back, and then say that there is no more.
func TestRollbackTwice(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	apply := func(m config.Mode) {
		t.Helper()
		seen, err := o.Current(ctx)
		if err == nil {
			_, err = o.Apply(ctx, fleet.Revision{Desired: fleet.Desired{Modes: map[string]config.Mode{"web": m}}}, seen.Number)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []config.Mode{config.ModeOff, config.ModeAuto, config.ModeMonitor} {
		apply(m)
	}
	back := func(want config.Mode) {
		t.Helper()
		out, err := fleetRun(access, "rollback")
		seen, readErr := o.Current(ctx)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if (err != nil) != (want == "") || err == nil && seen.Desired.Modes["web"] != want {
			t.Errorf("rolled back to %q, want %q: %v: %s", seen.Desired.Modes["web"], want, err, out)
		}
	}
	back(config.ModeAuto)
	apply(config.ModeAlways)
	back(config.ModeAuto)
	back(config.ModeOff)
	back("")
}
