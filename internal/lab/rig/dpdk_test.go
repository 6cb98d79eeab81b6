// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"testing"
)

// A box whose flood and clients share a port has one program at that port, not two.
func TestForUserspaceWithOnePort(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the lab needs root: run with sudo")
	}
	o, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewOnePortProxy(o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.ForUserspace(); err != nil {
		t.Fatal(err)
	}
}
