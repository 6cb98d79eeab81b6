// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// A start replaces the pins of the maps that it has, removes those of maps that only an earlier version had, and leaves the
// others: of the maps in slots, and of links.
func TestCommitRemovesPinsOfMapsThatAreNoMore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it pins maps")
	}
	dir := fmt.Sprintf("/sys/fs/bpf/tg-commit-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	array := func() *ebpf.Map {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	for _, name := range []string{"tg_kept", "tg_no_more", "tg_kept-12", "xdp-eth0"} {
		m := array()
		if err := m.Pin(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(filepath.Join(dir, "tg_kept"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{dir: dir, maps: map[string]*ebpf.Map{"tg_kept": array(), "tg_new": array()}}
	if err := p.pinMaps(); err != nil {
		t.Fatal(err)
	}
	if err := p.renamePins(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	if want := []string{"tg_kept", "tg_kept-12", "tg_new", "xdp-eth0"}; !slices.Equal(names, want) {
		t.Errorf("pins are %q, want %q", names, want)
	}
	if after, err := os.Stat(filepath.Join(dir, "tg_kept")); err != nil || os.SameFile(before, after) {
		t.Errorf("the earlier map's pin was not replaced (%v)", err)
	}
}
