// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/netip"
	"slices"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/survey"
)

// Takeover is how connections to some listeners of a service are taken over.
type Takeover struct {
	Service   string           `json:"service,omitempty"` // empty: no configuration was given
	Listeners []string         `json:"listeners"`         // or destinations without one
	Takeover  config.Takeover  `json:"takeover"`
	Reason    string           `json:"reason,omitempty"`
	Findings  []survey.Finding `json:"findings,omitempty"`
}

// cutsOff are findings that break adopted connections.
var cutsOff = []string{survey.NATHooks, survey.DNAT, survey.NewNotSYN, survey.AcceptSYN, survey.LooseOff, survey.SYNProxy, survey.TProxy,
	survey.BridgePort, survey.LayerThree, survey.VirtualServer}

// byPasses are findings of rules that do not see the packets they were written for.
var byPasses = []string{survey.SYNRule, survey.Limit}

// host is the input of the takeover decision.
type host struct {
	machine    *survey.Machine
	all        []listeners.Listener
	interfaces []string
	translates bool // what cannot be adopted is translated
	surveys    bool // the gate, too, looks at what the machine does: not with `takeover: translate`

	allTranslated string // why every connection is, whatever the rules say; empty: each listener's own matter
}

// Findings about a listener itself.
const (
	findMPTCP = "mptcp"
	findAbove = "bound-above"
)

// unadoptable is the finding about a listener that cannot be adopted for.
func unadoptable(l listeners.Listener) survey.Finding {
	if l.MPTCP {
		return survey.Finding{ID: findMPTCP, Reason: l.Unadoptable(), Show: "ss -Mltn"}
	}
	return survey.Finding{ID: findAbove, Reason: l.Unadoptable(), Show: "ss -ltn"}
}

// hostTakeovers returns for each listener how its connections are taken over. Without a
// configuration it checks every listener reachable from other machines.
func hostTakeovers(c *config.Config) ([]Check, []Takeover) {
	var h host
	services := []config.Service{{Prefixes: everywhere, Ports: []config.PortRange{{First: 1, Last: 65535}}, Mode: config.ModeMonitor}}
	takeover := config.TakeoverAuto
	if c != nil {
		services, h.interfaces = c.Services, c.Interfaces
		takeover = c.Server.Takeover
	}
	var err error
	if h.all, err = listeners.On(h.interfaces); err != nil {
		return nil, nil // the services' checks report it
	}
	h.machine = survey.Read()
	h.translates = takeover != config.TakeoverAdopt
	h.surveys = takeover != config.TakeoverTranslate
	h.allTranslated = allTranslated(takeover, cannotAdopt())
	var list []Check
	var found []Takeover
	for _, s := range services {
		if s.Mode == config.ModeOff {
			continue
		}
		for _, t := range h.takeovers(s) {
			list, found = append(list, h.judge(s, t)), append(found, t)
		}
	}
	return list, found
}

var everywhere = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// takeovers are those of one service; listeners with one verdict are grouped.
func (h *host) takeovers(s config.Service) (list []Takeover) {
	report := listeners.State(h.all, s.Prefixes, s.Ports)
	add := func(where string, v survey.Verdict) {
		if h.allTranslated != "" && v.Takeover != survey.Left {
			v.Takeover = config.TakeoverTranslate
			v.Findings = append([]survey.Finding{{ID: "all", Reason: h.allTranslated, Show: "tidegate check"}}, v.Findings...)
		}
		t := Takeover{s.Name, []string{where}, v.Takeover, v.Reason(), v.Findings}
		at := slices.IndexFunc(list, func(o Takeover) bool { return o.Takeover == t.Takeover && o.Reason == t.Reason })
		if at < 0 {
			list = append(list, t)
		} else if !slices.Contains(list[at].Listeners, where) {
			list[at].Listeners = append(list[at].Listeners, where)
		}
	}
	for _, l := range report.Listeners {
		for _, a := range destinations(l, s.Prefixes) {
			where := netip.AddrPortFrom(a, l.Port)
			v := h.machine.Judge(survey.Destination{Addr: a, Port: l.Port, Interfaces: h.interfaces})
			if l.Unadoptable() != "" {
				v.Takeover = config.TakeoverTranslate
				v.Findings = append([]survey.Finding{unadoptable(l)}, v.Findings...)
			}
			add(where.String(), v)
		}
	}
	for _, port := range few(report.Missing) {
		for _, a := range destinations(listeners.Listener{Addr: netip.IPv6Unspecified()}, s.Prefixes) {
			if v := h.machine.Judge(survey.Destination{Addr: a, Port: port, Interfaces: h.interfaces}); v.Has(survey.DNAT) || v.Has(survey.VirtualServer) || v.Takeover == survey.Left || h.surveys && h.machine.ChoosesListeners() {
				add(netip.AddrPortFrom(a, port).String(), v)
			}
		}
	}
	return list
}

