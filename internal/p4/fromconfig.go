// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"time"

	"tidegate/internal/config"
)

// programOf returns the program that a configuration with plane: p4 needs on the switch.
func programOf(c *config.Config) string {
	if c.Role == config.RoleEdge {
		return ProgramEdge
	}
	return string(c.Services[0].Strategy) // config ensures that all are alike
}

// FromConfig makes a controller's configuration from one with plane: p4.
func FromConfig(c *config.Config) *Config {
	limit, learn := c.P4.MACLimit, Duration(c.Edge.Learning)
	out := &Config{Instance: c.Instance, Program: programOf(c), Interfaces: c.Interfaces,
		Thrift: c.P4.Thrift, Notifications: c.P4.Notifications,
		SecretFile: c.SecretFile, NextFile: c.NextSecret.File, NextFrom: c.NextSecret.From,
		Epoch: Duration(c.Epoch), KeyHorizon: Duration(c.KeyHorizon), OnStaleKeys: c.OnStaleKeys,
		Learn: &learn, Whitelist: string(c.P4.Whitelist), Protocol: ProtocolPlain,
		MACs: map[string]string{}, MACLimit: &limit, MACAge: Duration(c.P4.MACAge), PortMACs: map[string]MACs{}}
	for _, m := range c.P4.MACs {
		out.MACs[m.MAC] = m.Interface
	}
	for _, m := range c.P4.PortMACs {
		out.PortMACs[m.Interface] = MACs{Src: m.Src, Dst: m.Dst}
	}
	switch out.Program {
	case ProgramEdge:
		e := &c.Edge
		out.Window, out.Inside, out.FilterAlarm = Duration(e.FilterWindow), e.Inside, e.FilterAlarm
		out.Hops, out.UnknownRate = uint8(e.Hops), e.UnknownRate.PerSecond
		if e.UnknownRate.All {
			out.UnknownRate = UnknownAll
		}
		out.Protocol, out.EdgeID, out.MTU = string(e.Protocol), uint8(c.Tagged.EdgeID), c.P4.MTU
	case ProgramCookie: // as in the other planes: while there is room an idle connection stays for idle_time
		out.Window, out.Crowded, out.Inside = Duration(c.Proxy.IdleTime), Duration(min(c.Proxy.SwapPeriod, c.Proxy.IdleTime)), c.Proxy.Inside
	default:
		out.Window, out.Inside = Duration(c.Proxy.SwapPeriod), c.Proxy.Inside
	}
	for _, s := range c.Services {
		out.Services = append(out.Services, serviceOf(&s))
	}
	out.Complete()
	return out
}

func serviceOf(s *config.Service) Service {
	out := Service{Name: s.Name, Prefixes: s.Prefixes, Mode: s.Mode, MSSv4: uint16(s.MSS.Value), MSSv6: uint16(s.MSS.Value), Window: uint16(s.Window.Value)}
	if !s.WScale.Auto {
		scale := uint8(s.WScale.Value)
		out.WScale = &scale
	}
	for _, r := range s.Ports {
		for port := int(r.First); port <= int(r.Last); port++ {
			out.Ports = append(out.Ports, uint16(port))
		}
	}
	return out
}

// idleFor is how long an entry may be idle in a table of this size.
func (e *entries) idleFor(of *entry, held int) time.Duration {
	if e.crowded > 0 && held >= e.most/4 {
		return min(of.idle, e.crowded)
	}
	return of.idle
}
