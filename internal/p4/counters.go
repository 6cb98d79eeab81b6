package p4

import (
	"fmt"

	"tidegate/internal/schema"
)

// Counts are the counters of one service, by the names that every plane uses.
type Counts map[string]uint64

// Counters reads what the switch has counted, by service; "" is for packets that
// belong to none. Counters that are zero are left out.
func (c *Controller) Counters() (map[string]Counts, error) {
	out := map[string]Counts{}
	names := map[int]string{0: ""}
	for _, s := range c.cfg.Services {
		names[int(s.ID)] = s.Name
	}
	for id, name := range names {
		counts := Counts{}
		for n := range schema.NumCounters {
			v, err := c.sw.Counter(counterAll, id*schema.NumCounters+n)
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
