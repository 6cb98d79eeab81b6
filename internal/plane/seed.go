// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// The socket filter (core/tuple_filter.h) must know every socket of a port that
// the gate serves, or has ever served: a socket counted when it opens is
// subtracted when it closes. So a port, once watched, stays watched, and the existing
// sockets are added exactly once, by the iterator, while the
// port's entry says SEED.

// putPorts brings the port table to next. It adds to next the ports that are no
// longer served, as watched ones.
func (p *Plane) putPorts(next map[uint32]uint32) error {
	var added []uint32
	for port := range next {
		if _, ok := p.filled.ports[port]; !ok {
			added = append(added, port)
		}
	}
	for port := range p.filled.ports {
		if _, ok := next[port]; !ok {
			next[port] = portWatched
		}
	}
	if p.watching {
		if err := p.seed(added); err != nil {
			return err
		}
	}
	if !p.watching {
		return p.writePorts(next, portSeed) // startWatching ends it
	}
	return p.writePorts(next, 0)
}

// seed puts the existing sockets of new ports into the filter.
func (p *Plane) seed(ports []uint32) error {
	if len(ports) == 0 {
		return nil
	}
	watched := map[uint32]uint32{}
	for _, port := range ports {
		watched[port] = portWatched | portSeed
	}
	if err := p.writePorts(watched, 0); err != nil {
		return err
	}
	return p.walkSockets()
}

// startWatching is called once sock_ops is attached: from then on every open and
// close is seen. A socket that opens just now may be counted twice; then its
// cells say "maybe" for as long as the gate runs, which costs a look-up.
func (p *Plane) startWatching() error {
	if err := p.walkSockets(); err != nil {
		return err
	}
	p.watching = true
	return p.writePorts(p.filled.ports, 0)
}

// writePorts writes the entries of ports, each with these flags besides.
func (p *Plane) writePorts(ports map[uint32]uint32, flags uint32) error {
	err := Entries(p.maps[VarPorts], true, func(list []uint32) {
		for port, entry := range ports {
			atomic.StoreUint32(&list[port], entry|flags)
		}
	})
	if err != nil {
		return fmt.Errorf("port table: %w", err)
	}
	return nil
}

// walkSockets puts the namespace's TCP sockets into the filter.
func (p *Plane) walkSockets() error {
	if p.iter == nil { // what watches sockets only to count them has no such filter
		return nil
	}
	return iterate(p.iter)
}

// iterate runs an iterator over the namespace's TCP sockets.
func iterate(prog *ebpf.Program) error {
	l, err := link.AttachIter(link.IterOptions{Program: prog})
	if err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	defer l.Close()
	r, err := l.Open()
	if err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	return nil
}
