// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// metrics reads `metrics`, where the counters are served in the text format of Prometheus.
func (r *reader) metrics(c *Config, fs map[string]field) {
	f, there := fs["metrics"]
	if !there {
		return
	}
	s, ok := r.text(f, "an address and port such as 127.0.0.1:9464")
	if !ok {
		return
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil || at.Port() == 0 {
		r.fail(f.line, f.path, "%q is not an address and port; write it like 127.0.0.1:9464 or '[::1]:9464'", s)
		return
	}
	c.Metrics = at
}
