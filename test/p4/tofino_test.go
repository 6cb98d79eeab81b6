// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	tofinoProbe = "../../p4/tna/probe.p4"
	tofinoEdge  = "../../p4/tna/edge.p4"

	// What an edge may use of a Tofino.
	hashUnitsMax      = 0.60
	sramMax           = 0.10
	recirculationsMax = 2
)

// chip is a Tofino: what the compiler calls it, and the schedule that passes.p4 has for it.
type chip struct {
	target, arch, define string
	stages, passes       int
}

var tofinos = []chip{
	{"tofino", "tna", "__TARGET_TOFINO__=1", 12, 3},
	{"tofino2", "t2na", "__TARGET_TOFINO__=2", 20, 2},
}

// assemble compiles a program and has the assembler place it; `compiled` is false if it
// was the compiler that refused. The compiler's exit code proves nothing: it is 0 even
// for an assembly of more stages than exist.
func assemble(t *testing.T, c chip, source string) (dir string, compiled bool, err error) {
	t.Helper()
	p4c, bfas := tool(t, "P4C_TOFINO", "p4c-barefoot"), tool(t, "BFAS", "bfas")
	dir = t.TempDir()
	start := time.Now()
	text, err := exec.Command(p4c, "--std", "p4-16", "--target", c.target, "--arch", c.arch, "-D"+c.define,
		"-g", "--verbose", "-o", dir, source).CombinedOutput()
	if err != nil {
		return dir, false, fmt.Errorf("%s for %s: %w\n%s", source, c.target, err, text)
	}
	assembly := filepath.Join(dir, "pipe", strings.TrimSuffix(filepath.Base(source), ".p4")+".bfa")
	out := filepath.Join(dir, "assembled")
	if err := os.MkdirAll(filepath.Join(out, "logs"), 0o755); err != nil {
		return dir, true, err
	}
	text, err = exec.Command(bfas, "--target", c.target, "-o", out, assembly).CombinedOutput()
	if err != nil {
		return dir, true, fmt.Errorf("%s for %s: bfas: %w\n%s", source, c.target, err, text)
	}
	if strings.Contains(string(text), "Can't match parser state") {
		return dir, true, fmt.Errorf("%s for %s: the compiler has lost a parser's selects: take one with p4lang/p4c's pull request 5753\n%s",
			source, c.target, text)
	}
	binary, err := os.Stat(filepath.Join(out, c.target+".bin"))
	if err == nil && binary.Size() == 0 {
		err = errors.New("the assembler's binary is empty")
	}
	t.Logf("%s for %s compiled and assembled in %v", source, c.target, time.Since(start).Round(time.Millisecond))
	return dir, true, err
}

// used is what a program uses of a pipe, according to the compiler's resources.json. All
// but the stages are sums over all stages.
type used struct {
	stages, sram, mapRAM, tcam, hashUnits, hashBits, instructions, tables int
}

const (
	sramOfStage         = 80
	mapRAMOfStage       = 48
	tcamOfStage         = 24
	hashUnitsOfStage    = 6 // hash distribution units: 56.9 % of 72 is the paper's figure
	hashBitsOfStage     = 8 * 52
	instructionsOfStage = 32
	tablesOfStage       = 16
)

