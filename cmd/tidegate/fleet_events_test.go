// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/event"
	"tidegate/internal/fleet"
)

// Events of all nodes reach whoever follows them, under the name by which the servers know the node; one that was stored twice is shown once, and
// none steers a terminal.
func TestFleetEvents(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	members := map[string]fleetEvents{}
	for _, name := range []string{"gate1", "gate2"} {
		g := &recordingGate{applied: make(chan *fleet.Desired, 1)}
		m := fleet.NewMember(access, name, g, slog.New(slog.DiscardHandler))
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := (fleetEvents{m}).Take(gone, event.Event{}); err == nil {
			t.Error("an event was taken before there is a connection")
		}
		go m.Run(ctx)
		members[name] = fleetEvents{m}
	}
	if _, err := o.Apply(ctx, fleet.Revision{}, 0); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	followed := make(chan fleet.NodeEvent, 16)
	go func() {
		_ = operator(t, access).Events(ctx, began, true, func(e fleet.NodeEvent) error { followed <- e; return nil })
	}()
	take := func(node, id, message string) {
		t.Helper()
		for members[node].Take(ctx, event.Event{ID: id, Seq: 1, Time: time.Now(), Kind: event.AttackBegan, Message: message}) != nil {
			if ctx.Err() != nil {
				t.Fatal("not connected within a minute")
			}
		}
	}
	take("gate1", "a", "at the first")
	take("gate1", "a", "at the first")
	take("gate2", "b", "at the \x1b[31msecond")
	for _, want := range []string{"gate1", "gate1", "gate2"} {
		select {
		case e := <-followed:
			if e.Node != want {
				t.Errorf("an event of %s, want %s", e.Node, want)
			}
		case <-ctx.Done():
			t.Fatal("events are not followed")
		}
	}
	out, err := fleetRun(access, "events")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, "gate1 1 ") || !strings.Contains(out, "at the first") || strings.Contains(out, "\x1b") {
		t.Errorf("%v: %q", err, out)
	}
	out, err = fleetRun(access, "events", "--json", "--node", "gate2")
	var line struct {
		Node  string
		Event event.Event
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &line)
	}
	if err != nil || line.Node != "gate2" || line.Event.ID != "b" {
		t.Errorf("%v: %s", err, fmt.Sprintf("%q", out))
	}
}
