// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// replacePinnedMaps puts other maps in the place of an instance's pinned ones, but for those named.
func (w *world) replacePinnedMaps(by func(m *ebpf.Map) *ebpf.MapSpec, but ...string) (replaced int) {
	w.t.Helper()
	entries, err := os.ReadDir(w.pinDir())
	w.must(err)
	for _, e := range entries {
		path := filepath.Join(w.pinDir(), e.Name())
		m, err := ebpf.LoadPinnedMap(path, nil)
		if err != nil || slices.Contains(but, e.Name()) { // or it is a program or a link
			continue
		}
		spec := by(m)
		m.Close()
		other, err := ebpf.NewMap(spec)
		w.must(err)
		w.must(os.Remove(path))
		w.must(other.Pin(path))
		other.Close()
		replaced++
	}
	return replaced
}

// Under the names of a killed instance's maps there are others: of another program, or of the same kind and too small. status says so in one line, clients are served
// by what is attached, a new process starts without them and says what is lost, and `off` takes everything down.
func TestForeignPinnedMaps(t *testing.T) {
	for name, by := range map[string]func(m *ebpf.Map) *ebpf.MapSpec{
		"foreign": func(*ebpf.Map) *ebpf.MapSpec {
			return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 24, MaxEntries: 1}
		},
		"truncated": func(m *ebpf.Map) *ebpf.MapSpec {
			if m.Type() == ebpf.Array || m.Type() == ebpf.PerCPUArray || m.Type() == ebpf.Hash {
				size := m.ValueSize()
				if m.MaxEntries() == 1 {
					size = 8
				}
				return &ebpf.MapSpec{Type: m.Type(), KeySize: m.KeySize(), ValueSize: size, MaxEntries: 1, Flags: m.Flags()}
			}
			return &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			conf := w.webConfig(webPort, "takeover: translate")
			g := w.start(conf)
			w.mustPingNew(1)
			g.Kill()
			// What is attached has the maps that it was loaded with. Only an array of programs lives by its pin: the kernel clears one
			// that no process and no pin holds (prog_array_map_clear): TestLostParts.
			if n := w.replacePinnedMaps(by, "tg_parts"); n < 20 {
				t.Fatalf("only %d maps were replaced", n)
			}
			w.mustPingNew(10)
			w.replacePinnedMaps(by)
			out, errs, err := w.tidegateRun("status", "--instance", w.Instance)
			w.wantOneLine(err, out, errs, w.Instance, "start it again")
			g = w.start(conf)
			if lost := g.Log("not taken over from the previous process", "translated connections"); len(lost) == 0 {
				t.Error("the log does not say that translated connections are lost")
			}
			w.mustPingNew(2)
			if c := w.counters(); c["cookie_valid"] == 0 {
				t.Errorf("%v", c)
			}
			g.Kill()
			w.replacePinnedMaps(by)
			w.off("--now")
			w.nothingInstalled()
			w.mustPingNew(1)
		})
	}
}

// The pins of links lead to other objects: a map in their place. A new process installs links of its own.
func TestForeignPinnedLinks(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort)).Kill()
	for _, pin := range []string{"xdp-tg-server", "tc-tg-server", "sockops"} {
		path := filepath.Join(w.pinDir(), pin)
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		w.must(err)
		w.must(os.Remove(path)) // and with the pin the link
		w.must(m.Pin(path))
		m.Close()
	}
	w.mustPingNew(1)
	w.start(w.webConfig(webPort))
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopted": uint64(2 * len(families()))})
	w.off()
	w.nothingInstalled()
}

// The clock of a host is set back, by more than its keys reach, and then right again: connections go on, new ones are verified, and the
// keys are those of the time that it is.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.startWith(w.webConfig(webPort, "epoch: 1s", "key_horizon: 1m"), "--clock-step", "-10m")
	old := w.mustDial(false, webPort)
	w.must(old.ping())
	w.mustPingNew(1)
	// For how long there are keys by a clock that is off.
	left := func(off time.Duration) time.Duration {
		p, err := plane.OpenPinned(w.pinDir())
		w.must(err)
		defer p.Close()
		now := time.Now().Add(off)
		last, err := p.LastKey(keys.Epoch(now, time.Second))
		w.must(err)
		return keys.EpochStart(last+1, time.Second).Sub(now)
	}
	if n := left(0); n < 50*time.Second || n > 70*time.Second {
		t.Fatalf("keys for %v, want a minute", n)
	}
	for _, c := range []struct {
		what string
		off  time.Duration
	}{{"back", -10 * time.Minute}, {"right again", 0}} {
		w.must(g.Cmd.Process.Signal(syscall.SIGUSR1))
		w.await("keys of the time that it is: "+c.what, func() bool {
			n := left(c.off)
			return n > 50*time.Second && n < 70*time.Second
		})
		before := w.counters()
		w.mustPingNew(20)
		now := w.counters()
		n := uint64(20 * len(families()))
		if now["adopted"]-before["adopted"] != n || now["cookie_invalid"] != before["cookie_invalid"] {
			t.Errorf("clock %s: %d of %d new connections were verified; %d cookies were not", c.what, now["adopted"]-before["adopted"], n, now["cookie_invalid"]-before["cookie_invalid"])
		}
		if err := old.ping(); err != nil {
			t.Errorf("clock %s: a connection of before: %v", c.what, err)
		}
	}
	if errs := g.Log("level=ERROR"); len(errs) != 0 {
		t.Errorf("%s", strings.Join(errs, "\n"))
	}
}
