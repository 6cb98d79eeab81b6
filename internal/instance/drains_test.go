// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"log/slog"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// A server's services, whose cookies are of edges, have no end of that.
func TestServersDoNotDrain(t *testing.T) {
	a := NewAutomatic(Options{StateDir: t.TempDir(), BPFFS: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, &config.Config{Role: config.RoleServer, Instance: "test", Epoch: time.Second})
	number := func(string) uint32 { return 1 }
	for _, m := range []config.Mode{config.ModeAlways, config.ModeMonitor} {
		a.Assign(&config.Config{Services: []config.Service{{Name: "web", Mode: m}}}, number)
	}
	p := &countingPath{on: map[int]bool{}, entry: plane.Service{Mode: plane.ModeMonitor, Verify: 1}}
	if err := a.step(p, time.Now().Add(2*a.life), detectEvery); err != nil {
		t.Fatal(err)
	}
	if p.entry.Verify != 1 || a.Tick() != nil {
		t.Errorf("%+v", p.entry)
	}
}

// A service whose SYNs were answered, or may have been, has its ACKs checked until the last cookie has expired, and no longer.
func TestDrains(t *testing.T) {
	modes := func(m ...config.Mode) []config.Mode { return m }
	for name, c := range map[string]struct {
		heir  bool
		modes []config.Mode
		want  bool
	}{
		"monitor from the start":           {false, modes(config.ModeMonitor), false},
		"off from the start":               {false, modes(config.ModeOff), false},
		"monitor, after another process":   {true, modes(config.ModeMonitor), true},
		"always, monitor":                  {false, modes(config.ModeAlways, config.ModeMonitor), true},
		"always, off":                      {false, modes(config.ModeAlways, config.ModeOff), true},
		"auto, off":                        {false, modes(config.ModeAuto, config.ModeOff), true},
		"always, monitor, off":             {false, modes(config.ModeAlways, config.ModeMonitor, config.ModeOff), true},
		"always, monitor, and read anew":   {false, modes(config.ModeAlways, config.ModeMonitor, config.ModeMonitor), true},
		"monitor, off":                     {false, modes(config.ModeMonitor, config.ModeOff), false},
		"always":                           {true, modes(config.ModeAlways), false},
		"always, monitor, always":          {false, modes(config.ModeAlways, config.ModeMonitor, config.ModeAlways), false},
		"of another name until now, as it": {false, modes("", config.ModeMonitor), true},
	} {
		a := NewAutomatic(Options{StateDir: t.TempDir(), BPFFS: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, &config.Config{Instance: "test", Epoch: time.Second})
		a.heir = c.heir
		number := func(string) uint32 { return 1 }
		for _, m := range c.modes {
			services := []config.Service{{Name: "web", Mode: m}}
			if m == "" {
				services[0] = config.Service{Name: "old", Mode: config.ModeAlways}
			}
			a.Assign(&config.Config{Services: services}, number)
		}
		p := &countingPath{on: map[int]bool{}}
		a.Apply("web", &p.entry, "")
		if got := p.entry.Verify == 1; got != c.want {
			t.Errorf("%s: ACKs are checked: %v", name, got)
		}
		if ticks := a.Tick() != nil; ticks != c.want {
			t.Errorf("%s: something is to be done: %v", name, ticks)
		}
		if !c.want {
			continue
		}
		step := func(after time.Duration) {
			if err := a.step(p, time.Now().Add(after), detectEvery); err != nil {
				t.Error(err)
			}
		}
		if step(a.life / 2); p.entry.Verify != 1 || p.changes != 0 {
			t.Errorf("%s: half of a cookie's life later: %+v", name, p.entry)
		}
		if step(a.life); p.entry.Verify != 0 || p.changes != 1 || a.Tick() != nil {
			t.Errorf("%s: a cookie's life later: %+v, %d changes", name, p.entry, p.changes)
		}
		if a.drains.verifies("web", time.Now()) {
			t.Errorf("%s: it begins again", name)
		}
	}
}
