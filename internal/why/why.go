// SPDX-License-Identifier: Apache-2.0

// Package why explains what would happen to a SYN now: it runs the installed program on a SYN that is never sent, and
// explains the decision step by step. It must never send anything.
package why

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
	"tidegate/internal/status"
)

// Step is one thing that the decision depends on, or the decision itself.
type Step struct {
	Name string `json:"name"` // service, mode, listener, keys, interface, decision, reason, answer
	Text string `json:"text"`
}

// Answer is the explanation.
type Answer struct {
	Src     netip.AddrPort    `json:"src"`
	Dst     netip.AddrPort    `json:"dst"`
	Verdict string            `json:"verdict"` // pass, drop, answered, forwarded; unknown: see explainDPDK
	Reasons map[string]uint64 `json:"reasons"` // counters that such a SYN increments
	Steps   []Step            `json:"steps"`
}

func (a *Answer) step(name, format string, args ...any) {
	a.Steps = append(a.Steps, Step{name, fmt.Sprintf(format, args...)})
}

// Question is about a SYN. A Dst that is not valid is the first port of the first service, at an address of this machine.
type Question struct {
	Src netip.AddrPort
	Dst netip.AddrPort
}

var verdicts = []string{"aborted", "drop", "pass", "answered", "forwarded"}

// Explain answers for an instance of this machine, in whose network namespace the caller is.
func Explain(opt instance.Options, cfg *config.Config, st *status.Status, q Question) (*Answer, error) {
	opt.Complete()
	if st.DPDK != nil {
		return explainDPDK(opt, cfg, st, q)
	}
	if st.P4 != nil {
		return nil, fmt.Errorf("instance %q decides about packets outside the kernel, where no SYN can be rehearsed; `tidegate status` shows its counters", cfg.Instance)
	}
	port, link, err := interfaceTo(cfg.Interfaces, q.Src.Addr())
	if err != nil {
		return nil, err
	}
	if !q.Dst.IsValid() {
		if q.Dst, err = firstService(cfg, link, q.Src.Addr().Is4()); err != nil {
			return nil, err
		}
	}
	if q.Src.Addr().Is4() != q.Dst.Addr().Is4() {
		return nil, fmt.Errorf("%s and %s are of different families", q.Src.Addr(), q.Dst.Addr())
	}
	a := &Answer{Src: q.Src, Dst: q.Dst, Reasons: map[string]uint64{}}
	a.step("interface", "%s", port)
	svc := serviceOf(cfg, q.Dst)
	if svc == nil {
		a.step("service", "none: no service has port %d at %s, so nothing is done to the packet", q.Dst.Port(), q.Dst.Addr())
	} else {
		a.explainService(svc, st)
	}
	a.explainKeys(st)
	a.explainList(cfg, opt.StateDir)
	a.explainLimit(st, plane.PinDir(opt.BPFFS, cfg.Instance))
	a.explainHandshakes(opt, cfg)

	state, err := instance.ReadState(opt.StateDir, cfg.Instance)
	if err != nil {
		return nil, err
	}
	frame, err := synFrame(link.Attrs().HardwareAddr, neighbour(link, q.Src.Addr()), q.Src, q.Dst)
	if err != nil {
		return nil, err
	}
	r, err := plane.Rehearse(plane.RehearsalOptions{BPFFS: opt.BPFFS, Instance: cfg.Instance, Role: cfg.Role, Smart: cfg.Edge.Layout == config.LayoutSmartcookie,
		Services: serviceIDs(state), Ifindex: uint32(link.Attrs().Index), Frame: frame})
	if err != nil {
		return nil, err
	}
	a.explainRun(&r)
	return a, nil
}

func (a *Answer) explainService(svc *config.Service, st *status.Status) {
	i := slices.IndexFunc(st.Services, func(s status.Service) bool { return s.Name == svc.Name })
	if i < 0 {
		a.step("service", "%s, of the configuration, is not installed yet; `tidegate reload` says why", svc.Name)
		return
	}
	s := &st.Services[i]
	a.step("service", "%s", svc.Name)
	meaning := map[string]string{"off": "SYNs are left alone", "monitor": "SYNs are counted as if they were answered, and left alone", "always": "SYNs are answered in place of the server"}
	a.step("mode", "%s: %s", s.Mode, cmp.Or(meaning[s.Mode], "decided by the daemon"))
	if s.Strategy != "" {
		a.step("strategy", "%s", s.Strategy)
	}
	if s.Listener != "" {
		a.step("listener", "%s", s.Listener)
	}
	for _, d := range s.Degraded {
		a.step("listener", "%s: %s", d.Listener, d.Explain())
	}
}

