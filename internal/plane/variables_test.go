// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The maps of variables have the names of the variables, which pins may have, and what programs refer to exists.
func TestVariablesAreNamed(t *testing.T) {
	found := map[string]bool{}
	for _, o := range Objects() {
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for name, ms := range spec.Maps {
			if strings.HasPrefix(name, ".data") || strings.HasPrefix(name, ".bss") || ms.Name != name {
				t.Errorf("%s: the map %s has the name %s", o.Name, name, ms.Name)
			}
			found[name] = found[name] || ms.Value != nil && ms.MaxEntries == 1 && ms.Type == ebpf.Array
		}
		if spec.Maps[mapTablesVersion] != nil {
			t.Errorf("%s: %s is the name of the map that tells processes the tables' version", o.Name, mapTablesVersion)
		}
		for _, prog := range spec.Programs {
			for _, ins := range prog.Instructions {
				if ins.IsLoadFromMap() && spec.Maps[ins.Reference()] == nil {
					t.Errorf("%s: %s refers to %q, which is no map", o.Name, prog.Name, ins.Reference())
				}
			}
		}
	}
	for _, name := range []string{VarSettings, VarPorts, VarServices, VarProxy, VarStrategies, VarServersNear, VarPresence, VarEdge, VarTagged,
		VarServer, VarListFront, VarListBits, VarOwnAddrs, VarPatrol, VarFilling} {
		if !found[name] {
			t.Errorf("no object has the variable %s", name)
		}
	}
}

// Entries are written where the packet path reads them, and not beyond.
func TestEntries(t *testing.T) {
	spec := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16384 * 24, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const last = 16384 - 1
	if err := SetEntry(m, last, Service{MssV4: 1460, FlowKey: 7}); err != nil {
		t.Fatal(err)
	}
	whole, err := m.LookupBytes(uint32(0))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole[last*24:]; got[0] != 1460&0xff || got[1] != 1460>>8 || got[20] != 7 {
		t.Errorf("the last entry is %x", got)
	}
	for i, b := range whole[:last*24] {
		if b != 0 {
			t.Fatalf("byte %d of the other entries is %#x", i, b)
		}
	}
	if s, err := entry[Service](m, last); err != nil || s.MssV4 != 1460 || s.FlowKey != 7 {
		t.Errorf("read back: %+v, %v", s, err)
	}
	if err := SetEntry(m, last+1, Service{}); err == nil {
		t.Error("an entry beyond the last was written")
	}
	if _, err := entry[Service](m, last+1); err == nil {
		t.Error("an entry beyond the last was read")
	}
}
