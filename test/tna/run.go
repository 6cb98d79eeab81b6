// SPDX-License-Identifier: Apache-2.0

package tna

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/vectors"
)

// Chip is a Tofino: what p4testgen calls it, what the program's includes ask for, and how often the program recirculates at most.
type Chip struct {
	Target, Arch   string
	Number         int
	Recirculations int
}

// Tofino1 is the first one.
var Tofino1 = Chip{"tofino", "tna", 1, 2}

// Executor runs p4testgen on the edge.
type Executor struct {
	Tool string // p4testgen, with tna.p4 and testgen.p4 in the folder p4include beside it
	P4   string // the folder p4/
	Chip Chip
	Dir  string // for its files
	runs int
}

// New finds p4testgen by the variable P4TESTGEN or on PATH.
func New(t *testing.T, p4 string, chip Chip) *Executor {
	t.Helper()
	path, err := exec.LookPath("p4testgen")
	if named := os.Getenv("P4TESTGEN"); named != "" {
		path, err = exec.LookPath(named)
	}
	switch {
	case err == nil:
	case os.Getenv("TIDEGATE_P4") == "require":
		t.Fatal("p4testgen is neither in P4TESTGEN nor on PATH: build it from p4lang/p4c (docs/p4.md)")
	default:
		t.Skip("no p4testgen: neither P4TESTGEN nor PATH has it; docs/p4.md says where it comes from")
	}
	return &Executor{Tool: path, P4: p4, Chip: chip, Dir: t.TempDir()}
}

// Outcome is what became of a frame in the end.
type Outcome struct {
	vectors.Result
	Recirculations int
}

// result is that of one pass.
type result struct {
	port int // 0: dropped
	out  []byte
}

// Execute passes frames through the switch, each for itself: in a switch without state but the settings, whose filter
// knows all flows or none. They get one length first; what is added or removed lies behind the
// headers, and the program does not look at it.
func (x *Executor) Execute(s *Settings, fromServer, known bool, frames [][]byte) ([]Outcome, error) {
	const length = 128 // three tags and the longest headers
	lap, waiting := make([][]byte, len(frames)), make([]int, len(frames))
	for i, f := range frames {
		lap[i], waiting[i] = make([]byte, length), i
		copy(lap[i], f)
	}
	all := make([]Outcome, len(frames))
	for n := 0; len(waiting) > 0; n++ {
		if n > x.Chip.Recirculations {
			return nil, fmt.Errorf("%d frames recirculate more than %d times", len(waiting), x.Chip.Recirculations)
		}
		results, err := x.pass(s, n, fromServer, known, lap)
		if err != nil {
			return nil, fmt.Errorf("pass %d: %w", n+1, err)
		}
		var nextLap [][]byte
		var next []int
		for k, i := range waiting {
			r := results[k]
			switch {
			case r.port == recirculation:
				nextLap, next = append(nextLap, r.out), append(next, i)
				continue
			case r.port == 0:
				all[i].Verdict = vectors.Drop
			case (r.port == inside) != fromServer:
				all[i].Verdict = vectors.Pass
			default:
				all[i].Verdict = vectors.TX
			}
			all[i].Out, all[i].Recirculations = r.out, n
			if all[i].Verdict == vectors.Pass { // its own length again
				all[i].Out = append(bytes.Clone(r.out[:min(len(r.out), len(frames[i]))]), frames[i][min(length, len(frames[i])):]...)
			}
		}
		lap, waiting = nextLap, next
	}
	return all, nil
}

// pass runs one pass, counted from 0, of frames that have one length.
func (x *Executor) pass(s *Settings, n int, fromServer, known bool, frames [][]byte) ([]result, error) {
	var distinct [][]byte
	seen := map[string]bool{}
	for _, f := range frames {
		if !seen[string(f)] {
			seen[string(f)] = true
			distinct = append(distinct, f)
		}
	}
	found, err := x.run(s, n, fromServer, known, distinct)
	if err != nil {
		return nil, err
	}
	of := map[string]result{}
	for _, p := range found {
		if !seen[string(p.in)] {
			continue // the path of all other frames
		}
		if other, twice := of[string(p.in)]; twice {
			return nil, fmt.Errorf("two results of one frame: %+v and %+v", other, p.result)
		}
		of[string(p.in)] = p.result
	}
	results := make([]result, len(frames))
	for i, f := range frames {
		r, ok := of[string(f)]
		if !ok {
			return nil, fmt.Errorf("p4testgen has no result for %x", f)
		}
		results[i] = r
	}
	return results, nil
}

// path is a frame and its result.
type path struct {
	in []byte
	result
}

// run has p4testgen generate all paths of a pass.
func (x *Executor) run(s *Settings, n int, fromServer, known bool, frames [][]byte) ([]path, error) {
	x.runs++
	dir := filepath.Join(x.Dir, strconv.Itoa(x.runs))
	bits := 8 * len(frames[0])
	edge, err := writeProgram(x.P4, dir, s, variant{n > 0, n == x.Chip.Recirculations, fromServer, known}, frames)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "paths")
	args := []string{"--std", "p4-16", "--target", x.Chip.Target, "--arch", x.Chip.Arch,
		"-I", filepath.Join(filepath.Dir(x.Tool), "p4include"), fmt.Sprintf("-D__TARGET_TOFINO__=%d", x.Chip.Number),
		"--test-backend", "STF", "--max-tests", "0", "--seed", "1", "--out-dir", out,
		"--packet-size-range", fmt.Sprintf("%d:%d", bits, bits), "--skip-control-plane-entities", strings.Join(s.empty(), ","), edge}
	if text, err := exec.Command(x.Tool, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("p4testgen: %w\n%s", err, lastLines(text, 40))
	}
	return readPaths(out)
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}

// readPaths reads the tests that p4testgen has written.
func readPaths(dir string) (all []path, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.stf"))
	if err == nil && len(names) == 0 {
		err = errors.New("p4testgen has written no test")
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p, err := readPath(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		all = append(all, p)
	}
	return all, nil
}

// readPath reads "packet PORT HEX" and "expect PORT HEX$"; without the latter the frame is dropped.
func readPath(text string) (p path, err error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "packet" && f[0] != "expect" {
			continue
		}
		data, err := hex.DecodeString(strings.TrimSuffix(f[2], "$"))
		if err != nil { // `*` is a digit that the model does not know
			return p, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
		if f[0] == "packet" {
			p.in = data
			continue
		}
		if p.port, err = strconv.Atoi(f[1]); err != nil {
			return p, err
		}
		p.out = data
	}
	if p.in == nil {
		return p, errors.New("no packet")
	}
	return p, nil
}
