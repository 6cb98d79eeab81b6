// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"testing"

	"tidegate/internal/plane/hostbpf"
)

// What says whether a pinned map is ours agrees with the object.
func TestPinnedShapes(t *testing.T) {
	spec, err := named(hostbpf.LoadHostXdp)()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pinnedShapes {
		m := spec.Maps[name]
		if m == nil {
			t.Errorf("the object has no map %s", name)
			continue
		}
		if m.Type != want.kind || m.KeySize != 4 || uintptr(m.ValueSize) != want.valueSize || want.entries != 0 && m.MaxEntries != want.entries {
			t.Errorf("%s: the object has %v, a key of %d bytes, a value of %d and %d entries; want 4 and %+v", name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, want)
		}
	}
}
