// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// What only the roles border-manager and filter-manager have, and the detectors of the latter.

// BorderPatrol is a patrol as configured at a border manager.
type BorderPatrol struct {
	Name     string
	Address  netip.AddrPort
	Key      string
	Prefixes []netip.Prefix
}

// Border is what only the role border-manager has.
type Border struct {
	Identity   string
	Listen     netip.AddrPort
	Codepoint  uint8
	Rate       int
	Bindings   string
	Signed     Signed
	Patrols    []BorderPatrol
	Protect    []netip.Prefix
	Interfaces []string // nonces are answered in XDP here
}

// Filter is what only the role filter-manager has.
type Filter struct {
	Listen    netip.AddrPort
	Codepoint uint8
	API       string // a path of a socket
	Bindings  string
	Signed    Signed
	Own       []netip.Prefix
	Never     []netip.Prefix
	// FiltersFile is where the filters are kept; empty: in the state directory.
	FiltersFile string
	Expires     time.Duration
	Floor       uint32 // packets/s
	Idle        time.Duration
	Watch       time.Duration
	Proof       bool
	Suricata    []string       // EVE files that are followed
	APIListen   netip.AddrPort // for detectors on other machines; invalid: none are served
	Identity    string
	Detectors   []FilterDetector
}

// FilterDetector is a detector on another machine, as configured at a filter manager.
type FilterDetector struct {
	Name, Key string
	Filters   int // that it may have at once
}

// DefaultFilterRate is how many filters a second one network may ask a border manager for.
const DefaultFilterRate = 50_000

func (r *reader) border(c *Config, fs map[string]field) {
	b := &Border{}
	c.Border = b
	b.Identity, c.SecretFile, b.Bindings = r.path(fs, "identity_file"), r.path(fs, "secret_file"), r.path(fs, "bindings")
	b.Listen, b.Signed = r.address(fs, "listen"), r.signed(fs)
	b.Protect = r.prefixList(fs, "protect")
	r.take(fs, "codepoint", &b.Codepoint)
	r.take(fs, "rate", &b.Rate)
	if f, there := fs["interfaces"]; there {
		b.Interfaces = r.interfaces(f)
		c.Interfaces = b.Interfaces
	}
	f, there := fs["patrols"]
	if !there {
		return
	}
	items, _ := r.sequence(f)
	if len(items) == 0 || len(items) > MaxPatrols {
		r.fail(f.line, f.path, "name 1 to %d patrols", MaxPatrols)
	}
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("patrols", r.role))
		if !ok {
			continue
		}
		for _, name := range namesOf("patrols", r.role) {
			if _, there := fs[name]; !there {
				r.fail(it.line, fmt.Sprintf("%s.%s", it.path, name), "is missing; a patrol has name, address, key and prefixes")
			}
		}
		p := BorderPatrol{Address: r.address(fs, "address"), Prefixes: r.prefixList(fs, "prefixes")}
		if v, there := fs["name"]; there {
			p.Name, _ = r.name(v)
		}
		if v, there := fs["key"]; there {
			p.Key = r.key(v)
		}
		b.Patrols = append(b.Patrols, p)
	}
}

// detectors reads who may use the API of a filter manager from other machines.
func (r *reader) detectors(m *Filter, fs map[string]field) {
	m.APIListen, m.Identity = r.address(fs, "api_listen"), r.path(fs, "identity_file")
	f, there := fs["detectors"]
	if at, listens := fs["api_listen"]; listens && (m.Identity == "" || !there) {
		r.fail(at.line, at.path, "needs identity_file and detectors: who we are, and who may request filters")
	} else if there && !listens {
		r.fail(f.line, f.path, "needs api_listen: where they connect")
	}
	if !there {
		return
	}
	items, _ := r.sequence(f)
	if len(items) > MaxDetectors {
		r.fail(f.line, f.path, "%d detectors are too many; name at most %d", len(items), MaxDetectors)
		return
	}
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("detectors", r.role))
		if !ok {
			continue
		}
		var d FilterDetector
		for _, name := range []string{"name", "key"} {
			if _, there := fs[name]; !there {
				r.fail(it.line, fmt.Sprintf("%s.%s", it.path, name), "is missing; a detector has name and key")
			}
		}
		if v, there := fs["name"]; there {
			d.Name, _ = r.name(v)
		}
		if v, there := fs["key"]; there {
			d.Key = r.key(v)
		}
		r.take(fs, "detectors.filters", &d.Filters)
		if slices.ContainsFunc(m.Detectors, func(o FilterDetector) bool { return o.Name == d.Name || o.Key == d.Key }) {
			r.fail(it.line, it.path, "has the name or the key of another detector; each has its own")
		}
		m.Detectors = append(m.Detectors, d)
	}
}

func (r *reader) filterManager(c *Config, fs map[string]field) {
	m := &Filter{}
	c.Filter = m
	m.Listen, m.Signed = r.address(fs, "listen"), r.signed(fs)
	m.Bindings, m.API = r.path(fs, "bindings"), r.path(fs, "api")
	m.FiltersFile = r.path(fs, "filters_file")
	r.detectors(m, fs)
	m.Own, m.Never = r.prefixList(fs, "own"), r.prefixList(fs, "never")
	r.take(fs, "codepoint", &m.Codepoint)
	r.take(fs, "expires", &m.Expires)
	r.take(fs, "floor", &m.Floor)
	r.take(fs, "idle", &m.Idle)
	r.take(fs, "watch", &m.Watch)
	r.take(fs, "proof", &m.Proof)
	if f, there := fs["suricata"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			if s, ok := r.text(it, "the path of an eve.json"); ok {
				m.Suricata = append(m.Suricata, s)
			}
		}
	}
}
