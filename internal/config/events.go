// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"path/filepath"
)

// Events says where the events of an instance go (internal/event); the zero value: nowhere.
type Events struct {
	File    string // "-": stdout
	Webhook string
	Command []string
	Journal bool
}

// events reads where events go.
func (r *reader) events(c *Config, fs map[string]field) {
	f, there := fs["events"]
	if !there {
		return
	}
	in, ok := r.mapping(f, namesOf("events", c.Role))
	if !ok {
		return
	}
	e := &c.Events
	if v, there := in["file"]; there {
		if e.File, ok = r.text(v, "a path, or - for stdout"); ok && e.File != "-" {
			e.File = r.path(in, "file")
		}
	}
	if v, there := in["webhook"]; there {
		if s, ok := r.text(v, "an address such as https://example.org/hook"); ok {
			u, err := url.Parse(s)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				r.fail(v.line, v.path, "is not an address that can be posted to; write it like https://example.org/hook")
			}
			e.Webhook = s
		}
	}
	if v, there := in["command"]; there {
		e.Command = r.texts(v, "a word of a command")
		if len(e.Command) == 0 || !filepath.IsAbs(e.Command[0]) {
			r.fail(v.line, v.path, "begin with the absolute path of a program, such as [/usr/local/bin/tell, on-call]")
		}
	}
	r.take(in, "events.journal", &e.Journal)
	if e.File == "" && e.Webhook == "" && len(e.Command) == 0 && !e.Journal {
		r.fail(f.line, f.path, "has no consumer; name a file, a webhook or a command, or set journal: yes")
	}
}
