// SPDX-License-Identifier: Apache-2.0

package bpfcount

import (
	"errors"

	"github.com/cilium/ebpf"
)

// Maps returns the maps of a loaded program, by name, as XDP and TC expect them, and what closes them.
func Maps(prog *ebpf.Program) (found map[string]*ebpf.Map, closeAll func(), err error) {
	found = map[string]*ebpf.Map{}
	closeAll = func() {
		for _, m := range found {
			m.Close()
		}
	}
	info, err := prog.Info()
	if err != nil {
		return nil, nil, err
	}
	ids, known := info.MapIDs()
	if !known {
		return nil, nil, errors.New("this kernel does not say which maps a program has")
	}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		of, err := m.Info()
		if err != nil {
			m.Close()
			closeAll()
			return nil, nil, err
		}
		found[of.Name] = m
	}
	return found, closeAll, nil
}

// tester is what a test has of testing.TB: programs that are no tests use this package, too.
type tester interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// MapsOf are Maps for a test, closed when it ends.
func MapsOf(t tester, prog *ebpf.Program) map[string]*ebpf.Map {
	t.Helper()
	found, closeAll, err := Maps(prog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeAll)
	return found
}
