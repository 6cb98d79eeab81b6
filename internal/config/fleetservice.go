// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FleetService is a service that a fleet has its nodes protect: the fields of one in a file, and where it holds.
type FleetService struct {
	Name        string  `yaml:"name" json:"name"`
	Prefixes    []Value `yaml:"prefixes" json:"prefixes,omitempty"`
	Ports       []Value `yaml:"ports" json:"ports"`
	Mode        Value   `yaml:"mode" json:"mode,omitempty"`
	Strategy    Value   `yaml:"strategy" json:"strategy,omitempty"`
	FirstData   Value   `yaml:"first_data" json:"first_data,omitempty"`
	DeferAccept Value   `yaml:"defer_accept" json:"defer_accept,omitempty"`
	MSS         Value   `yaml:"mss" json:"mss,omitempty"`
	WScale      Value   `yaml:"wscale" json:"wscale,omitempty"`
	Window      Value   `yaml:"window" json:"window,omitempty"`
	Signed      Value   `yaml:"signed" json:"signed,omitempty"`
	SignedRate  Value   `yaml:"signed_rate" json:"signed_rate,omitempty"`
	Forwarded   Value   `yaml:"forwarded" json:"forwarded,omitempty"`

	Nodes []string `yaml:"nodes" json:"nodes,omitempty"` // names of nodes and of groups; none: every node
	Roles []string `yaml:"roles" json:"roles,omitempty"` // none: every role
}

// forRole reports whether nodes of a role have the service.
func (s *FleetService) forRole(role string) bool {
	return len(s.Roles) == 0 || slices.Contains(s.Roles, role)
}

// read reads the service as a file of that role and plane would have it.
func (s *FleetService) read(role string, plane Plane) (Service, error) {
	if len(s.Prefixes) == 0 && (role == RoleEdge || role == RoleProxy) {
		return Service{}, fmt.Errorf("services.%s: at role %s it would be every address behind the box: name `prefixes` (0.0.0.0/0 and ::/0 if that is meant), or other `roles`", s.Name, role)
	}
	plain := *s
	plain.Nodes, plain.Roles = nil, nil
	text, err := json.Marshal(&plain) // which is YAML
	if err != nil {
		return Service{}, err
	}
	r := &reader{role: role, plane: plane}
	f, ok := r.root(text)
	if !ok {
		return Service{}, fmt.Errorf("services.%s: %s", s.Name, r.errs[0].Msg)
	}
	out, _ := r.service(f, role)
	if len(r.errs) > 0 {
		e := r.errs[0]
		return Service{}, fmt.Errorf("services.%s: %s: %s (for nodes of role %s; `roles` limits it to others)", s.Name, strings.TrimPrefix(e.Field, "."), e.Msg, role)
	}
	out.Line = 0
	return out, nil
}

// FleetServices are all services of a fleet.
type FleetServices []FleetService

// Validate checks what does not depend on a node: each service by itself at each of its roles, and together those that meet at every node.
// groups are the names that `nodes` may have beside those of nodes.
func (l FleetServices) Validate(groups map[string][]string) error {
	if len(l) > MaxServices {
		return fmt.Errorf("services: %d are too many; at most %d", len(l), MaxServices)
	}
	for name, nodes := range groups {
		for _, n := range append([]string{name}, nodes...) {
			if !nodeName.MatchString(n) {
				return fmt.Errorf("groups.%s: %q is no name: want letters, digits, - and _, at most 64", name, n)
			}
		}
	}
	names := map[string]bool{}
	for i := range l {
		s := &l[i]
		if names[s.Name] {
			return fmt.Errorf("services.%s: the name is used twice; choose another", s.Name)
		}
		names[s.Name] = true
		for _, n := range s.Nodes {
			if !nodeName.MatchString(n) {
				return fmt.Errorf("services.%s: nodes: %q is no name of a node or group", s.Name, n)
			}
		}
		for _, role := range s.Roles {
			if !slices.Contains(Roles(), role) {
				return fmt.Errorf("services.%s: roles: %q is not known; use %s", s.Name, role, wordList(Roles()))
			}
		}
	}
	for _, role := range Roles() {
		var together []Service
		for i := range l {
			if !l[i].forRole(role) {
				continue
			}
			s, err := l[i].read(role, PlaneXDP)
			if err != nil {
				return err
			}
			if len(l[i].Nodes) == 0 {
				together = append(together, s)
			}
		}
		if err := checkTogether(together); err != nil {
			return err
		}
	}
	return nil
}

// For are those of one node, without the names of nodes.
func (l FleetServices) For(node string, groups map[string][]string) (list FleetServices) {
	for _, s := range l {
		if len(s.Nodes) > 0 && !slices.ContainsFunc(s.Nodes, func(n string) bool { return n == node || slices.Contains(groups[n], node) }) {
			continue
		}
		s.Nodes = nil
		list = append(list, s)
	}
	return list
}

// checkTogether finds mistakes that involve more than one service.
func checkTogether(services []Service) error {
	r := &reader{}
	r.checkServices(services)
	return r.byName(services)
}

// byName is the first error, with the name of the service in the place of its number.
func (r *reader) byName(services []Service) error {
	if len(r.errs) == 0 {
		return nil
	}
	e := r.errs[0]
	field, i := e.Field, 0
	if n, _ := fmt.Sscanf(e.Field, "services[%d]", &i); n == 1 && i < len(services) {
		_, rest, _ := strings.Cut(e.Field, "]")
		field = "services." + services[i].Name + rest
	}
	return fmt.Errorf("%s: %s", field, strings.ReplaceAll(e.Msg, " of line 0", " of the fleet"))
}

// Override puts the services of a fleet beside those of the file, in the place of those with the same names. If they do not fit there, the error
// names both, and the configuration stays as it was.
func (l FleetServices) Override(c *Config) error {
	merged := slices.Clone(c.Services)
	for i := range l {
		if !l[i].forRole(c.Role) {
			continue
		}
		s, err := l[i].read(c.Role, c.Plane)
		if err != nil {
			return err
		}
		if at := slices.IndexFunc(merged, func(old Service) bool { return old.Name == s.Name }); at >= 0 {
			merged[at] = s
		} else {
			merged = append(merged, s)
		}
	}
	if len(merged) > MaxServices {
		return fmt.Errorf("services: the file's and the fleet's are %d; at most %d", len(merged), MaxServices)
	}
	next := *c
	next.Services = merged
	r := &reader{role: c.Role, plane: c.Plane}
	r.checkServices(merged)
	r.signedThroughTags(&next)
	r.fitsSwitch(&next, map[string]field{})
	if err := r.byName(merged); err != nil {
		return err
	}
	if c.Role == RoleProxy && next.seesHandshakes() && !slices.ContainsFunc(merged, func(s Service) bool { return s.Strategy.Translates() }) {
		return errors.New("services: report_to, source_limits or bgp.offenders of this node need a service of strategy cookie or cache")
	}
	*c = next
	return nil
}

// seesHandshakes reports whether something needs the end of handshakes (reportable).
func (c *Config) seesHandshakes() bool {
	return c.ReportTo.API != "" || c.SourceLimits.On() || c.BGP.Offenders == OffendersSource || c.BGP.Offenders == OffendersFlow
}
