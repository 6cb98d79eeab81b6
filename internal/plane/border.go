// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/plane/borderbpf"
	"tidegate/internal/schema"
)

// BorderSettings is the map ABI of a border manager's program.
type BorderSettings = borderbpf.BorderXdpTgBorderSettings

// Border answers requests without a nonce before they reach the daemon. It is not
// pinned: a nonce is of no use without the daemon.
type Border struct {
	objs  borderbpf.BorderXdpObjects
	mu    sync.Mutex // of links
	links []*borderLink
}

// LoadBorder loads the program into the kernel.
func LoadBorder() (*Border, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	b := &Border{}
	if err := borderbpf.LoadBorderXdpObjects(&b.objs, nil); err != nil {
		return nil, explain(err)
	}
	return b, nil
}

// Program returns the program, for tests and benchmarks.
func (b *Border) Program() *ebpf.Program { return b.objs.TgBorderXdp }

// Set writes the settings.
func (b *Border) Set(s *BorderSettings) error { return b.objs.TgIfSettings.Put(uint32(0), s) }

// Attach attaches the program to interfaces. With mode auto, one whose far end would lose what native XDP sends gets generic XDP.
func (b *Border) Attach(interfaces []string, mode XDPMode) error {
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		l, _, err := newXDPLink(b.objs.TgBorderXdp, name, dev.Index, mode, true)
		if err != nil {
			return err
		}
		b.links = append(b.links, &borderLink{Link: l, name: name, index: dev.Index, mode: mode})
	}
	return nil
}

// borderLink is the program on one interface.
type borderLink struct {
	link.Link
	name  string
	index int
	mode  XDPMode // as configured
	lost  bool    // what it sent was lost at the last look
}

// FollowFarEnds puts interfaces with mode auto into generic XDP whose far end has lost its program, and with it what native XDP sends
// there. Call it once a second: it acts when it has seen the same twice, as whoever replaces a program may take it off for a moment.
// Meanwhile first requests are not answered, and senders repeat them. It returns the names of those that it has changed.
func (b *Border) FollowFarEnds() (changed []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.links {
		why := error(nil)
		if l.mode == XDPAuto && attachedMode(l.index) == XDPNative {
			why = farEnd(l.index)
		}
		lost := errors.Is(why, errFarEnd) && !errors.Is(why, errHidden)
		if !lost || !l.lost {
			l.lost = lost
			continue
		}
		if err := l.Close(); err != nil {
			return changed, err
		}
		again, _, err := newXDPLink(b.objs.TgBorderXdp, l.name, l.index, XDPGeneric, false)
		if err != nil {
			return changed, err
		}
		l.Link, l.lost = again, false
		changed = append(changed, l.name)
	}
	return changed, nil
}

// Counters returns the counters, summed over all CPUs.
func (b *Border) Counters() (map[string]uint64, error) {
	var perCPU []patrolCounters
	if err := b.objs.TgCounters.Lookup(uint32(0), &perCPU); err != nil {
		return nil, err
	}
	var sum [schema.NumCounters]uint64
	for _, row := range perCPU {
		for i, v := range row.Count {
			sum[i] += v
		}
	}
	return schema.Map(sum), nil
}

// Close detaches it.
func (b *Border) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, l := range b.links {
		errs = append(errs, l.Close())
	}
	b.links = nil
	return errors.Join(append(errs, b.objs.Close())...)
}
