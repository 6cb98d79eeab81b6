// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"fmt"
	"maps"

	"tidegate/internal/p4/simpleswitch"
	"tidegate/internal/schema"
)

// Counts are the counters of one service, with the names of all planes.
type Counts map[string]uint64

// Counters reads the switch's counters, by service; "" is for packets that
// belong to none. Counters that are zero are omitted.
func (c *Controller) Counters() (map[string]Counts, error) {
	names := map[int]string{}
	for _, s := range c.cfg.Services {
		names[int(s.ID)] = s.Name
	}
	return readCounters(c.sw, c.names, names)
}

// ReadCounters reads those of a switch that another process drives; services are
// names by number.
func ReadCounters(ctx context.Context, thrift, program string, services map[int]string) (map[string]Counts, error) {
	sw, err := simpleswitch.Dial(ctx, thrift)
	if err != nil {
		return nil, err
	}
	defer sw.Close()
	return readCounters(sw, namesOf(program), services)
}

// Ping reports whether a switch answers.
func Ping(ctx context.Context, thrift string) error {
	sw, err := simpleswitch.Dial(ctx, thrift)
	if err != nil {
		return err
	}
	defer sw.Close()
	_, err = sw.Ports()
	return err
}

// Open makes a switch whose controller has ended forward everything.
func Open(ctx context.Context, thrift, program string) error {
	sw, err := simpleswitch.Dial(ctx, thrift)
	if err != nil {
		return err
	}
	defer sw.Close()
	c := &Controller{names: namesOf(program), sw: sw}
	return c.Open()
}

func readCounters(sw *simpleswitch.Client, objects names, services map[int]string) (map[string]Counts, error) {
	names := maps.Clone(services)
	names[0] = ""
	out := map[string]Counts{}
	for id, name := range names {
		counts := Counts{}
		for n := range schema.NumCounters {
			v, err := sw.Counter(objects.in(counterAll), id*schema.NumCounters+n)
			if err != nil {
				return nil, fmt.Errorf("counters: %w", err)
			}
			if v != 0 {
				counts[schema.Counter(n).String()] = v
			}
		}
		out[name] = counts
	}
	return out, nil
}
