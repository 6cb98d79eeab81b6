// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/fleet"
)

// sufferingGate reports an offender and an attack.
type sufferingGate struct {
	recordingGate
	rate    float64
	service string
}

func (g *sufferingGate) Report(r *fleet.Report) {
	r.Offenders = []fleet.Offender{{Prefix: netip.MustParsePrefix("203.0.113.7/32"), PerSecond: g.rate}}
	r.Attacks = map[string]string{g.service: "here"}
}

// What two nodes report of one source is added, in text and JSON; what a node calls its services does not steer a terminal.
func TestFleetTop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	for name, g := range map[string]*sufferingGate{"gate1": {rate: 40, service: "web"}, "gate2": {rate: 2.5, service: "\x1b[31mweb"}} {
		g.applied = make(chan *fleet.Desired, 1)
		go fleet.NewMember(access, name, g, slog.New(slog.DiscardHandler)).Run(ctx)
	}
	for {
		nodes, err := o.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(nodes) == 2 {
			break
		}
	}
	text, err := fleetRun(access, "top")
	words := strings.Join(strings.Fields(text), " ")
	if err != nil || !strings.Contains(words, "203.0.113.7/32 42.5/s gate1, gate2") || !strings.Contains(words, "web gate1 here") || strings.Contains(text, "\x1b") {
		t.Errorf("%v: %q", err, text)
	}
	text, err = fleetRun(access, "top", "--json")
	var top fleet.Top
	if err == nil {
		err = json.Unmarshal([]byte(text), &top)
	}
	if err != nil || top.Nodes != 2 || len(top.Attacks) != 2 || len(top.Offenders) != 1 || top.Offenders[0].PerSecond != 42.5 || len(top.Offenders[0].Nodes) != 2 {
		t.Errorf("%v: %s", err, text)
	}
	if text, err = fleetRun(access, "top", "--most", "0"); err != nil || strings.Contains(text, "203.0.113.7") {
		t.Errorf("%v: %s", err, text)
	}
	if text, _ = fleetRun(access, "status"); !strings.Contains(text, "web: here") || strings.Contains(text, "\x1b") {
		t.Errorf("status: %q", text)
	}
}