// destinations are the addresses that clients reach a listener at: its own, or single ones
// of the service, or all.
func destinations(l listeners.Listener, prefixes []netip.Prefix) (list []netip.Addr) {
	a := l.Addr.Unmap()
	if !a.IsUnspecified() {
		if a.IsLoopback() {
			return nil
		}
		return []netip.Addr{a}
	}
	for _, p := range prefixes {
		is4 := p.Addr().Is4()
		if a.Is4() != is4 && (a.Is4() || l.V6Only) {
			continue
		}
		one := netip.IPv6Unspecified()
		switch {
		case p.IsSingleIP():
			one = p.Addr()
		case is4:
			one = netip.IPv4Unspecified()
		}
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// few are the ports of ranges that are enumerated; wide ranges are not checked port by port.
func few(ranges []config.PortRange) (ports []uint16) {
	const most = 64
	for _, r := range ranges {
		for p := int(r.First); p <= int(r.Last) && int(r.Last)-int(r.First) < most && len(ports) < most; p++ {
			ports = append(ports, uint16(p))
		}
	}
	return ports
}

// judge converts a takeover to a row.
func (h *host) judge(s config.Service, t Takeover) Check {
	c := Check{Name: "takeover", Status: OK, Found: fmt.Sprintf("%s: adopt", someWords(t.Listeners))}
	if s.Name != "" {
		c.Name += " " + s.Name
	}
	if t.Takeover == config.TakeoverAdopt {
		return c
	}
	c.Found = fmt.Sprintf("%s: %s: %s", someWords(t.Listeners), t.Takeover, t.Reason)
	if t.Takeover == survey.Left {
		c.Status, c.Means, c.Fix = Warn, "its SYNs are left to the kernel, unprotected by tidegate",
			fmt.Sprintf("run tidegate on the real servers, or role proxy or edge in front (see `%s`)", t.Findings[0].Show)
		return c
	}
	if h.translates {
		return c
	}
	has := func(ids []string) bool {
		return slices.ContainsFunc(t.Findings, func(f survey.Finding) bool { return slices.Contains(ids, f.ID) })
	}
	c.Status = Warn
	switch {
	case has([]string{findMPTCP, findAbove}):
		c.Means, c.Fix = "its SYNs are left to the kernel, unprotected by tidegate", mendListener
		return c
	case has(cutsOff):
		c.Means = "under `mode: always` every client would be cut off"
		if s.Mode == config.ModeAlways {
			c.Status = Fail
		}
	case has(byPasses):
		c.Means = "SYNs never reach that rule: clients that it refuses can connect"
	default:
		c.Means = "whether connections live is not known"
	}
	c.Fix = fmt.Sprintf("see `%s`; fix the rule, or keep this service at `mode: monitor`", t.Findings[0].Show)
	return c
}

func someWords(words []string) string {
	list := words
	if len(words) > shown {
		list = append(slices.Clone(words[:shown]), fmt.Sprintf("%d more", len(words)-shown))
	}
	text := ""
	for i, w := range list {
		if i > 0 {
			text += ", "
		}
		text += w
	}
	return text
}

// allTranslated returns why every connection is translated, in the order of the gate; empty if each listener decides.
func allTranslated(takeover config.Takeover, kernel string) string {
	switch takeover {
	case config.TakeoverTranslate:
		return "configured: takeover: translate"
	case config.TakeoverAuto:
		return kernel
	}
	return ""
}

// cannotAdopt returns why nothing can be adopted on this machine; empty if it can.
func cannotAdopt() string {
	if off, known := sysctlOff("net.ipv4.tcp_syncookies"); off && known && CannotAdopt() == "" {
		return "net.ipv4.tcp_syncookies is 0: the kernel adopts no connection"
	}
	return CannotAdopt()
}