func (a *Answer) explainKeys(st *status.Status) {
	if left := time.Until(st.KeysUntil); left > 0 {
		a.step("keys", "good for %s more", left.Round(time.Second))
	} else {
		a.step("keys", "ended %s ago; SYNs %s (on_stale_keys), until a daemon loads new ones", -left.Round(time.Second), st.StaleKeys)
	}
}

// explainList names the entry that decides about the source, by the lists' files as they are now.
func (a *Answer) explainList(cfg *config.Config, stateDir string) (v sourcelist.Verdict) {
	if !cfg.HasLists() {
		return v
	}
	e, file, err := instance.SourceLists(stateDir, cfg).Find(a.Src.Addr(), time.Now())
	switch {
	case err != nil:
		a.step("list", "the lists cannot be read, and the last ones that could stay in effect: %s", err)
		return v
	case e == nil:
		return v
	}
	text := fmt.Sprintf("%s %s (%s, line %d)", e.Verdict, e.Prefix(), file, e.Line)
	if e.Until != 0 {
		text += ", until " + e.Expires().UTC().Format(time.RFC3339)
	}
	if e.Comment != "" {
		text += ": " + e.Comment
	}
	a.step("list", "%s", text)
	return e.Verdict
}

// explainLimit says whether connections of the source were above source_limits.
func (a *Answer) explainLimit(st *status.Status, dir string) {
	l := st.SourceLimits
	if l == nil {
		return
	}
	all, err := status.ReadOverLimit(dir, st.DPDKPrefix)
	if err != nil {
		a.step("limit", "the sources above their limit cannot be read: %s", err)
		return
	}
	for _, o := range all {
		if o.Prefix.Contains(a.Src.Addr()) {
			a.step("limit", "%s was above its limit (%s): %s; action: %s", o.Prefix, l.Describe(), o.Describe(), l.Action)
			return
		}
	}
	a.step("limit", "%s, of one source that its handshakes have proven; this one was not above that lately", l.Describe())
}

// handshakesShown bounds the destinations of a source.
const handshakesShown = 8

// explainHandshakes says what is remembered of the source, if anything is (remember_sources, report_to).
func (a *Answer) explainHandshakes(opt instance.Options, cfg *config.Config) {
	dirs := []string{plane.PinDir(opt.BPFFS, cfg.Instance)}
	if cfg.Role == config.RoleServer && cfg.Server.Takeover == config.TakeoverAuto {
		dirs = append(dirs, plane.PinDir(opt.BPFFS, adopt.AdopterInstance(cfg.Instance)))
	}
	shown, remembers := 0, false
	for _, dir := range dirs {
		list, on, err := plane.OpenHandshakes(dir, a.Src.Addr())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.handshakesUnread(err)
			return
		}
		remembers = remembers || on
		shown += a.stepHandshakes(list)
	}
	if remembers && shown == 0 {
		a.handshakesNone()
	}
}

// stepHandshakes adds what is remembered, and returns how much that is.
func (a *Answer) stepHandshakes(list []plane.Handshakes) int {
	list = list[:min(len(list), handshakesShown)]
	now, mono := time.Now(), plane.MonotonicNs()
	for _, h := range list {
		a.step("lately", "%d handshakes with %s since %s, the last %s ago", h.Count, h.Dst,
			now.Add(time.Duration(h.FirstNs-mono)).UTC().Format(time.RFC3339), time.Duration(mono-h.LastNs).Round(time.Second))
	}
	return len(list)
}

func (a *Answer) handshakesUnread(err error) {
	a.step("lately", "what is remembered of the source cannot be read: %s", err)
}

func (a *Answer) handshakesNone() {
	a.step("lately", "no handshake of this source is remembered: it has completed none since the start, or its place is that of a source that has completed as many")
}

