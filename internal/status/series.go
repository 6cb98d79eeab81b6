// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/p4"
	"tidegate/internal/schema"
)

// Series of the roles with services. Names are those of Prometheus' conventions; docs/metrics.md lists them.

func (st *Status) metrics(m *series) {
	planeName := string(config.PlaneXDP)
	switch {
	case st.DPDK != nil:
		planeName = string(config.PlaneDPDK)
	case st.P4 != nil:
		planeName = "p4"
	}
	m.info("instance", "1; its labels say what this instance is",
		pair{"name", st.Instance}, pair{"role", st.Role}, pair{"plane", planeName}, pair{"forwarding", st.Forwarding})
	for _, name := range slices.Sorted(maps.Keys(st.XDP)) {
		m.info("interface", "1 for each interface, with the way in which XDP runs there", pair{"interface", name}, pair{"xdp_mode", string(st.XDP[name])})
	}
	m.gauge("keys_expiry_timestamp_seconds", "when the loaded keys expire, Unix time; the packet path needs the daemon for later ones", unixSeconds(st.KeysUntil))
	m.gauge("draining", "1 while the instance is taken down: SYNs pass", number(st.Draining))
	m.gauge("reload_refused", "1 if the last reload was refused, so that the configuration before it is in force", number(st.RefusedReload != nil))
	if st.Role == config.RoleProxy {
		m.gauge("one_sided", "1 if servers' answers do not pass here", number(st.OneSided))
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		if _, answers := map[string]bool{config.RoleHost: true, config.RoleServer: true}[st.Role]; answers {
			_, unknown := st.Unrouted[family]
			m.gauge("routes_unknown", "1 if this family's routes are not modelled, so that answers go back to where SYNs came from", number(unknown), pair{"family", family})
		}
	}
	if d := st.DPDK; d != nil {
		m.gauge("flows", "translated connections in the tables", float64(d.Flows))
		m.gauge("sources", "whitelisted sources in the tables", float64(d.Sources))
		m.gauge("dpdk_cores", "cores that poll", float64(d.Cores))
		m.counter("dpdk_fast_syns", "SYNs that took the fast path", d.ShortSYNs)
		m.counter("dpdk_fast_segments", "segments that took the fast path", d.ShortSegments)
		m.counter("dpdk_icmp_errors", "ICMP errors that the router has sent", d.ICMPErrors)
	}
	st.Edge.metrics(m)
	st.P4.metrics(m)
	routerMetrics(m, st.Routers)
	degraded(m, st.Services)
	for _, s := range st.Services {
		m.info("service", "1 for each service, with its mode and strategy", pair{"service", s.Name}, pair{"mode", s.Mode}, pair{"strategy", s.Strategy})
	}
	for i := range schema.NumCounters {
		c := schema.Counter(i)
		if st.Global != nil { // a switch that does not answer has counted nothing, not zero
			m.counter(c.String(), c.Help(), st.Global[c.String()], pair{"service", ""})
		}
		for _, s := range st.Services {
			if s.Counters != nil {
				m.counter(c.String(), c.Help(), s.Counters[c.String()], pair{"service", s.Name})
			}
		}
	}
}

// degraded writes a gauge for each listener that is unprotected, and one for each service.
func degraded(m *series, services []Service) {
	for _, s := range services {
		if s.Listener == "" { // of a gate that adopts nothing
			continue
		}
		m.gauge("degraded_listeners", "listeners whose SYNs go to the kernel, unprotected", float64(len(s.Degraded)), pair{"service", s.Name})
		m.gauge("service_listening", "1 if something listens that the service protects", number(s.Listener != "none"), pair{"service", s.Name})
		for _, d := range s.Degraded {
			m.gauge("listener_degraded", "1 for each such listener, with the reason", 1,
				pair{"service", s.Name}, pair{"listener", d.Listener.String()}, pair{"reason", d.Reason})
		}
	}
}

