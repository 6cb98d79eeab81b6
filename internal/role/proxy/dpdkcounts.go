// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"maps"
	"slices"

	"tidegate/internal/dpdk"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// dpdkCounts is the packet path of services in mode auto for the detector (instance.Counting): it reads tidegate-dpdk's counts, and
// collects changes until they are sent as one. What could not be sent is sent at the next reading.
type dpdkCounts struct {
	control dpdkControl
	entries map[uint32]plane.Service // as last sent, or about to be
	how     map[uint32]dpdk.How
	counts  *dpdk.Counts
	changed map[uint32]bool // services whose entries are to be sent
	places  map[int]bool    // likewise
}

// dpdkControl is what it needs of the control socket.
type dpdkControl interface {
	Counts() (*dpdk.Counts, error)
	Apply(lines []string) error
}

func newDPDKCounts(control dpdkControl) *dpdkCounts {
	return &dpdkCounts{control: control, counts: &dpdk.Counts{}, changed: map[uint32]bool{}, places: map[int]bool{}}
}

// sent records the entries of all services, after the program has taken them.
func (c *dpdkCounts) sent(targets []plane.Target, how map[uint32]dpdk.How) {
	c.entries, c.how = map[uint32]plane.Service{}, how
	for _, t := range targets {
		c.entries[t.ID] = t.Service
	}
	clear(c.changed)
}

func (c *dpdkCounts) Places() ([]plane.Place, error) {
	if err := c.Enforce(); err != nil {
		return nil, err
	}
	counts, err := c.control.Counts()
	if err != nil {
		return nil, err
	}
	c.counts = counts
	return counts.Places, nil
}

func (c *dpdkCounts) ReadCounters(id uint32) ([schema.NumCounters]uint64, error) {
	row, there := c.counts.Services[id]
	if !there {
		return row, fmt.Errorf("tidegate-dpdk does not count for service %d", id)
	}
	return row, nil
}

func (c *dpdkCounts) Service(id uint32) (plane.Service, error) {
	e, there := c.entries[id]
	if !there {
		return e, fmt.Errorf("tidegate-dpdk has no service %d", id)
	}
	return e, nil
}

func (c *dpdkCounts) SetService(id uint32, e plane.Service) error {
	c.entries[id], c.changed[id] = e, true
	return nil
}

func (c *dpdkCounts) AnswerPlace(at int, on bool) error {
	c.places[at] = on
	return nil
}

// Enforce sends what has changed: the program takes all of it at once, or nothing.
func (c *dpdkCounts) Enforce() error {
	if len(c.changed)+len(c.places) == 0 {
		return nil
	}
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(c.changed)) {
		e := c.entries[id]
		lines = append(lines, dpdk.ServiceLine(id, &e, c.how[id]))
	}
	for _, at := range slices.Sorted(maps.Keys(c.places)) {
		lines = append(lines, dpdk.PlaceLine(at, c.places[at]))
	}
	if err := c.control.Apply(lines); err != nil {
		return err
	}
	clear(c.changed)
	clear(c.places)
	return nil
}
