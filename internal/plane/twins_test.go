// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// Each two ports can send twins, both ways, up to a number of ports; then none can.
func TestSetTwins(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("BPF needs root")
	}
	if err := inNamespace(func() error {
		var names []string
		for n := range twinPortsMost/2 + 1 {
			near, far := fmt.Sprintf("tg%d", n), fmt.Sprintf("tg%dfar", n)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: near}, PeerName: far}); err != nil {
				return err
			}
			names = append(names, near, far)
		}
		p, err := LoadProxy(ProxyOptions{Options: Options{KeySlots: 4}, Flows: 1024, Sources: 1024, Halves: 1024})
		if err != nil {
			return err
		}
		defer p.Close()
		for ports := 1; ports <= twinPortsMost+1; ports++ {
			if err := p.SetTwins(names[:ports]); err != nil {
				return fmt.Errorf("%d ports: %w", ports, err)
			}
			if on, want := p.ProxySettings().Twins == 1, ports > 1 && ports <= twinPortsMost; on != want {
				t.Errorf("%d ports: in use: %v; want %v", ports, on, want)
			}
		}
		pairs := 0
		for server := range len(names) {
			for client := range len(names) {
				var m *ebpf.Map
				if p.maps["tg_twins"].Lookup(twinKey{uint32(server + 2), uint32(client + 2)}, &m) == nil {
					pairs++
					m.Close()
				}
			}
		}
		if want := twinPortsMost * (twinPortsMost - 1); pairs != want {
			t.Errorf("%d pairs; want %d", pairs, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
