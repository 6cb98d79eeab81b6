// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"testing"

	"tidegate/internal/lab/rig"
)

func TestForeignInterfaceIsRefused(t *testing.T) {
	needRoot(t)
	p, err := rig.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lo := *p.Near
	lo.Name, lo.Index = "lo", 1
	f, err := NewFlood(&lo, p.Far, FloodOptions{Target: rig.ServiceAddr(false), CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Burst(1); !errors.Is(err, rig.ErrForeignInterface) {
		t.Errorf("flood from lo: %v, want ErrForeignInterface", err)
	}
	home := *p.Near
	home.NS = p.Far.NS // our name, but not the port's namespace
	f.from = &home
	if _, err := f.Burst(1); err == nil {
		t.Error("flood from a port of another namespace was not refused")
	}
}
