// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"log/slog"
	"maps"
	"net"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/replyroute"
)

// Replies keeps the packet path informed of where answers to SYNs go (internal/replyroute).
type Replies struct {
	log    *slog.Logger
	watch  *replyroute.Watch
	model  *replyroute.Model
	asked  time.Time // when gateways were last probed
	failed bool
}

// NewReplies starts to follow the kernel's tables.
func NewReplies(log *slog.Logger) *Replies {
	w, err := replyroute.NewWatch()
	if err != nil {
		log.Warn("the kernel does not report route changes; routes are polled every second", "error", err)
	}
	return &Replies{log: log, watch: w}
}

// Changed has a value when an update is due; a nil Replies has none.
func (r *Replies) Changed() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.watch.Changed()
}

// Close stops following.
func (r *Replies) Close() {
	if r != nil {
		r.watch.Close()
	}
}

// Tell reads the tables and updates the packet path. changed: the set of unknown families has changed.
func (r *Replies) Tell(p *plane.Plane, interfaces []string) (changed bool) {
	var ports []int
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			continue // the interface is gone, and with it its SYNs
		}
		ports = append(ports, dev.Index)
	}
	m, err := r.watch.Look(ports)
	if err == nil {
		err = p.SetReplies(m, OnlineCPUs())
	}
	if err != nil {
		if !r.failed {
			r.log.Error("cannot read routes; the previous ones stay in use", "error", err)
		}
		r.failed = true
		return false
	}
	r.failed = false
	r.resolve(m)
	why := m.Why()
	changed = r.model == nil || !maps.Equal(r.model.Why(), why)
	if changed {
		for f, why := range why {
			r.log.Warn("the route of SYN-ACKs cannot be determined: up to 200 SYNs a second are left to the kernel, the others are answered to where they came from",
				"family", f, "reason", why)
		}
	}
	r.model = m
	return changed
}

// resolve probes gateways, at most once a second, as traffic would.
func (r *Replies) resolve(m *replyroute.Model) {
	if time.Since(r.asked) < time.Second/2 {
		return
	}
	r.asked = time.Now()
	for _, n := range m.Unresolved {
		if err := replyroute.Resolve(n); err != nil {
			r.log.Debug("a gateway", "error", err) // its interface may be disappearing
		}
	}
}

// Gateway is the MAC address, by family, of the only gateway, if it is on the interface.
func (r *Replies) Gateway(index int) [2]net.HardwareAddr {
	if r == nil || r.model == nil {
		return [2]net.HardwareAddr{}
	}
	return r.model.Ports[index].Gateway
}

// Unknown returns, by family, why the route of answers is unknown.
func (r *Replies) Unknown() map[string]string {
	if r == nil || r.model == nil || len(r.model.Why()) == 0 {
		return nil
	}
	names := map[string]string{}
	for f, why := range r.model.Why() {
		names[map[replyroute.Family]string{4: "IPv4", 6: "IPv6"}[f]] = why
	}
	return names
}
