// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"tidegate/internal/sourcelist"
)

var benchedMpps = regexp.MustCompile(`"cookie": ([0-9.]+), over_macswap: ([0-9.]+)`)

// BenchmarkListsOnDPDK measures what a list of a million addresses costs SYNs of random sources that are answered with cookies, in
// memory, on one core: when none is in the networks of the sources, and when all are. The cases take turns.
// `go test ./test/vectors -run '^$' -bench ListsOnDPDK -benchtime 1x`.
func BenchmarkListsOnDPDK(b *testing.B) {
	if out, err := exec.Command("make", "-s", "-C", "../../dpdk").CombinedOutput(); err != nil {
		b.Fatalf("make -C dpdk: %v\n%s", err, out)
	}
	table := func(name string, first, networks int) string {
		r := rand.New(rand.NewPCG(1, 1))
		entries := make([]sourcelist.Entry, 0, 1_000_000)
		for range cap(entries) {
			a := netip.AddrFrom4([4]byte{byte(first + r.IntN(networks)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
			entries = append(entries, sourcelist.NewEntry(netip.PrefixFrom(a, 32), sourcelist.Allow))
		}
		t, err := sourcelist.Build(entries)
		if err != nil {
			b.Fatal(err)
		}
		blocks := make([]byte, t.Blocks()*sourcelist.BlockBytes)
		t.Bytes(blocks)
		path := filepath.Join(b.TempDir(), name)
		if err := os.WriteFile(path, blocks, 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	// The benchmark's sources are 11.0.0.0 to 126.255.255.255 (dpdk/bench/traffic.c).
	cases := []struct {
		name string
		args []string
	}{{"without", nil}, {"outside", []string{"--lists", table("outside", 1, 10)}}, {"among", []string{"--lists", table("among", 11, 116)}}}
	ns, share := map[string][]float64{}, map[string][]float64{}
	for range b.N * 5 {
		for _, c := range cases {
			out, err := exec.Command("../../bin/tidegate-dpdk-bench", append([]string{"--only", "cookie", "--rounds", "5", "--slice-ms", "20"}, c.args...)...).Output()
			if err != nil {
				b.Fatal(err)
			}
			for _, found := range benchedMpps.FindAllSubmatch(out, -1) {
				mpps, _ := strconv.ParseFloat(string(found[1]), 64)
				over, _ := strconv.ParseFloat(string(found[2]), 64)
				ns[c.name], share[c.name] = append(ns[c.name], 1000/mpps), append(share[c.name], over)
			}
		}
	}
	median := func(of []float64) float64 {
		if len(of) == 0 {
			b.Fatal("tidegate-dpdk-bench printed no figure")
		}
		slices.Sort(of)
		return of[len(of)/2]
	}
	for _, c := range cases {
		b.ReportMetric(median(ns[c.name]), "ns/SYN-"+c.name)
		b.ReportMetric(median(share[c.name]), "of-macswap-"+c.name)
	}
}
