// SPDX-License-Identifier: Apache-2.0

// Package vectors_test replays the golden vectors on core/ natively, on the XDP
// and TC programs by BPF_PROG_TEST_RUN, and those that make a connection on a
// veth with a real listener. It must know nothing of what a vector is about.
package vectors_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/vectors"
)

const dir = "../../vectors"

// hostOnly is the file of frames that only a gate which adopts treats differently.
const hostOnly = "stacks"

// loaded are the folders that have been read, by name: reading one takes seconds of processor time.
var (
	loaded   = map[string][]vectors.Vector{}
	loadedMu sync.Mutex
)

// load returns the vectors of a folder, which share what they point to: a test changes only its own copy of a vector.
func load(t *testing.T, dir string) []vectors.Vector {
	t.Helper()
	loadedMu.Lock()
	defer loadedMu.Unlock()
	if loaded[dir] == nil {
		all, err := vectors.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		loaded[dir] = all
	}
	return slices.Clone(loaded[dir])
}

// replayAll reports each vector that a gate fails; it returns how many it ran.
func replayAll(t *testing.T, g vectors.Gate, all []vectors.Vector, use func(*vectors.Vector) bool) (ran int) {
	t.Helper()
	failed := 0
	for i := range all {
		v := &all[i]
		if !use(v) {
			continue
		}
		ran++
		d, err := vectors.Replay(g, v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if len(d) > 0 {
			if failed++; failed <= 20 {
				t.Errorf("%s: %s\n(%s)", v, strings.Join(d, "\n"), v.Why)
			}
		}
	}
	if failed > 20 {
		t.Errorf("and %d more", failed-20)
	}
	return ran
}

// rejectAll is the canary: a gate must fail every vector that is deliberately wrong.
func rejectAll(t *testing.T, g vectors.Gate, use func(*vectors.Vector) bool) {
	t.Helper()
	ran := 0
	for _, v := range load(t, filepath.Join(dir, "canary")) {
		if !use(&v) {
			continue
		}
		ran++
		d, err := vectors.Replay(g, &v)
		if err != nil {
			t.Fatalf("%s: %v", &v, err)
		}
		if len(d) == 0 {
			t.Errorf("%s passed, and must fail: %s", &v, v.Why)
		}
	}
	if ran < 5 {
		t.Errorf("only %d canaries", ran)
	}
}

func every(*vectors.Vector) bool { return true }
func makesConnection(v *vectors.Vector) bool {
	return v.Adopts() || strings.HasPrefix(v.Name, "adopted-")
}
func makesNone(v *vectors.Vector) bool { return !makesConnection(v) }

func TestNative(t *testing.T) {
	g := newNativeGate(t)
	all := load(t, dir)
	rejectAll(t, g, every)
	t.Logf("%d vectors on core/", replayAll(t, g, all, every))
	if len(all) < 1000 {
		t.Errorf("%d vectors; there were more than 1,000", len(all))
	}
}

// TestPrograms replays all but adoptions: the kernel refuses those to a test run.
func TestPrograms(t *testing.T) {
	needRoot(t)
	g := newKernelGate(t)
	rejectAll(t, g, makesNone)
	n := replayAll(t, g, load(t, dir), makesNone)
	t.Logf("%d vectors on the XDP and TC programs; %d times the kernel made no test packet of a frame without a whole IP header", n, g.short)
	ids, err := g.straysCounted()
	if err != nil || len(ids) > 0 {
		t.Errorf("services %v were counted for and belong to no vector (%v)", ids, err)
	}
}

func TestAdoption(t *testing.T) {
	needRoot(t)
	g := newWireGate(t)
	rejectAll(t, g, makesConnection)
	t.Logf("%d vectors adopted on a veth", replayAll(t, g, load(t, dir), makesConnection))
}

// TestVectorsAreWhatTheirWriterWrites runs vectors/generate.py and compares its output with the files.
func TestVectorsAreWhatTheirWriterWrites(t *testing.T) {
	fresh := t.TempDir()
	if out, err := exec.Command("python3", filepath.Join(dir, "generate.py"), fresh).CombinedOutput(); err != nil {
		t.Fatalf("generate.py: %v\n%s", err, out)
	}
	for _, sub := range []string{"", "edge", "canary", "proxy", "canary/proxy"} {
		want, err := filepath.Glob(filepath.Join(fresh, sub, "*.yaml"))
		if err != nil || len(want) == 0 {
			t.Fatalf("nothing generated: %v", err)
		}
		have, _ := filepath.Glob(filepath.Join(dir, sub, "*.yaml"))
		if len(have) != len(want) {
			t.Errorf("%d files in vectors/%s, generate.py writes %d", len(have), sub, len(want))
		}
		for _, path := range want {
			name := filepath.Join(sub, filepath.Base(path))
			a, _ := os.ReadFile(path)
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("vectors/%s differs from what generate.py writes (%v)", name, err)
			}
		}
	}
}
