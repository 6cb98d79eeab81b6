// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

func TestServiceRoom(t *testing.T) {
	for numbers, want := range map[int]uint32{0: 512, 1: 512, 128: 512, 129: 1024, 1000: 4096, 2048: 8192, 2049: MaxServices, MaxServices: MaxServices, 3 * MaxServices: MaxServices} {
		if got := serviceRoom(numbers); got != want {
			t.Errorf("%d numbers: room for %d, want %d", numbers, got, want)
		}
	}
}

// The last number that there is a row for is accepted, the next refused, with what helps: a restart, unless there are no more numbers.
func TestRoomIsChecked(t *testing.T) {
	for room, advice := range map[uint32]string{512: "start `tidegate run` again", MaxServices: "10000 numbers"} {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: room + 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := checkRoom(m, []Target{{ID: 1}, {ID: room}}); err != nil {
			t.Errorf("number %d: %v", room, err)
		}
		if err := checkRoom(m, []Target{{ID: 1}, {ID: room + 1}}); err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("number %d: %v, want %q in it", room+1, err, advice)
		}
	}
}
