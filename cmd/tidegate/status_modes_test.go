// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"tidegate/internal/plane"
	"tidegate/internal/status"
)

func TestInterfaceModes(t *testing.T) {
	st := &status.Status{Interfaces: []string{"eth0", "eth1", "eth2"}, XDP: map[string]plane.XDPMode{"eth0": plane.XDPNative, "eth1": plane.XDPGeneric},
		Refused:    map[string]string{"eth1": "operation not supported"},
		Neighbours: map[string][]plane.Neighbour{"eth0": {{Program: "xdpfilt_alw_all", Priority: 10}, {Program: "tg_host_xdp", Priority: 20, Ours: true}}}}
	const want = "eth0 native (dispatcher: xdpfilt_alw_all (10), tidegate (20)), eth1 generic (native XDP refused: operation not supported), eth2"
	if got := interfaceModes(st); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
