// SPDX-License-Identifier: Apache-2.0

package config

// SourceLimits say how many connections one source may have (docs/source-limits.md).
type SourceLimits struct {
	NewPerSecond int         `json:"new_per_second"` // 0: any number
	Concurrent   int         `json:"concurrent"`     // likewise
	PrefixV4     int         `json:"prefix_v4"`      // bits of an address that make a source
	PrefixV6     int         `json:"prefix_v6"`
	Action       LimitAction `json:"action"`
}

// LimitAction is what happens to a connection of a source above its limit.
type LimitAction string

// Actions.
const (
	LimitReport LimitAction = "report"
	LimitDrop   LimitAction = "drop"
	LimitReset  LimitAction = "reset"
)

const maxSourceRate = 1_000_000

// On reports whether anything is limited.
func (l *SourceLimits) On() bool { return l.NewPerSecond > 0 || l.Concurrent > 0 }

// CountsLike reports whether connections at a time are counted for the same sources under both; also if nobody asks for such counts any more.
func (l *SourceLimits) CountsLike(next *SourceLimits) bool {
	return next.Concurrent == 0 || l.Concurrent > 0 && l.PrefixV4 == next.PrefixV4 && l.PrefixV6 == next.PrefixV6
}

// complete sets what is not configured, where a fleet limits sources and the node's configuration does not, to the table's defaults.
func (l *SourceLimits) complete() {
	if l.PrefixV4 != 0 {
		return
	}
	r := &reader{role: RoleHost}
	r.take(nil, "source_limits.prefix_v4", &l.PrefixV4)
	r.take(nil, "source_limits.prefix_v6", &l.PrefixV6)
	r.take(nil, "source_limits.action", &l.Action)
}

func (r *reader) sourceLimits(c *Config, fs map[string]field) {
	f, there := fs["source_limits"]
	if !there {
		return
	}
	in, ok := r.mapping(f, namesOf("source_limits", ""))
	if !ok {
		return
	}
	l := SourceLimits{}
	r.take(in, "source_limits.new_per_second", &l.NewPerSecond)
	r.take(in, "source_limits.concurrent", &l.Concurrent)
	r.take(in, "source_limits.prefix_v4", &l.PrefixV4)
	r.take(in, "source_limits.prefix_v6", &l.PrefixV6)
	r.take(in, "source_limits.action", &l.Action)
	c.SourceLimits = l
}
