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
	for i := range len(c.cfg.Services) + 1 {
		name := ""
		if i > 0 {
			name = c.cfg.Services[i-1].Name
		}
		counts := Counts{}
		for n := range schema.NumCounters {
			v, err := c.sw.Counter(counterAll, i*schema.NumCounters+n)
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
