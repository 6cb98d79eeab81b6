// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
)

// Kernels refuse a program for which their verifier would look at more than a million instructions, and what it looks at is
// most of the time that `tidegate run` takes to start. It looks at an instruction once for each state that it cannot tell from
// an earlier one: a loop over options in the middle of a program costs 20,000, as a function of its own (TG_STEP) 700.
// And where paths come together, it goes on once for each, until it is made to forget what tells them apart (TG_FORGET).
// The largest is the proxy in XDP, whose fast path of translated segments (bpf/lib/proxy_near.h) is 14,000 of them, and that of
// SYNs with any options (bpf/lib/proxy_any_syn.h) 16,000.
const verifierCeiling = 95_000

// verifierCeilings are those of other objects. An instruction of host_tc takes three times as long as one in XDP: it reads sockets, for each member
// of which the verifier searches all of the kernel's types.
var verifierCeilings = map[string]int{"proxy_xdp": 235_000, "edge_xdp": 101_000, "host_tc": 46_000}

var processed = regexp.MustCompile(`processed (\d+) insns`)

func TestVerifierLooksAtFewInstructions(t *testing.T) {
	for _, o := range Objects() {
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range spec.Maps {
			shrink(m)
		}
		coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
		if err != nil {
			t.Fatalf("%s: %v", o.Name, err)
		}
		for name, p := range coll.Programs {
			m := processed.FindStringSubmatch(p.VerifierLog)
			if m == nil {
				t.Errorf("%s: %s: the kernel does not say what its verifier has processed: %q", o.Name, name, p.VerifierLog)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			t.Logf("%s: %s: %d", o.Name, name, n)
			ceiling, ok := verifierCeilings[o.Name]
			if !ok {
				ceiling = verifierCeiling
			}
			if n > ceiling {
				t.Errorf("%s: %s: the verifier looks at %d instructions, want at most %d; make the loop that it repeats a function (TG_STEP, TG_GLOBAL)", o.Name, name, n, ceiling)
			}
		}
		coll.Close()
	}
}
