// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the table of fields (fields.go) says of a name: whose field it is, whether it is live, and which values it has.

// formerly returns the current name of the field that once had this name; "": none.
func formerly(name string) string {
	for _, f := range fields {
		if f.Former != "" && f.Former == name {
			return f.Name
		}
	}
	return ""
}

// namesOf lists the fields of a mapping that a role may have, in the document's order; in is "" for the
// top level. An empty role: of any with services.
func namesOf(in, role string) (names []string) {
	for _, f := range fields {
		name, nested := strings.CutPrefix(f.Name, in+".")
		if in == "" {
			name, nested = f.Name, !strings.Contains(f.Name, ".")
		}
		if !nested || strings.Contains(name, ".") || slices.Contains(names, name) {
			continue
		}
		if role == "" && slices.ContainsFunc(f.Roles, func(r string) bool { return slices.Contains(withServices, r) }) || slices.Contains(f.Roles, role) {
			names = append(names, name)
		}
	}
	return names
}

// rolesOf are those that have a field of this name.
func rolesOf(name string) (roles []string) {
	for _, f := range fields {
		for _, role := range f.Roles {
			if f.Name == name && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// planesOf are those on which a role has a field of this name; nil: every one.
func planesOf(name, role string) (planes []Plane) {
	for _, f := range fields {
		if f.Name != name || !slices.Contains(f.Roles, role) {
			continue
		}
		if len(f.Planes) == 0 {
			return nil
		}
		planes = append(planes, f.Planes...)
	}
	return planes
}

// hasPlanes reports whether a role has planes to choose from.
func hasPlanes(role string) bool { return slices.Contains(forwarders, role) }

// belong refuses the fields of a mapping that are of other roles, or of other planes; in is "" for the top level.
func (r *reader) belong(fs map[string]field, in string) {
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		it, full := fs[name], name
		if in != "" {
			full = in + "." + name
		}
		if roles := rolesOf(full); !slices.Contains(roles, r.role) {
			owner, cure := "role: "+roles[0], "that role"
			if last := len(roles) - 1; last > 0 {
				owner, cure = "roles "+strings.Join(roles[:last], ", ")+" and "+roles[last], "one of them"
			}
			r.fail(it.line, it.path, "belongs to %s; remove it, or set %s", owner, cure)
			continue
		}
		planes := planesOf(full, r.role)
		if !hasPlanes(r.role) || len(planes) == 0 || slices.Contains(planes, r.plane) {
			continue
		}
		var words []string
		for _, p := range planes {
			if slices.Contains(fieldOf("plane", r.role, r.plane).Words, string(p)) {
				words = append(words, string(p))
			}
		}
		r.fail(it.line, it.path, "plane: %s does not have it; remove it, or set plane: %s", r.plane, wordList(words))
	}
}

// situation returns which of Field.Live's entries a configuration matches.
func (c *Config) situation() string {
	switch {
	case hasPlanes(c.Role) && c.Plane != PlaneXDP && c.Plane != "":
		return c.Role + "/" + string(c.Plane)
	case c.Role == RoleServer && c.Server.Takeover == TakeoverAdopt:
		return atAdopting
	case c.Role == RoleServer:
		return atTranslate
	}
	return c.Role
}

// liveAt reports whether a reload brings a change with this name (changes.go) into force.
func liveAt(change, situation string) bool {
	return slices.ContainsFunc(fields, func(f Field) bool {
		name := f.Change
		if name == "" {
			name = f.Name
		}
		return name == change && slices.Contains(f.Live, situation)
	})
}

// Range describes the values of a field for readers.
func (f *Field) Range() string {
	if f.Values != "" {
		return f.Values
	}
	switch f.Kind {
	case Words:
		return "`" + strings.Join(f.Words, "`, `") + "`"
	case Duration:
		low, high := "`"+short(time.Duration(f.Low))+"`", "`"+short(time.Duration(f.High))+"`"
		if f.LowPart.Of != "" {
			low = f.LowPart.String()
		}
		if f.HighPart.Of != "" {
			high = f.HighPart.String()
		}
		return low + " to " + high
	case Number:
		return strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Auto:
		return "`auto`, " + strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Rate64:
		return "`all`, " + strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Share:
		return "a share, above 0"
	case YesNo:
		return "`yes`, `no`"
	}
	return ""
}