// metrics adds what an edge's filter is like; nothing for other roles.
func (e *Edge) metrics(m *series) {
	if e == nil {
		return
	}
	const share = "share of unknown flows that the filter takes for known: computed from how full it is, or measured through the packet path"
	m.gauge("filter_false_positive_ratio", share, e.FPComputed, pair{"method", "computed"})
	m.gauge("filter_false_positive_ratio", share, e.FPMeasured, pair{"method", "measured"})
	m.gauge("filter_saturated", "1 if the filter is saturated: above filter_alarm", number(e.Alarm))
	m.gauge("filter_learning", "1 while the filter is younger than its window", number(e.Learning))
	m.gauge("filter_rotation_timestamp_seconds", "when the active generation became so, Unix time", unixSeconds(e.Turned))
	m.gauge("filter_report_timestamp_seconds", "when these figures of the filter were made, Unix time", unixSeconds(e.At))
	m.gauge("closed_ports", "closed ports that were learned", float64(e.ClosedPorts))
	for i, g := range e.Generations {
		l := pair{"generation", fmt.Sprint(i)}
		m.gauge("filter_active", "1 for the generation that learns", number(g.Active), l)
		m.gauge("filter_fill_ratio", "how full a generation is", g.Fill, l)
		m.gauge("filter_flows", "flows that such a fill stands for", float64(g.Flows), l)
	}
}

// metrics adds what is a switch's own; nothing for other planes.
func (p *P4) metrics(m *series) {
	if p == nil {
		return
	}
	m.gauge("switch_answers", "1 if the switch answers; its counters are missing if not", number(p.Answers))
	m.counter("switch_restarts", "how often the switch was restarted under its controller", p.Restarts)
	switch p.Program {
	case p4.ProgramCookie:
		m.gauge("flows", "translated connections in the tables", float64(p.Entries))
	case p4.ProgramAuthFull, p4.ProgramAuthCookie:
		m.gauge("sources", "whitelisted sources in the tables", float64(p.Entries))
	}
	macs := p.MACs
	m.gauge("macs", "MAC addresses known, by side of the switch", float64(macs.Outside), pair{"side", "outside"})
	m.gauge("macs", "MAC addresses known, by side of the switch", float64(macs.Inside), pair{"side", "inside"})
	m.counter("macs_learned", "MAC addresses learned", macs.Learned)
	m.counter("macs_moved", "MAC addresses found at another port", macs.Moved)
	m.counter("macs_aged", "MAC addresses forgotten because they were not seen", macs.Aged)
	m.counter("macs_full", "frames whose address was not learned because too many of its side are known", macs.Full)
	m.counter("macs_refused", "frames whose address was not believed: it is known elsewhere, by the configuration or inside", macs.Refused)
}

// upstreamReading is a patrol or a manager.
type upstreamReading instance.Upstream

