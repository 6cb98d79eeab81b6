// SPDX-License-Identifier: Apache-2.0

package config

// ReportTo says which clients a gate reports to a filter manager (docs/upstream.md).
type ReportTo struct {
	API         string // its socket; "": nobody is reported
	Connections int    // completed handshakes/s of one source to one address; more is too many; 0: any
	Invalid     int    // segments/s that carry the codepoint and belong to no connection, likewise
	Codepoint   uint8  // true source
}

const (
	defaultReportConnections = 100
	defaultReportInvalid     = 1000
	maxReportRate            = 10_000_000
)

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
	if t.API = r.path(in, "api"); t.API == "" {
		r.fail(f.line, f.path+".api", "is missing; name the filter manager's socket, such as /run/tidegate/filters.filters.sock")
	}
	r.take(in, "report_to.connections", &t.Connections)
	r.take(in, "report_to.invalid", &t.Invalid)
	r.take(in, "report_to.codepoint", &t.Codepoint)
	c.ReportTo = t
}

// reportable refuses report_to where no service lets a gate prove a source.
func (r *reader) reportable(c *Config, fs map[string]field) {
	f, there := fs["report_to"]
	if !there || c.Role != RoleProxy {
		return
	}
	for _, s := range c.Services {
		if s.Strategy.Translates() {
			return
		}
	}
	r.fail(f.line, f.path, "needs a service of strategy: cookie or cache; under the others the proxy sees no handshake's end")
}
