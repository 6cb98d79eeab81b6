// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// tidegate is the program under test.
var tidegate string

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	if code, is := IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(world.Main(m, &tidegate, buildSpeaker))
}

// buildSpeaker builds what `make build` puts beside tidegate.
func buildSpeaker() error {
	return world.Build(filepath.Join(filepath.Dir(tidegate), "tidegate-bgp"), "tidegate/cmd/tidegate-bgp")
}

// The smallest fleet: every gate learns of everything, both routers of the upgrade, every request is served, and nothing is left behind. `make soak`
// runs this.
func TestSmallestFleet(t *testing.T) {
	if os.Getenv("TIDEGATE_SOAK") == "" {
		t.Skip("takes half a minute, most of which the detectors wait after the flood's end; `make soak` runs it")
	}
	world.NeedRoot(t)
	o := DefaultOptions()
	o.Gates, o.Servers, o.Routers, o.Rate, o.Calm, o.Tidegate, o.Progress = 3, 1, 2, 6000, time.Second, tidegate, t.Logf
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, row.Event+": "+row.Who)
		if row.When.Known != row.When.All || len(row.Each) != row.When.All {
			t.Errorf("%s: %s: %v", row.Event, row.Who, row.When)
		}
	}
	if len(rows) != 9 {
		t.Errorf("rows: %q", rows)
	}
	if r.Served != r.Requests || r.Requests < 3 || r.SYNs < 1000 {
		t.Errorf("%d of %d requests served, under %d SYNs: %v", r.Served, r.Requests, r.SYNs, r.Errors)
	}
	own, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"/run/netns/tg-" + own.String() + "*", rig.LabDir + "/" + own.String() + "*", rig.RunDir + "/" + rig.InstPrefix + own.String() + "*", "/sys/fs/bpf/tidegate/" + rig.InstPrefix + own.String() + "*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// A row that not everybody knows, a request that is not served, and no request at all fail the lab.
func TestPassed(t *testing.T) {
	good := Result{Requests: 2, Served: 2, Rows: []Row{{When: Spread{Known: 1, All: 1}}}}
	if !good.Passed() {
		t.Error("a good result fails")
	}
	for what, change := range map[string]func(*Result){"a request": func(r *Result) { r.Served-- }, "no request": func(r *Result) { r.Requests, r.Served = 0, 0 },
		"a row": func(r *Result) { r.Rows = []Row{{When: Spread{Known: 1, All: 2}}} }} {
		bad := good
		if change(&bad); bad.Passed() {
			t.Errorf("passed in spite of %s", what)
		}
	}
}

// A few nodes on three servers, one of which is killed: all of them report, and have each revision. `make soak` runs this.
func TestSimulate(t *testing.T) {
	if os.Getenv("TIDEGATE_SOAK") == "" {
		t.Skip("takes twenty seconds, most of which three servers need to find each other; `make soak` runs it")
	}
	o := DefaultSimulateOptions()
	o.Nodes, o.Ramp, o.Steady, o.Timeout, o.Progress = 20, 200, 100*time.Millisecond, time.Minute, t.Logf
	r, err := Simulate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Revision.Known != o.Nodes || r.OneDead.Known != o.Nodes || r.Revision.Last <= 0 {
		t.Errorf("revision: %v; with a server killed: %v; nodes say: %q", r.Revision, r.OneDead, r.Said)
	}
	if len(r.Phases) != 5 || r.Phases[0].Servers[0].Memory == 0 || r.Phases[0].Servers[0].Messages == 0 || r.Phases[4].Servers[0].Memory != 0 {
		t.Errorf("phases: %+v", r.Phases)
	}
	connections := 0
	for _, s := range r.Phases[1].Servers {
		connections += s.Clients
	}
	if connections != o.Nodes+1 {
		t.Errorf("%d connections, want those of the nodes and the operator's", connections)
	}
}

// The reports of many nodes over few connections: all are there, and a revision reaches every connection. `make soak` runs this.
func TestSimulateReports(t *testing.T) {
	if os.Getenv("TIDEGATE_SOAK") == "" {
		t.Skip("takes half a minute, most of which three servers need to find each other; `make soak` runs it")
	}
	o := DefaultSimulateOptions()
	o.Nodes, o.Connections, o.Steady, o.Timeout, o.Progress = 300, 3, 12*time.Second, time.Minute, t.Logf
	r, err := Simulate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Revision.Known != o.Nodes || r.OneDead.Known != o.Nodes || len(r.Phases) != 5 {
		t.Errorf("revision: %v; with a server killed: %v; %d phases", r.Revision, r.OneDead, len(r.Phases))
	}
	connections := 0
	for _, s := range r.Phases[1].Servers {
		connections += s.Clients
	}
	if p := r.Phases[1]; connections != o.Connections+1 || p.Reports < 25 || p.Late > 0 {
		t.Errorf("%d connections, want the reports' and the operator's; %+v", connections, p)
	}
}
