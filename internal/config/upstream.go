// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// Roles of Terminus: they filter, near the source, what a destination does not want.
const (
	RolePatrol        = "patrol"
	RoleBorderManager = "border-manager"
	RoleFilterManager = "filter-manager"
)

// Limits of the upstream roles.
const (
	MaxFilters  = 1 << 24 // of a patrol
	MaxPatrols  = 1024
	MaxSources6 = 1 << 18

	MaxDetectors = 1024
)

// Signed says where signed bindings come from; Anchors is "" if they are not used.
type Signed struct {
	Anchors, Store, Key, Listen string
	Neighbours, Publish         []string
}

// upstreamRoles are read by upstreamDocument.
var upstreamRoles = []string{RolePatrol, RoleBorderManager, RoleFilterManager}

// Codepoint that says "true source" by default: 47, of DSCP pool 2,
// which RFC 2474 section 6 leaves to local use.
const defaultCodepoint = 47

// upstreamRole returns the role that a file names, if it is one of upstreamRoles.
func upstreamRole(top field) string {
	r := &reader{}
	fs, ok := r.mapping(top, []string{"role"})
	if f, there := fs["role"]; ok && there {
		if s, isText := scalarText(f.node); isText {
			for _, role := range upstreamRoles {
				if s == role {
					return role
				}
			}
		}
	}
	return ""
}

// upstreamDocument reads a file of one of the three roles.
func (r *reader) upstreamDocument(c *Config, top field, role string) {
	c.Role, c.Services, r.role = role, nil, role
	fs, ok := r.mapping(top, namesOf("", role))
	if !ok {
		return
	}
	need := map[string][]string{
		RolePatrol:        {"ports"},
		RoleBorderManager: {"identity_file", "secret_file", "listen", "patrols"},
		RoleFilterManager: {"listen", "own"},
	}[role]
	for _, name := range need {
		if _, there := fs[name]; !there && !r.misspelled(name) {
			r.fail(top.line, name, "is missing; docs/upstream.md has an example")
		}
	}
	if f, there := fs["instance"]; there {
		if s, ok := r.name(f); ok {
			c.Instance = s
		}
	}
	if role != RoleFilterManager {
		r.take(fs, "xdp_mode", &c.XDPMode)
	}
	if role == RolePatrol {
		r.take(fs, "dispatcher", &c.Dispatcher)
		r.take(fs, "dispatcher_priority", &c.Priority)
	}
	r.metrics(c, fs)
	r.events(c, fs)
	_, static := fs["bindings"]
	if _, signed := fs["signed_bindings"]; role != RolePatrol && static == signed {
		r.fail(top.line, "bindings", "name either bindings, a file, or signed_bindings; docs/upstream.md has an example")
	}
	switch role {
	case RolePatrol:
		r.patrol(c, fs)
	case RoleBorderManager:
		r.border(c, fs)
	default:
		r.filterManager(c, fs)
	}
}

// path reads the path of a file.
func (r *reader) path(fs map[string]field, name string) string {
	f, there := fs[name]
	if !there {
		return ""
	}
	s, _ := r.text(f, "a path")
	if s != "" && !filepath.IsAbs(s) {
		s = filepath.Join(filepath.Dir(r.file), s)
	}
	return s
}

func (r *reader) address(fs map[string]field, name string) (a netip.AddrPort) {
	f, there := fs[name]
	if !there {
		return a
	}
	s, ok := r.text(f, "an address and port such as 192.0.2.1:4747")
	if !ok {
		return a
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		r.fail(f.line, f.path, "%q is not an address and port; write it like 192.0.2.1:4747 or [2001:db8::1]:4747", s)
	}
	return a
}

func (r *reader) prefixList(fs map[string]field, name string) []netip.Prefix {
	if f, there := fs[name]; there {
		return r.prefixes(f)
	}
	return nil
}

// key reads a public key.
func (r *reader) key(f field) string {
	s, ok := r.text(f, "a public key; `tidegate filter key FILE` prints one")
	if ok && !isKey(s) {
		r.fail(f.line, f.path, "%q is not a public key of 64 hex digits; `tidegate filter key FILE` prints one", s)
	}
	return s
}

// isKey reports whether a text is a public key.
func isKey(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// bitRate reads a rate such as 100mbit.
func (r *reader) bitRate(f field) uint64 {
	s, ok := r.text(f, "a rate such as 100mbit")
	if !ok {
		return 0
	}
	for unit, factor := range map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9} {
		if text, has := strings.CutSuffix(s, unit); has {
			if v, err := strconv.ParseFloat(text, 64); err == nil && v*factor >= 8e3 && v*factor <= 1e12 {
				return uint64(v * factor)
			}
		}
	}
	r.fail(f.line, f.path, "%q is not a rate; write it like 500kbit, 100mbit or 10gbit", s)
	return 0
}

// signed reads where signed bindings come from.
func (r *reader) signed(fs map[string]field) (s Signed) {
	f, there := fs["signed_bindings"]
	if !there {
		return s
	}
	in, ok := r.mapping(f, namesOf("signed_bindings", r.role))
	if !ok {
		return s
	}
	for _, name := range []string{"anchors", "store"} {
		if _, there := in[name]; !there {
			r.fail(f.line, f.path+"."+name, "is missing; docs/bindings.md says what it is")
		}
	}
	s.Anchors, s.Store, s.Key = r.path(in, "anchors"), r.path(in, "store"), r.path(in, "key")
	if a := r.address(in, "listen"); a.IsValid() {
		s.Listen = a.String()
	}
	for name, to := range map[string]*[]string{"neighbours": &s.Neighbours, "publish": &s.Publish} {
		if v, there := in[name]; there {
			items, _ := r.sequence(v)
			for _, it := range items {
				if text, ok := r.text(it, "a text"); ok {
					*to = append(*to, text)
				}
			}
		}
	}
	if s.Key == "" && (s.Listen != "" || len(s.Neighbours)+len(s.Publish) > 0) {
		r.fail(f.line, f.path+".key", "is missing; flooding needs a key, made by `tidegate binding keygen FILE`")
	}
	return s
}
