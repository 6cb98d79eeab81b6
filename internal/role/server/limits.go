// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// Limits of sources (source_limits). This gate counts for the adopting one beside it, too: a source has one allowance, however its
// connections are taken over.

// common is what the adopting gate shares with this one.
func (n *node) common() adopt.Common {
	return adopt.Common{Maps: n.plane.Common(), Keys: n.settings.FilterKeys}
}

// cgroup is where sockets are watched, if a configuration needs that: to know how many each source holds.
func (n *node) cgroup(cfg *config.Config) (string, error) {
	if cfg.SourceLimits.Concurrent == 0 {
		return "", nil
	}
	return instance.CgroupRoot()
}

// hold begins to count what sources hold, if a new configuration needs it.
func (n *node) hold(cfg *config.Config) error {
	cgroup, err := n.cgroup(cfg)
	if err != nil || cgroup == "" {
		return err
	}
	return n.plane.Hold(cgroup)
}

// recount counts the connections of each source, if that is due.
func (n *node) recount(now time.Time, atOnce bool) error {
	return n.counts.Count(&n.cfg.SourceLimits, now, atOnce, func() error {
		if err := n.plane.Recount(&n.settings); err != nil || n.adopter == nil {
			return err
		}
		return n.adopter.SetHeldHalf(n.settings.HeldHalf)
	})
}
