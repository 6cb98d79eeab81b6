// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
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

// short runs a soak of seconds, again if the machine was too busy for the clients.
func short(t *testing.T, seconds int, spoil func(*gate) error) *Result {
	t.Helper()
	o := DefaultOptions()
	o.Base.Duration, o.Base.Rate, o.Base.Load, o.Base.Server, o.Base.Exe = time.Duration(seconds)*time.Second, 20000, 100, load.ServerBuiltin, tidegate
	if spoil != nil {
		o.Base.Timeout = 2 * time.Second // requests that must fail need not take long
	}
	o.Every, o.spoil, o.Base.Progress = 200*time.Millisecond, spoil, t.Logf
	for try := 1; ; try++ {
		r, err := Run(t.Context(), o)
		if errors.Is(err, trial.ErrDisturbed) && try < 4 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r.Summary())
		return r
	}
}

// Reloads, restarts, kills, a new secret and rotations under a flood: every request is served, and nothing remains.
func TestShortSoak(t *testing.T) {
	world.NeedRoot(t)
	r := short(t, 12, nil)
	if !r.Passed() {
		t.Errorf("%q", r.Failures)
	}
	for _, c := range changes {
		if r.Changes[c.name] == 0 {
			t.Errorf("no %s", c.name)
		}
	}
	if r.Rotations == 0 || r.Cookies == 0 || r.SYNs == 0 {
		t.Errorf("%d rotations, %d cookies, %d SYNs", r.Rotations, r.Cookies, r.SYNs)
	}
	for _, pattern := range []string{"/run/netns/tg-%d-*", rig.LabDir + "/%d-*", rig.RunDir + "/" + rig.InstPrefix + "%d-*", "/sys/fs/bpf/tidegate/" + rig.InstPrefix + "%d-*"} {
		if left, _ := filepath.Glob(fmt.Sprintf(pattern, os.Getpid())); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// What goes wrong during a soak is noticed: a daemon that is stopped, and one whose gate is off on a machine without SYN cookies.
func TestSpoiledSoakFails(t *testing.T) {
	world.NeedRoot(t)
	changeTimeout = 2 * time.Second
	t.Cleanup(func() { changeTimeout = defaultChangeTimeout })
	for name, c := range map[string]struct {
		spoil func(*gate) error
		want  string
	}{
		"stopped": {func(g *gate) error { return g.Proc.Cmd.Process.Signal(syscall.SIGSTOP) }, "reload after "},
		"off": {func(g *gate) error {
			return errors.Join(g.top.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "0"}), g.ask(t.Context(), "off", "--instance", g.Instance))
		}, "requests were served"},
	} {
		r := short(t, 3, c.spoil)
		if r.Passed() || !strings.Contains(strings.Join(r.Failures, "\n"), c.want) {
			t.Errorf("%s: %q, want %q", name, r.Failures, c.want)
		}
	}
}

func TestGrowthIsJudged(t *testing.T) {
	life := func(n int, rss, maps func(i int) uint64) (all []Sample) {
		for i := range n {
			all = append(all, Sample{At: float64(i), PID: 7, RSS: rss(i), Maps: maps(i)})
		}
		return all
	}
	flat := func(int) uint64 { return 40 << 20 }
	noisy := func(i int) uint64 { return 40<<20 + uint64(i%7)<<20 }
	leaks := func(i int) uint64 { return 40<<20 + uint64(i)<<18 }
	other := []Sample{{PID: 6, RSS: 1 << 10, Maps: 1 << 10}}
	for name, c := range map[string]struct {
		samples []Sample
		want    []string
	}{
		"flat":              {life(200, flat, flat), nil},
		"noisy":             {life(200, noisy, flat), nil},
		"after another one": {append(other, life(200, noisy, flat)...), nil},
		"the daemon leaks":  {life(200, leaks, flat), []string{"daemon's memory grew"}},
		"the maps grow":     {life(200, flat, leaks), []string{"BPF maps grew"}},
		"both":              {life(200, leaks, leaks), []string{"daemon's memory grew", "BPF maps grew"}},
		"too short":         {life(fewest-1, flat, flat), []string{"too few to judge"}},
		"none":              {nil, []string{"no sample"}},
	} {
		_, grew := judgeMemory(c.samples)
		if len(grew) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, grew, c.want)
			continue
		}
		for i := range grew {
			if !strings.Contains(grew[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, grew[i], c.want[i])
			}
		}
	}
}
