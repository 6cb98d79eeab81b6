// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"os"
	"testing"
	"time"
)

// A key ends what CPUs have derived from keys if it replaces one that a packet may have met, and else does not.
func TestPutKey(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: loads programs")
	}
	p, err := LoadProxy(ProxyOptions{Options: Options{KeySlots: 16}, Flows: 1024, Sources: 1024, Halves: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const length = 8 * time.Second
	s := &Settings{EpochLenNs: uint64(length), WallMinusMonoNs: WallMinusMonoNs(time.Now())}
	if err := p.SetSettings(s); err != nil {
		t.Fatal(err)
	}
	now := s.EpochNear
	filling := func() uint64 {
		var f Filling
		if err := p.maps[VarFilling].Lookup(uint32(0), &f); err != nil {
			t.Fatal(err)
		}
		return f.Filling
	}
	a, b := [16]byte{1}, [16]byte{2}
	for _, step := range []struct {
		what  string
		epoch uint64
		key   [16]byte
		ends  bool
	}{
		{"the first of this epoch", now, a, false},
		{"the same again", now, a, false},
		{"another", now, b, true},
		{"the first of the next epoch, which a clock ahead may have met", now + 1, a, false},
		{"another", now + 1, b, true},
		{"the first of a later epoch", now + 5, a, false},
		{"another, of an epoch that no packet can have met", now + 5, b, false},
		{"one in the place of this epoch's", now + 16, a, false},
		{"this epoch's again, after the clock was set back: CPUs may have something of an earlier key", now, a, true},
		{"another", now, b, true},
	} {
		before := filling()
		if err := p.PutKey(step.epoch, step.key); err != nil {
			t.Fatal(err)
		}
		if ends := filling() != before; ends != step.ends {
			t.Errorf("%s (epoch %d, now %d): ends what was derived: %v, want %v", step.what, step.epoch, now, ends, step.ends)
		}
	}
}