func (a *Answer) explainRun(r *plane.Rehearsal) {
	a.Verdict = fmt.Sprint(r.Verdict)
	if int(r.Verdict) < len(verdicts) {
		a.Verdict = verdicts[r.Verdict]
	}
	if r.Moved[schema.CounterReplyAcross] > 0 { // the program behind XDP sends it
		a.Verdict = "answered"
	}
	meaning := map[string]string{"drop": "the SYN is dropped", "pass": "the SYN goes on to the kernel, as if there were no gate", "answered": "the gate answers at once",
		"forwarded": "the SYN goes out at another interface", "aborted": "the program failed, which must not be; please report it"}
	a.step("decision", "%s: %s", a.Verdict, meaning[a.Verdict])
	for _, c := range slices.Sorted(maps.Keys(r.Moved)) {
		a.Reasons[c.String()] = r.Moved[c]
		a.step("reason", "%s: %s", c, c.Help())
	}
	if len(r.Moved) == 0 {
		a.step("reason", "no counter moves: the gate is not concerned")
	}
	if a.Verdict == "answered" {
		a.step("answer", "%s", describe(r.Out))
	}
}

func serviceOf(cfg *config.Config, dst netip.AddrPort) (found *config.Service) {
	longest := -1
	for i := range cfg.Services {
		svc := &cfg.Services[i]
		if !slices.ContainsFunc(svc.Ports, func(r config.PortRange) bool { return r.Contains(dst.Port()) }) {
			continue
		}
		if len(svc.Prefixes) == 0 && longest < 0 {
			found = svc
		}
		for _, p := range svc.Prefixes {
			if p.Contains(dst.Addr()) && p.Bits() > longest {
				found, longest = svc, p.Bits()
			}
		}
	}
	return found
}

func serviceIDs(s *instance.StateFile) (ids []uint32) {
	for _, svc := range s.Services {
		ids = append(append(ids, svc.ID), svc.Parts...)
	}
	return ids
}

func firstService(cfg *config.Config, link netlink.Link, ipv4 bool) (netip.AddrPort, error) {
	if len(cfg.Services) == 0 {
		return netip.AddrPort{}, fmt.Errorf("no service is configured; name DST:PORT")
	}
	svc := &cfg.Services[0]
	for _, p := range svc.Prefixes {
		if p.Addr().Is4() == ipv4 && p.IsSingleIP() {
			return netip.AddrPortFrom(p.Addr(), svc.Ports[0].First), nil
		}
	}
	family := netlink.FAMILY_V6
	if ipv4 {
		family = netlink.FAMILY_V4
	}
	addrs, err := netlink.AddrList(link, family)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, at := range addrs {
		if a, ok := netip.AddrFromSlice(at.IP); ok && !a.Unmap().IsLinkLocalUnicast() {
			return netip.AddrPortFrom(a.Unmap(), svc.Ports[0].First), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%s has no address of that family; name DST:PORT", link.Attrs().Name)
}

// interfaceTo is the interface on which packets of src would arrive: that of the route back, else the first.
func interfaceTo(names []string, src netip.Addr) (text string, link netlink.Link, err error) {
	if routes, err := netlink.RouteGet(net.IP(src.AsSlice())); err == nil && len(routes) > 0 {
		if l, err := netlink.LinkByIndex(routes[0].LinkIndex); err == nil && slices.Contains(names, l.Attrs().Name) {
			return l.Attrs().Name + ", where the route to the source leads", l, nil
		}
	}
	if len(names) == 0 {
		return "", nil, fmt.Errorf("the instance has no interface")
	}
	l, err := netlink.LinkByName(names[0])
	if err != nil {
		return "", nil, fmt.Errorf("interface %s: %w", names[0], err)
	}
	return names[0] + ", the first of " + strings.Join(names, ", ") + ": the route to the source leads to none of them", l, nil
}

// neighbour is the link-layer source of packets of src: its own address, or its gateway's; nil if unknown.
func neighbour(link netlink.Link, src netip.Addr) net.HardwareAddr {
	next := net.IP(src.AsSlice())
	if routes, err := netlink.RouteGet(next); err == nil && len(routes) > 0 && routes[0].Gw != nil {
		next = routes[0].Gw
	}
	list, err := netlink.NeighList(link.Attrs().Index, 0)
	if err != nil {
		return nil
	}
	for _, n := range list {
		if n.IP.Equal(next) && len(n.HardwareAddr) == 6 {
			return n.HardwareAddr
		}
	}
	return nil
}
