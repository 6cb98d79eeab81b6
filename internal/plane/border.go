// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"

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
	links []link.Link
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

// Attach attaches the program to interfaces.
func (b *Border) Attach(interfaces []string, mode XDPMode) error {
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		l, _, err := newXDPLink(b.objs.TgBorderXdp, name, dev.Index, mode, false)
		if err != nil {
			return err
		}
		b.links = append(b.links, l)
	}
	return nil
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
	var errs []error
	for _, l := range b.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, b.objs.Close())...)
}
