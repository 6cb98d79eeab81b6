// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
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

// Twin returns the program of twins, for benchmarks.
func (p *Proxy) Twin() *ebpf.Program { return p.twin }

// SetTwins lets these ports, all with native XDP, send twins; none if they are fewer than two, or too many.
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
		p.own.Twins = 0
		return p.SetProxy(p.own)
	}
	var keys []twinKey
	var maps []*ebpf.Map
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	for _, server := range native {
		for _, client := range native {
			if client == server {
				continue
			}
			m, err := p.newTwinPorts(server, client)
			if err != nil {
				return fmt.Errorf("twins of ports %d and %d: %w", server, client, err)
			}
			keys, maps = append(keys, twinKey{server, client}), append(maps, m)
		}
	}
	if err := p.putTwins(keys, maps); err != nil {
		return fmt.Errorf("table of twins: %w", err)
	}
	p.own.Twins = 1
	return p.SetProxy(p.own)
}

// newTwinPorts makes the map of two ports. The client's comes last: it is sent the frame itself, the other a copy.
func (p *Proxy) newTwinPorts(server, client uint32) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(p.twinPorts)
	if err != nil {
		return nil, err
	}
	err = errors.Join(m.Put(uint32(0), devmapValue{server, int32(p.twin.FD())}), m.Put(uint32(1), devmapValue{client, -1}))
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// putTwins writes all at once: at each change of such a table the kernel waits until no program can be within it.
func (p *Proxy) putTwins(keys []twinKey, maps []*ebpf.Map) error {
	fds := make([]uint32, len(maps))
	for i, m := range maps {
		fds[i] = uint32(m.FD())
	}
	table := p.maps[proxybpf.ProxyXdpMapTgTwins]
	_, err := table.BatchUpdate(keys, fds, nil)
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	for i := range keys { // before Linux 6.1
		if err := table.Put(keys[i], maps[i]); err != nil {
			return err
		}
	}
	return nil
}
