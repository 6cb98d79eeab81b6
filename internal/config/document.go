// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
)

// document reads the whole file.
func (r *reader) document(data []byte) *Config {
	c := &Config{Role: fieldOf("role", "", "").Default, Instance: fieldOf("instance", "", "").Default}
	top, ok := r.root(data)
	if !ok {
		return c
	}
	if role := upstreamRole(top); role != "" {
		r.upstreamDocument(c, top, role)
		return c
	}
	if r.formerSwitch(top) {
		return c
	}
	fs, ok := r.mapping(top, namesOf("", ""))
	if !ok {
		return c
	}
	for _, name := range []string{"interfaces", "secret_file", "services"} {
		if _, there := fs[name]; !there && !r.misspelled(name) {
			r.fail(top.line, name, "is missing; %s", map[string]string{
				"interfaces":  "name the interfaces that clients come through, such as [eth0]",
				"secret_file": "name a file made by `tidegate keygen FILE`",
				"services":    "write at least one service with a name and ports",
			}[name])
		}
	}
	if f, there := fs["role"]; there {
		if s, ok := r.roleName(f); ok {
			c.Role = s
		}
	}
	r.role = c.Role
	if hasPlanes(c.Role) {
		r.take(fs, "plane", &c.Plane)
		r.plane = c.Plane
	}
	r.scalars(c, fs)
	r.belong(fs, "")
	r.metrics(c, fs)
	r.events(c, fs)
	r.fleet(c, fs)
	if f, there := fs["interfaces"]; there {
		c.Interfaces = r.interfaces(f)
	}
	r.proxy(c, fs)
	r.split(c, fs)
	r.p4(c, fs)
	r.reportTo(c, fs)
	r.take(fs, "remember_sources", &c.Remember)
	r.bgp(c, fs)
	if f, there := fs["services"]; there {
		c.Services = r.services(f, c.Role)
		r.signedThroughTags(c)
		r.reportable(c, fs)
		r.fitsSwitch(c, fs)
	}
	return c
}

// misspelled reports whether an unknown field was reported that was probably
// meant to be name: its absence is then no second mistake.
func (r *reader) misspelled(name string) bool {
	return slices.ContainsFunc(r.errs, func(e *Error) bool {
		return strings.HasSuffix(e.Msg, "did you mean "+name+"?")
	})
}

// scalars reads the fields of the top level that hold one value.
func (r *reader) scalars(c *Config, fs map[string]field) {
	if f, there := fs["instance"]; there {
		if s, ok := r.name(f); ok {
			c.Instance = s
		}
	}
	if f, there := fs["secret_file"]; there {
		c.SecretFile, _ = r.text(f, "the path of a file made by `tidegate keygen FILE`")
	}
	r.take(fs, "epoch", &c.Epoch)
	// Shorter than two epochs, the keys could run out between two rotations.
	r.take(fs, "key_horizon", &c.KeyHorizon)
	r.take(fs, "drain", &c.Drain)
	r.take(fs, "on_stale_keys", &c.OnStaleKeys)
	r.take(fs, "synack_limit", &c.SynackLimit)
	r.sourceLimits(c, fs)
	r.detector(c, fs)
	c.AllowList, c.DenyList = r.path(fs, "allow_list"), r.path(fs, "deny_list")
	r.take(fs, "xdp_mode", &c.XDPMode)
	r.take(fs, "dispatcher", &c.Dispatcher)
	r.take(fs, "dispatcher_priority", &c.Priority)
	r.take(fs, "tc_order", &c.TCOrder)
}

func (r *reader) roleName(f field) (string, bool) {
	s, ok := r.text(f, wordList(Roles()))
	switch {
	case !ok:
	case slices.Contains(Roles(), s):
		return s, true
	default:
		r.fail(f.line, f.path, "%q is not known; use %s", s, wordList(Roles()))
	}
	return "", false
}

// name reads a word that may become part of a path or of a metric.
func (r *reader) name(f field) (string, bool) {
	s, ok := r.text(f, "a name")
	if !ok {
		return "", false
	}
	good := len(s) <= maxNameLen && s[0] != '.' && s[0] != '-'
	for _, ch := range []byte(s) {
		good = good && (ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' ||
			ch == '-' || ch == '_' || ch == '.')
	}
	if !good {
		r.fail(f.line, f.path, "%q is not a name; use 1 to %d letters, digits, - _ or . and begin with a letter, digit or _",
			s, maxNameLen)
		return "", false
	}
	return s, true
}

func (r *reader) interfaces(f field) []string {
	items, ok := r.sequence(f)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.fail(f.line, f.path, "is empty; name the interfaces that clients come through, such as [eth0]")
	}
	if len(items) > MaxInterfaces {
		r.fail(f.line, f.path, "%d interfaces are too many; use at most %d", len(items), MaxInterfaces)
		return nil
	}
	var names []string
	for _, it := range items {
		s, ok := r.text(it, "the name of an interface")
		switch {
		case !ok:
		case len(s) > maxIfNameLen || s == "." || s == ".." || strings.ContainsAny(s, "/: \t\n"):
			r.fail(it.line, f.path, "%q cannot be the name of an interface; see `ip link` for the names here", s)
		case slices.Contains(names, s):
			r.fail(it.line, f.path, "%s is listed twice; remove one", s)
		default:
			names = append(names, s)
		}
	}
	return names
}
