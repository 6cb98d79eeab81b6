// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/proxybpf"
)

// Twins are the two packets that a server's SYN-ACK makes, sent as one frame by two ports (bpf/lib/proxy_twin.h).

// twinPortsMost is how many ports may send twins among each other: each two have two maps of their own.
const twinPortsMost = 16

type twinKey struct{ Server, Client uint32 }

// devmapValue is struct bpf_devmap_val of include/uapi/linux/bpf.h.
type devmapValue struct {
	Ifindex uint32
	Program int32 // a file descriptor; 0 or less: none
}

// AllowTwins lets attached ports send twins, from the next SYN-ACK on, if our program runs there in native mode and will do so: in
// generic mode a frame and its twin would share their bytes, and a dispatcher may be replaced by one in that mode. Where there are no
// twins, the TC program makes two packets.
func (p *Proxy) AllowTwins(modes map[string]XDPMode) error {
	var names []string
	for name, mode := range modes {
		a := p.links.xdp[name]
		if _, dispatched := a.link.(*dispatchedHook); mode == XDPNative && !dispatched {
			names = append(names, name)
		}
	}
	return p.SetTwins(names)
}

// SetTwins lets these ports, all with native XDP, send twins.
func (p *Proxy) SetTwins(interfaces []string) error {
	var native []uint32
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		native = append(native, uint32(dev.Index))
	}
	if len(native) < 2 || len(native) > twinPortsMost {
		return nil
	}
	for _, server := range native {
		for _, client := range native {
			if client == server {
				continue
			}
			if err := p.putTwins(twinKey{server, client}); err != nil {
				return fmt.Errorf("twins of ports %d and %d: %w", server, client, err)
			}
		}
	}
	p.own.Twins = 1
	return p.SetProxy(p.own)
}

func (p *Proxy) putTwins(key twinKey) error {
	ports, err := ebpf.NewMap(p.twinPorts)
	if err != nil {
		return err
	}
	defer ports.Close()
	// The client's port last: it is sent the frame itself, the others copies.
	if err := ports.Put(uint32(0), devmapValue{key.Server, int32(p.twin.FD())}); err != nil {
		return err
	}
	if err := ports.Put(uint32(1), devmapValue{key.Client, -1}); err != nil {
		return err
	}
	return p.maps[proxybpf.ProxyXdpMapTgTwins].Put(key, ports)
}
