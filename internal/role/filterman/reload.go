// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"net/netip"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/upstream"
)

// Policy is what a reload may change: which filters a manager requests, and for how long it keeps them.
type Policy struct {
	Own     []netip.Prefix // destinations for which this manager has authority
	Never   []netip.Prefix // sources never to be filtered: the managers themselves, exceptions
	Expires time.Duration  // of a filter without a time of its own
	Floor   uint32         // packets/s, of a filter without a floor of its own; 0: no expiry by rate
	Idle    time.Duration  // a filter not hit for this long is removed
	Proof   bool
}

// policyOf is the policy of a configuration. The manager's own address is never filtered.
func policyOf(f *config.Filter) Policy {
	own := netip.PrefixFrom(f.Listen.Addr(), f.Listen.Addr().BitLen())
	return Policy{Own: f.Own, Never: append([]netip.Prefix{own}, f.Never...), Expires: f.Expires, Floor: f.Floor, Idle: f.Idle, Proof: f.Proof}
}

// allows reports why a request may not be sent, as far as the policy decides.
func (p *Policy) allows(r *Request) error {
	if !coveredBy(r.Dst, p.Own) {
		return ErrNotOurs
	}
	return p.allowsFrom(r.Src)
}

// allowsFrom does so for a request whose destination is ours.
func (p *Policy) allowsFrom(src netip.Prefix) error {
	if overlaps(src, p.Never) {
		return ErrNever
	}
	return nil
}

// SetPolicy brings another policy into force, and removes the filters that it no longer allows. It returns
// how many those are.
func (m *Manager) SetPolicy(p Policy) int {
	var back []*Entry
	m.mu.Lock()
	m.policy.Store(&p)
	for e := range m.entries.all() {
		if p.allows(&e.Request) != nil {
			back = append(back, e)
		}
	}
	m.mu.Unlock()
	m.removeAll(back, time.Now(), nil)
	return len(back)
}

// reload applies a changed configuration, whole or not at all, and returns the one that is then in force. The file of
// bindings is read again even if its name is the same. Filters that are no longer allowed are removed.
func (m *Manager) reload(opt *instance.Options, old *config.Config) (*config.Config, error) {
	next, err := opt.Load()
	if err != nil {
		return old, err
	}
	if err := config.CheckReload(old, next, ""); err != nil {
		return old, err
	}
	bind, err := upstream.PrepareReload(m.opt.Authority, next.Filter.Bindings)
	if err != nil {
		return old, err
	}
	detectors, err := detectorsOf(next.Filter)
	if err != nil {
		return old, err
	}
	bind()
	m.SetDetectors(detectors)
	removed := m.SetPolicy(policyOf(next.Filter))
	opt.Log.Info("reloaded", "own", next.Filter.Own, "bindings", m.opt.Authority.Len(), "filters_no_longer_allowed", removed)
	return next, nil
}