// upstreamHelp says what the managers' and the patrol's own figures mean: name in the state file, kind, name of
// the metric behind "tidegate_ROLE_", its label, help.
var upstreamHelp = map[string]struct {
	counts bool
	name   string
	label  pair
	help   string
}{
	"bindings":         {name: "bindings", help: "bindings of prefixes to managers that are known"},
	"requests_pending": {name: "requests_pending", help: "verified requests that wait for patrols"},
	"malformed":        {counts: true, name: "malformed", help: "messages that could not be read"},
	"nonce_sent":       {counts: true, name: "nonces_sent", help: "first requests answered with a nonce"},
	"nonce_sent_by_xdp": {counts: true, name: "nonces_sent_by_xdp",
		help: "first requests answered with a nonce by XDP, before the daemon"},
	"not_sent_by_xdp": {counts: true, name: "nonces_not_sent_by_xdp", help: "first requests that XDP dropped because it could not shorten the frame to the answer"},
	"nonce_wrong":     {counts: true, name: "nonces_wrong", help: "requests whose nonce was wrong or too old"},
	"verified":        {counts: true, name: "verified", help: "requests that came back with their nonce"},
	"not_authorised":  {counts: true, name: "not_authorised", help: "filters refused because the sender may not ask for them"},
	"protected":       {counts: true, name: "protected", help: "filters refused because they would cut control messages"},
	"busy":            {counts: true, name: "busy", help: "requests refused because too many wait or come from one network"},
	"answered":        {counts: true, name: "answered", help: "requests answered with a result"},
	"duplicate":       {counts: true, name: "duplicates", help: "requests that came again while the first waited for patrols"},
	"no_place":        {counts: true, name: "no_place", help: "filters that a patrol had no place for"},
	"replayed":        {counts: true, name: "replayed", help: "requests that came again and got the remembered answer"},
	"signed":          {counts: true, name: "signed", help: "results that were signed"},
	"strangers":       {counts: true, name: "strangers", help: "requests of senders without a binding"},
	"answers_forgotten": {counts: true, name: "answers_forgotten",
		help: "answers forgotten early because there were too many to remember"},
	"filters_asked":          {name: "filters", label: pair{"state", "asked"}, help: "filters by state"},
	"filters_installed":      {name: "filters", label: pair{"state", "installed"}, help: "filters by state"},
	"filters_partial":        {name: "filters", label: pair{"state", "partial"}, help: "filters by state"},
	"filters_refused":        {name: "filters", label: pair{"state", "refused"}, help: "filters by state"},
	"messages_sent":          {counts: true, name: "messages_sent", help: "messages sent to border managers"},
	"messages_retransmitted": {counts: true, name: "messages_retransmitted", help: "messages retransmitted because no answer came"},
	"answers_wrong":          {counts: true, name: "answers_wrong", help: "answers that did not belong to a request"},
	"eve_lines_skipped":      {counts: true, name: "eve_lines_skipped", help: "lines of Suricata's log that were too long or could not be read"},
	"filters":                {name: "filters", help: "filters in the table"},
	"filters_max":            {name: "filters_max", help: "filters that the table holds at most"},
	"places_refused":         {counts: true, name: "places_refused", help: "requests for which there was no place in the table"},
	"places_given_up":        {counts: true, name: "places_given_up", help: "places taken from who held more than a share"},
	"filters_displaced":      {counts: true, name: "filters_displaced", help: "filters of networks with more than their share, given up for others in a full table"},
	"filters_given_up":       {counts: true, name: "filters_given_up", help: "filters that went with such places"},
}

func (u *upstreamReading) metrics(m *series) {
	m.info("instance", "1; its labels say what this instance is",
		pair{"name", u.Instance}, pair{"role", u.Role}, pair{"plane", ""}, pair{"forwarding", ""})
	m.gauge("report_timestamp_seconds", "when the figures of this role were written, Unix time", unixSeconds(u.At))
	m.gauge("reload_refused", "1 if the last reload was refused, so that the configuration before it is in force", number(u.RefusedReload != nil))
	prefix := map[string]string{config.RolePatrol: "patrol_", config.RoleBorderManager: "border_manager_", config.RoleFilterManager: "filter_manager_"}[u.Role]
	own := func(figures map[string]uint64) {
		for _, key := range slices.Sorted(maps.Keys(figures)) {
			h, known := upstreamHelp[key]
			var labels []pair
			if h.label[0] != "" {
				labels = append(labels, h.label)
			}
			switch {
			case !known:
			case h.counts:
				m.counter(prefix+h.name, h.help, figures[key], labels...)
			default:
				m.gauge(prefix+h.name, h.help, float64(figures[key]), labels...)
			}
		}
	}
	own(u.Figures)
	for _, p := range u.Patrols {
		m.gauge(prefix+"patrol_up", "1 if the patrol is connected", number(p.Up), pair{"patrol", p.Name})
	}
	if u.Role != config.RolePatrol {
		own(u.Counters)
		return
	}
	for i := range schema.NumCounters { // its programs count as all others do
		c := schema.Counter(i)
		m.counter(c.String(), c.Help(), u.Counters[c.String()], pair{"service", ""})
	}
}

// unixSeconds is 0 for the zero time.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}
