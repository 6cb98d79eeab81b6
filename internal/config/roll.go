// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// NextSecret takes the place of the secret, on all machines of a fleet in the same epoch.
type NextSecret struct {
	File string // empty: none
	From time.Time
}

// roll reads the fields of the next secret: both or none.
func (r *reader) roll(c *Config, fs map[string]field) {
	file, hasFile := fs["next_secret_file"]
	from, hasFrom := fs["next_secret_from"]
	switch {
	case hasFile && !hasFrom:
		r.fail(file.line, "next_secret_from", "is missing; say from when, the same on all machines, such as 2027-01-31T12:00:00Z")
	case hasFrom && !hasFile:
		r.fail(from.line, "next_secret_file", "is missing; name a file made by `tidegate keygen FILE`")
	case hasFile:
		if s, ok := r.text(file, "the path"); ok {
			c.NextSecret.File = s
		}
		s, ok := r.text(from, "a time such as 2027-01-31T12:00:00Z")
		if !ok {
			return
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			r.fail(from.line, from.path, "%q is not a time; write it like 2027-01-31T12:00:00Z", s)
			return
		}
		c.NextSecret.From = t
	}
}
