// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"
)

// ReportTo says which clients a gate reports to a filter manager (docs/upstream.md).
type ReportTo struct {
	API         string // its socket, or KEY@ADDRESS:PORT of one on another machine; "": nobody is reported
	Identity    string // file of this gate's private key, for the latter
	Connections int    // completed handshakes/s of one source to one address; more is too many; 0: any
	Invalid     int    // segments/s that carry the codepoint and belong to no connection, likewise
	Codepoint   uint8  // true source
}

const (
	defaultReportConnections = 100
	defaultReportInvalid     = 1000
	maxReportRate            = 10_000_000
)

// isPeer tells KEY@ADDRESS:PORT from a path.
func isPeer(s string) bool { return !strings.Contains(s, "/") && strings.Contains(s, "@") }

// reportTo reads where offenders are reported.
func (r *reader) reportTo(c *Config, fs map[string]field) {
	f, there := fs["report_to"]
	if !there {
		return
	}
	in, ok := r.mapping(f, namesOf("report_to", ""))
	if !ok {
		return
	}
	t := ReportTo{}
	t.Identity = r.path(in, "identity_file")
	if api, there := in["api"]; there {
		t.API = r.manager(in, api, t.Identity != "")
	} else {
		r.fail(f.line, f.path+".api", "is missing; name the filter manager's socket, such as /run/tidegate/filters.filters.sock")
	}
	r.take(in, "report_to.connections", &t.Connections)
	r.take(in, "report_to.invalid", &t.Invalid)
	r.take(in, "report_to.codepoint", &t.Codepoint)
	c.ReportTo = t
}

// manager reads where a filter manager is reached: a path, or KEY@ADDRESS:PORT, which needs an identity.
func (r *reader) manager(in map[string]field, f field, identity bool) string {
	text, ok := r.text(f, "a path, or KEY@ADDRESS:PORT")
	if !ok {
		return ""
	}
	if !isPeer(text) {
		return r.path(in, "api")
	}
	key, addr, _ := strings.Cut(text, "@")
	if _, err := netip.ParseAddrPort(addr); err != nil || !isKey(key) {
		r.fail(f.line, f.path, "%q is not KEY@ADDRESS:PORT; `tidegate filter key FILE` prints the filter manager's key", text)
	}
	if !identity {
		r.fail(f.line, f.path, "is on another machine and needs identity_file, made by `tidegate keygen FILE`")
	}
	return text
}

// reportable refuses report_to, bgp.offenders and source_limits where no service lets a proxy prove a source.
func (r *reader) reportable(c *Config, fs map[string]field) {
	if c.Role != RoleProxy || slices.ContainsFunc(c.Services, func(s Service) bool { return s.Strategy.Translates() }) {
		return
	}
	wanted := []field{}
	for _, name := range []string{"report_to", "source_limits"} {
		if f, there := fs[name]; there {
			wanted = append(wanted, f)
		}
	}
	if announces := c.BGP.Offenders; announces == OffendersSource || announces == OffendersFlow {
		f := fs["bgp"]
		f.path += ".offenders"
		wanted = append(wanted, f)
	}
	for _, f := range wanted {
		r.fail(f.line, f.path, "needs a service of strategy: cookie or cache; under the others the proxy sees no handshake's end")
	}
}
