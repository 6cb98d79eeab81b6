// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/capturebpf"
)

// The verifier accepts a capture around every program that `run` attaches.
func TestCaptureAroundEveryProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the verifier needs root")
	}
	places := map[string]string{"tg_host_xdp": "xdp", "tg_host_tc": "tc", "tg_host_translate": "tc", "tg_server_egress": "egress",
		"tg_proxy_xdp": "xdp", "tg_proxy_tc": "tc", "tg_edge_xdp": "xdp", "tg_edge_smart": "xdp", "tg_server_xdp": "xdp", "tg_server_ingress": "tc"}
	tried := 0
	for _, o := range Objects() {
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for name, inner := range spec.Programs {
			kind, attached := places[name]
			if !attached {
				continue
			}
			with, err := named(capturebpf.LoadCapture)()
			if err != nil {
				t.Fatal(err)
			}
			outer := map[string]string{"xdp": "tg_capture_xdp", "tc": "tg_capture_tc", "egress": "tg_capture_egress"}[kind]
			place := map[bool]string{true: "tg_capture_gate_xdp", false: "tg_capture_gate_tc"}[kind == "xdp"]
			prog := with.Programs[outer]
			if prog.Instructions, err = around(prog.Instructions, inner.Instructions, place); err != nil {
				t.Fatal(err)
			}
			prog.Flags = inner.Flags
			maps := map[string]*ebpf.MapSpec{}
			for _, ins := range prog.Instructions {
				if ref := ins.Reference(); ins.IsLoadFromMap() && maps[ref] == nil {
					if maps[ref] = spec.Maps[ref]; maps[ref] == nil {
						maps[ref] = with.Maps[ref]
					}
					shrink(maps[ref])
				}
			}
			coll, err := ebpf.NewCollection(&ebpf.CollectionSpec{Maps: maps, Programs: map[string]*ebpf.ProgramSpec{outer: prog}, ByteOrder: with.ByteOrder})
			if err != nil {
				t.Errorf("%s in %s: %+v", name, o.Name, err)
				continue
			}
			coll.Close()
			tried++
		}
	}
	if tried < len(places) {
		t.Errorf("%d programs tried, want %d", tried, len(places))
	}
}
