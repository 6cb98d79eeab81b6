// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"os"
	"strings"
	"testing"

	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// tidegate is the program under test.
var tidegate string

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(world.Main(m, &tidegate))
}

// A few machines and a canary; `tidegate-lab machines` runs all of them.
func TestQuickMachines(t *testing.T) {
	world.NeedRoot(t)
	o := DefaultOptions()
	o.Quick, o.Tidegate, o.Progress = true, tidegate, t.Logf
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) < 5 {
		t.Fatalf("built %d machines", len(r.Rows))
	}
	for _, row := range r.Rows {
		if !row.OK {
			t.Errorf("%s: %s\n%s", row.line(), strings.Join(row.Why, "\n"), row.Rules)
		}
	}
}

// A kernel that cannot adopt translates; what was never adopted stays as it is.
func TestOnAKernelThatCannotAdopt(t *testing.T) {
	for _, c := range []struct {
		how, want How
		adopts    bool
	}{
		{Adopted, Adopted, true}, {Adopted, Translated, false},
		{Translated, Translated, false}, {Left, Left, false},
	} {
		if got := (Scenario{How: c.how}).on(c.adopts).How; got != c.want {
			t.Errorf("%s, adopts %t: %s, want %s", c.how, c.adopts, got, c.want)
		}
	}
}

// Defects that judge must find in a row.
func TestJudge(t *testing.T) {
	good := func() Row {
		seen := Seen{Clients: 30, Served: 30, Sources: []string{"198.18.3.2"}}
		taken := Taken{Adopted: 30, Cookies: 10_000}
		return Row{Expected: Expected{How: Adopted, Served: 30},
			Families: []Family{{Without: seen, Quiet: seen, Flood: seen, QuietTaken: taken, FloodTaken: taken, SYNs: 10_030}}}
	}
	s := Scenario{How: Adopted}
	r := good()
	if r.judge(s, true); len(r.Wrong) != 0 {
		t.Fatalf("a good row: %q", r.Wrong)
	}
	for what, spoil := range map[string]func(*Family){
		"one client is not served":              func(f *Family) { f.Quiet.Served-- },
		"one client is not served in the flood": func(f *Family) { f.Flood.Served-- },
		"not served without":                    func(f *Family) { f.Without.Served = 0 },
		"another source":                        func(f *Family) { f.Flood.Sources = []string{"198.18.3.1"} },
		"translated":                            func(f *Family) { f.QuietTaken = Taken{Translated: 30} },
		"by the kernel":                         func(f *Family) { f.QuietTaken = Taken{} },
		"some by the kernel":                    func(f *Family) { f.QuietTaken.Adopted = 20 },
		"no cookies":                            func(f *Family) { f.FloodTaken.Cookies = 30 },
		"half-open":                             func(f *Family) { f.HalfOpen = 1000 },
	} {
		r := good()
		spoil(&r.Families[0])
		if r.judge(s, true); len(r.Wrong) == 0 {
			t.Errorf("%s: nothing is wrong", what)
		}
	}
}

// Where SYNs go to the kernel within an allowance, all clients are served, and the flood beyond it gets cookies.
func TestJudgeKernelFirst(t *testing.T) {
	good := func() Row {
		seen := Seen{Clients: 30, Served: 30, Sources: []string{"198.51.100.2"}}
		return Row{Expected: Expected{How: Adopted, Served: 30}, Families: []Family{{Without: seen, Quiet: seen, Flood: seen,
			QuietTaken: Taken{Left: 30}, FloodTaken: Taken{Left: 1000, Adopted: 20, Cookies: 50_000, Across: 50_000}, HalfOpen: 1000, SYNs: 51_000}}}
	}
	s := Scenario{How: Adopted, KernelFirst: true}
	r := good()
	if r.judge(s, true); len(r.Wrong) != 0 {
		t.Fatalf("a good row: %q", r.Wrong)
	}
	for what, spoil := range map[string]func(*Family){
		"lost under the flood":              func(f *Family) { f.Flood.Served-- },
		"served by the kernel alone":        func(f *Family) { f.FloodTaken.Adopted = 0 },
		"neither by us nor by the kernel":   func(f *Family) { f.QuietTaken.Left-- },
		"lost without a flood":              func(f *Family) { f.Quiet.Served-- },
		"the flood went to the kernel":      func(f *Family) { f.FloodTaken.Cookies = 1000 },
		"more half-open than the allowance": func(f *Family) { f.HalfOpen += 128 },
	} {
		r := good()
		spoil(&r.Families[0])
		if r.judge(s, true); len(r.Wrong) == 0 {
			t.Errorf("%s: nothing is wrong", what)
		}
	}
}

func TestScenariosAreComplete(t *testing.T) {
	if err := check(All()); err != nil {
		t.Fatal(err)
	}
	twice := []Scenario{All()[0], All()[0]}
	if check(twice) == nil || check([]Scenario{{Name: "x"}}) == nil {
		t.Error("check accepts two scenarios of one name, or an empty one")
	}
}
