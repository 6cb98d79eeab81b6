// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

const (
	// minMSS is the smallest MSS that the kernel's cookie code works with (RFC 9293 default).
	minMSS = 536
	// maxMSS is the largest that fits an IPv4 packet: 65535 less two plain headers.
	maxMSS    = math.MaxUint16 - 40
	maxWScale = 14 // RFC 7323 section 2.3

	maxSignedRate = 100_000
)

// everywhere returns what a service without prefixes protects.
func everywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

func (r *reader) services(f field, role string) []Service {
	items, ok := r.sequence(f)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.fail(f.line, f.path, "is empty; write at least one service with a name and ports")
	}
	if len(items) > MaxServices {
		r.fail(f.line, f.path, "%d services are too many; use at most %d, a service may have several prefixes", len(items), MaxServices)
		return nil
	}
	list := make([]Service, 0, len(items))
	for _, it := range items {
		if s, ok := r.service(it, role); ok {
			list = append(list, s)
		}
	}
	return list
}

func (r *reader) service(f field, role string) (Service, bool) {
	s := Service{Prefixes: everywhere(), Line: f.line}
	if m, ok := f.node.(*ast.MappingNode); ok && len(m.Values) == 0 {
		r.fail(f.line, f.path, "is empty; give it a name and ports")
		return s, false
	}
	fs, ok := r.mapping(f, namesOf("services", ""))
	if !ok {
		return s, false
	}
	before := len(r.errs)
	r.belong(fs, "services")
	if v, there := fs["name"]; there {
		s.Name, _ = r.name(v)
	} else if !r.misspelled("name") {
		r.fail(f.line, f.path+".name", "is missing; give the service a name, status and metrics use it")
	}
	if v, there := fs["prefixes"]; there {
		s.Prefixes = r.prefixes(v)
	}
	if v, there := fs["ports"]; there {
		s.Ports = r.ports(v)
	} else if !r.misspelled("ports") {
		r.fail(f.line, f.path+".ports", "is missing; list the TCP ports, such as [80, 443]")
	}
	r.mode(&s, fs)
	s.Strategy = r.strategy(fs, role)
	s.FirstData = r.firstData(fs, role, s.Strategy)
	s.DeferAccept = r.deferAccept(fs, role, s.Strategy)
	r.take(fs, "services.mss", &s.MSS)
	r.take(fs, "services.wscale", &s.WScale)
	r.take(fs, "services.window", &s.Window)
	r.signedSYNs(&s, fs)
	if role == RoleHost {
		r.take(fs, "services.forwarded", &s.Forwarded)
	}
	return s, len(r.errs) == before
}

// mode reads when SYNs are answered. A plane that does not count for the detector has no `auto`, and another default.
func (r *reader) mode(s *Service, fs map[string]field) {
	v, there := fs["mode"]
	r.take(fs, "services.mode", &s.Mode)
	if s.Mode != ModeAuto || r.plane != PlaneP4 {
		return
	}
	s.Mode = ModeAlways
	if there {
		r.fail(v.line, v.path, "auto is not offered under plane: %s: nothing counts there for the detector; use always", r.plane)
	}
}

// signedSYNs reads what happens to SYNs with TCP-MD5 or TCP-AO.
func (r *reader) signedSYNs(s *Service, fs map[string]field) {
	if r.role == RoleServer { // it has neither field
		return
	}
	r.take(fs, "services.signed", &s.SignedSYNs)
	if f, there := fs["signed_rate"]; there && s.SignedSYNs != SignedPass {
		r.fail(f.line, f.path, "means nothing without signed: pass; remove it, or set that")
		return
	}
	r.take(fs, "services.signed_rate", &s.SignedRate)
}

// signedThroughTags refuses what would let SYNs through that can never become a connection: the
// segments behind them would need a tag, and have no room for one beside a signature.
func (r *reader) signedThroughTags(c *Config) {
	for i, s := range c.Services {
		if c.Role == RoleEdge && c.Edge.Protocol == ProtocolTagged && s.SignedSYNs == SignedPass {
			r.fail(s.Line, fmt.Sprintf("services[%d].signed", i), "pass needs protocol: plain; segments that are signed have no room for tags")
		}
	}
}

func (r *reader) prefixes(f field) []netip.Prefix {
	items, ok := r.sequence(f)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.fail(f.line, f.path, "is empty; remove the field to protect every address, or list prefixes")
	}
	var list []netip.Prefix
	for _, it := range items {
		p, ok := r.prefix(it, f.path)
		switch {
		case !ok:
		case slices.Contains(list, p):
			r.fail(it.line, f.path, "%s is listed twice; remove one", p)
		default:
			list = append(list, p)
		}
	}
	return list
}

func (r *reader) prefix(it field, path string) (netip.Prefix, bool) {
	s, ok := r.text(it, "a prefix such as 192.0.2.0/24")
	if !ok {
		return netip.Prefix{}, false
	}
	if !strings.Contains(s, "/") {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			s = fmt.Sprintf("%s/%d", s, a.BitLen()) // one address is a prefix of full length
		}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		r.fail(it.line, path, "%q is not a prefix; write it like 192.0.2.0/24 or 2001:db8::/64", s)
		return netip.Prefix{}, false
	}
	if p.Addr().Is4In6() {
		r.fail(it.line, path, "%s is an IPv4-mapped address; write it as IPv4", s)
		return netip.Prefix{}, false
	}
	if m := p.Masked(); m != p {
		r.fail(it.line, path, "%s has host bits set; write %s, or %s/%d for the one address", s, m, p.Addr(), p.Addr().BitLen())
		return netip.Prefix{}, false
	}
	return p, true
}

func (r *reader) ports(f field) []PortRange {
	items, ok := r.sequence(f)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.fail(f.line, f.path, "is empty; list the TCP ports, such as [80, 443]")
	}
	var list []PortRange
	for _, it := range items {
		s, ok := r.text(it, `a port or a range such as "8000-8010"`)
		if !ok {
			continue
		}
		p, ok := r.portRange(it, f.path, s)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(list, func(o PortRange) bool { return o.First <= p.Last && p.First <= o.Last }); i >= 0 {
			r.fail(it.line, f.path, "%s and %s overlap; name every port once", list[i], p)
			continue
		}
		list = append(list, p)
	}
	return list
}

func (r *reader) portRange(it field, path, s string) (PortRange, bool) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	var ends [2]uint16
	for i, text := range []string{strings.TrimSpace(first), strings.TrimSpace(last)} {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			r.fail(it.line, path, `%q is not a port; write a number such as 443 or a range such as "8000-8010"`, s)
			return PortRange{}, false
		}
		if n < 1 || n > math.MaxUint16 {
			r.fail(it.line, path, "%s is out of range; use 1 to 65535", text)
			return PortRange{}, false
		}
		ends[i] = uint16(n)
	}
	if ends[0] > ends[1] {
		r.fail(it.line, path, `%s runs backwards; write "%d-%d"`, s, ends[1], ends[0])
		return PortRange{}, false
	}
	return PortRange{ends[0], ends[1]}, true
}
