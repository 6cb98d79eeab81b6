// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
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

// Canaries that fail take the fleet back to the newest state that was valid and for all, whatever lies on top of it.
func TestFailedCanaryReturnsToTheLastStateForAll(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	access := fleet.Access{Servers: []string{s.ClientURL()}}
	o, err := fleet.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := o.Init(ctx, 1); err != nil {
		t.Fatal(err)
	}
	good := fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeAlways}, Deny: []string{"203.0.113.0/24"}}
	if _, err := o.Apply(ctx, fleet.Revision{Desired: good}, 0); err != nil {
		t.Fatal(err)
	}
	canary, other := &recordingGate{picky: true, applied: make(chan *fleet.Desired, 64)}, &recordingGate{applied: make(chan *fleet.Desired, 64)}
	for name, g := range map[string]*recordingGate{"gate1": canary, "gate2": other} {
		go fleet.NewMember(access, name, g, slog.New(slog.DiscardHandler)).Run(ctx)
		g.next(t)
	}
	conn, err := nats.Connect(s.ClientURL())
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
}