func resources(dir string) (u used, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "pipe", "logs", "resources.json"))
	if err != nil {
		return u, err
	}
	// Of each stage: kinds of resource, and lists of what is used of them.
	var doc struct {
		Resources struct {
			MAU struct {
				Stages []map[string]json.RawMessage `json:"mau_stages"`
			} `json:"mau"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return u, fmt.Errorf("resources.json: %w", err)
	}
	for _, stage := range doc.Resources.MAU.Stages {
		tables := u.tables
		for _, r := range []struct {
			kind, list string
			sum        *int
		}{
			{"rams", "srams", &u.sram}, {"map_rams", "maprams", &u.mapRAM}, {"tcams", "tcams", &u.tcam},
			{"hash_distribution_units", "units", &u.hashUnits}, {"hash_bits", "bits", &u.hashBits},
			{"vliw", "instructions", &u.instructions}, {"logical_tables", "ids", &u.tables},
		} {
			var kind map[string]json.RawMessage
			var list []json.RawMessage
			if err := errors.Join(json.Unmarshal(stage[r.kind], &kind), json.Unmarshal(kind[r.list], &list)); err != nil {
				return u, fmt.Errorf("resources.json: %s of %s: %w", r.list, r.kind, err)
			}
			*r.sum += len(list)
		}
		if u.tables > tables {
			u.stages++
		}
	}
	if u.tables == 0 || u.hashUnits == 0 || u.instructions == 0 {
		return u, fmt.Errorf("resources.json has other names than this test knows: %+v", u)
	}
	return u, nil
}

// TestTofinoEdge compiles and assembles the edge for both chips and checks it against the
// limits; TestTofinoProbe does so for its hash alone. They print the figures of docs/p4.md (-v).
func TestTofinoEdge(t *testing.T) { testTofinoFits(t, tofinoEdge) }

func TestTofinoProbe(t *testing.T) { testTofinoFits(t, tofinoProbe) }

func testTofinoFits(t *testing.T, source string) {
	for _, c := range tofinos {
		t.Run(c.target, func(t *testing.T) {
			dir, _, err := assemble(t, c, source)
			if err != nil {
				t.Fatal(err)
			}
			u, err := resources(dir)
			if err != nil {
				t.Fatal(err)
			}
			if source == tofinoEdge && (u.sram == 0 || u.tcam == 0) {
				t.Fatalf("an edge without memory: %+v", u)
			}
			part := func(n, ofStage int) float64 { return float64(n) / float64(ofStage*c.stages) }
			t.Logf("stages %d of %d", u.stages, c.stages)
			for _, r := range []struct {
				name       string
				n, ofStage int
				most       float64
			}{
				{"SRAM blocks", u.sram, sramOfStage, sramMax},
				{"map RAM blocks", u.mapRAM, mapRAMOfStage, 1},
				{"TCAM blocks", u.tcam, tcamOfStage, 1},
				{"hash units", u.hashUnits, hashUnitsOfStage, hashUnitsMax},
				{"hash bits", u.hashBits, hashBitsOfStage, 1},
				{"instructions", u.instructions, instructionsOfStage, 1},
				{"tables", u.tables, tablesOfStage, 1},
			} {
				t.Logf("%s %d of %d: %.1f %%", r.name, r.n, r.ofStage*c.stages, 100*part(r.n, r.ofStage))
				if part(r.n, r.ofStage) > r.most {
					t.Errorf("%s: more than %.0f %%", r.name, 100*r.most)
				}
			}
			if u.stages > c.stages {
				t.Errorf("%d stages", u.stages)
			}
		})
	}
}

// TestTofinoRecirculations reads from the schedule how often a packet recirculates for a
// cookie. TestTofinoPasses shows that this many passes give the right cookie.
func TestTofinoRecirculations(t *testing.T) {
	text, err := os.ReadFile("../../p4/tna/passes.p4")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`__TARGET_TOFINO__ == 2\n#define TG_PASSES (\d)\n#else\n#define TG_PASSES (\d)\n`).FindSubmatch(text)
	if declared == nil {
		t.Fatal("passes.p4 has no TG_PASSES for each chip")
	}
	for i, c := range []chip{tofinos[1], tofinos[0]} {
		passes, err := strconv.Atoi(string(declared[i+1]))
		if err != nil {
			t.Fatal(err)
		}
		if passes != c.passes || passes-1 > recirculationsMax {
			t.Errorf("%s: %d passes, so %d recirculations; want %d passes and at most %d recirculations",
				c.target, passes, passes-1, c.passes, recirculationsMax)
		}
	}
}

// TestTofinoTooLong: a program that does not fit is detected, although the compiler does not report it.
func TestTofinoTooLong(t *testing.T) {
	_, compiled, err := assemble(t, tofinos[0], "testdata/toolong.p4")
	switch {
	case err == nil:
		t.Fatal("thirteen stages fit in twelve")
	case !compiled:
		t.Fatalf("the compiler refused it by itself, so that this test shows nothing: %v", err)
	case !strings.Contains(err.Error(), "up to 12 stages, using 13"):
		t.Fatalf("refused for another reason: %v", err)
	}
}
