// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// OfferReader reads what the kernel's own SYN-ACKs offer, for a server that translates: what an edge announces is then what the server's stack says
// anyway. The zero value is ready to use.
type OfferReader struct{ rmemSeen map[int]bool }

// Read returns it for each service that has listeners in this network namespace. A guest's are not seen.
func (o *OfferReader) Read(cfg *config.Config) (config.Offers, error) {
	sys, err := readSystem(cfg.Interfaces)
	if err != nil {
		return nil, err
	}
	all, err := listeners.On(cfg.Interfaces)
	if err != nil {
		return nil, err
	}
	if o.rmemSeen == nil {
		o.rmemSeen = map[int]bool{defaultRmem: true}
	}
	o.rmemSeen[sys.tcpRmem[1]] = true
	s := &serviceSet{Numbers: instance.NewNumbers(), reports: map[string]listeners.Report{}, rmemSeen: o.rmemSeen}
	for _, svc := range cfg.Services {
		s.reports[svc.Name] = listeners.State(all, svc.Prefixes, svc.Ports)
	}
	return s.offers(cfg, sys), nil
}
