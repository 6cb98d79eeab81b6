// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"tidegate/internal/instance"
)

// sharing are the metrics of what this process's services know from the other nodes of their fleet. There are none while nothing is shared.
type sharing struct{ detection *instance.Detection }

func (sharing) Describe(chan<- *prometheus.Desc) {}

func (s sharing) Collect(out chan<- prometheus.Metric) {
	m := &series{out: out}
	for _, d := range s.detection.States() {
		if d.Fleet == nil {
			continue
		}
		service := pair{"service", d.Service}
		m.gauge("fleet_nodes_heard", "other nodes of the fleet that say at the moment what they see of the service", float64(d.Fleet.Heard), service)
		m.gauge("fleet_nodes_attacked", "of them, those that say that it is attacked there", float64(len(d.Fleet.Attacked)), service)
		m.gauge("fleet_uncompleted_per_second", "uncompleted SYNs of the fleet, without the claims that the quorum leaves out", d.Fleet.Sum.Missing, service)
		m.gauge("fleet_prepared", "1 while half of the evidence suffices here, because others are attacked", number(d.Fleet.Prepared), service)
		m.gauge("fleet_attack", "1 while the service is attacked by the fleet's sum", number(d.Fleet.On), service)
	}
}
