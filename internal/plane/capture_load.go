// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/capturebpf"
	"tidegate/internal/proginfo"
)

// The programs of a capture: which gate program a link runs, and the same one wrapped in bpf/capture.bpf.c.

// prepare loads the wrapped program of a pinned link.
func (c *Capture) prepare(o CaptureOptions, part int, path, kind string) error {
	l, err := openHook(path)
	if err != nil {
		return err
	}
	h := &captureHook{link: l, path: path}
	c.hooks = append(c.hooks, h)
	if _, beside := l.(*dispatchedHook); beside {
		return errors.New("its XDP program is a component of a dispatcher (docs/neighbours.md), which cannot be captured; `xdpdump` of xdp-tools can look at it")
	}
	if h.gate, err = programOf(l, path); err != nil {
		return err
	}
	name, err := proginfo.Name(h.gate)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, captureName) {
		gate := h.gate
		h.gate = nil // no program to restore
		gate.Close()
		return errors.New("the program of a capture whose daemon was killed is installed; restart the instance")
	}
	gate, err := gateSpec(o, name)
	if err != nil {
		return err
	}
	of := captureOf{filepath.Dir(path), kind, gate.name}
	if c.with[of] == nil {
		if c.with[of], err = c.load(gate, part, of.dir, kind); err != nil {
			return err
		}
	}
	h.with = c.with[of]
	return nil
}

// shownName is the part of a program's name that the kernel keeps.
func shownName(name string) string { return name[:min(len(name), unix.BPF_OBJ_NAME_LEN-1)] }

// gateProgram is a gate's program and its object.
type gateProgram struct {
	*ebpf.CollectionSpec
	name string
}

// gateSpec finds the program by its name.
func gateSpec(o CaptureOptions, name string) (g gateProgram, err error) {
	for _, object := range Objects() {
		if strings.HasSuffix(object.Name, "_smart") != o.Smart && object.Role == "edge" {
			continue
		}
		// A host's programs run for a server that adopts, too; the one at egress has the same name as a server's.
		if object.Role != o.Role && (o.Role != "server" || object.Role != "host") {
			continue
		}
		spec, err := object.Spec()
		if err != nil {
			return g, err
		}
		for full := range spec.Programs {
			if shownName(full) == shownName(name) && (g.CollectionSpec == nil || object.Role == o.Role) {
				g = gateProgram{spec, full}
			}
		}
	}
	if g.CollectionSpec == nil {
		return g, fmt.Errorf("program %s is none of this version; restart the instance", name)
	}
	return g, nil
}

// load loads a gate's program, wrapped for capture, on the maps it uses in the kernel.
func (c *Capture) load(gate gateProgram, part int, dir, kind string) (*ebpf.Program, error) {
	with, err := named(capturebpf.LoadCapture)()
	if err != nil {
		return nil, err
	}
	outer, place := capturebpf.CaptureProgTgCaptureXdp, "tg_capture_gate_xdp"
	switch kind {
	case "tc":
		outer, place = capturebpf.CaptureProgTgCaptureTc, "tg_capture_gate_tc"
	case "egress":
		outer, place = capturebpf.CaptureProgTgCaptureEgress, "tg_capture_gate_tc"
	}
	prog := with.Programs[outer]
	inner := gate.Programs[gate.name]
	if prog.Instructions, err = around(prog.Instructions, inner.Instructions, place); err != nil {
		return nil, err
	}
	prog.Flags = inner.Flags
	prog.Name = captureName
	spec := &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{}, Programs: map[string]*ebpf.ProgramSpec{prog.Name: prog}, ByteOrder: with.ByteOrder}
	replace := map[string]*ebpf.Map{}
	var pinned []*ebpf.Map
	defer func() {
		for _, m := range pinned {
			m.Close()
		}
	}()
	for _, ins := range prog.Instructions {
		name := ins.Reference()
		if !ins.IsLoadFromMap() || spec.Maps[name] != nil {
			continue
		}
		m := c.own[name]
		if name == capturebpf.CaptureMapTgCapture {
			m = c.leases[part]
		}
		if m == nil {
			if m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
				return nil, fmt.Errorf("map %s: %w", name, err)
			}
			pinned = append(pinned, m)
		}
		ms := gate.Maps[name]
		if ms == nil {
			ms = with.Maps[name]
		}
		ms.MaxEntries, ms.Flags = m.MaxEntries(), m.Flags()
		spec.Maps[name], replace[name] = ms, m
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace})
	if err != nil {
		return nil, explain(err)
	}
	defer coll.Close()
	return coll.DetachProgram(prog.Name), nil
}

// around replaces a function of one program by another program. Functions in both are identical; one copy of each is kept.
func around(outer, inner asm.Instructions, place string) (out asm.Instructions, err error) {
	has, found := map[string]bool{place: true}, false
	for i := range inner {
		if i > 0 && btf.FuncMetadata(&inner[i]) != nil {
			has[inner[i].Symbol()] = true
		}
	}
	skip := false
	for i := range outer {
		if btf.FuncMetadata(&outer[i]) != nil {
			name := outer[i].Symbol()
			skip = has[name]
			found = found || name == place
		}
		if !skip {
			out = append(out, outer[i])
		}
	}
	if !found || len(inner) == 0 {
		return nil, fmt.Errorf("no function %s", place)
	}
	return append(append(out, inner[0].WithSymbol(place)), inner[1:]...), nil
}
