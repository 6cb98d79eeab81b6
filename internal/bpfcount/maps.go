// SPDX-License-Identifier: Apache-2.0

package bpfcount

import (
	"testing"

	"github.com/cilium/ebpf"
)

// MapsOf returns the maps of a loaded program, by name, as XDP and TC expect them. They are
// closed when the test ends.
func MapsOf(t testing.TB, prog *ebpf.Program) map[string]*ebpf.Map {
	t.Helper()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := info.MapIDs()
	found := map[string]*ebpf.Map{}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		of, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		found[of.Name] = m
	}
	return found
}
