// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// Fleet is how a node reaches the fleet's NATS servers (internal/fleet); without servers it belongs to none.
type Fleet struct {
	Servers       []string
	Node          string
	CA, Cert, Key string // files
	Share         Sharing
	Quorum        int
}

// Sharing is what a node makes of attacks that others of its fleet see.
type Sharing string

// What it makes of them.
const (
	ShareOff     Sharing = "off"     // nothing, and it tells them nothing
	SharePrepare Sharing = "prepare" // half of the evidence suffices
	ShareOn      Sharing = "on"      // it also answers what the fleet sees in the sum
)

var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// fleet reads which fleet this instance belongs to.
func (r *reader) fleet(c *Config, fs map[string]field) {
	f, there := fs["fleet"]
	if !there {
		return
	}
	in, ok := r.mapping(f, namesOf("fleet", c.Role))
	if !ok {
		return
	}
	out := Fleet{CA: r.path(in, "ca_file"), Cert: r.path(in, "cert_file"), Key: r.path(in, "key_file")}
	servers, there := in["servers"]
	if !there {
		r.fail(f.line, f.path, "has no `servers`; name those of NATS, such as [tls://192.0.2.10:4222]")
		return
	}
	out.Servers = r.texts(servers, "an address such as tls://192.0.2.10:4222")
	if len(out.Servers) == 0 {
		r.fail(servers.line, servers.path, "is empty; name NATS servers, such as [tls://192.0.2.10:4222]")
	}
	for _, s := range out.Servers {
		if err := fleetServer(s); err != "" {
			r.fail(servers.line, servers.path, "%s: %s", s, err)
		}
	}
	if (out.Cert == "") != (out.Key == "") {
		r.fail(f.line, f.path, "needs both `cert_file` and `key_file`, or neither")
	}
	host, _ := os.Hostname()
	out.Node = strings.ReplaceAll(host, ".", "_")
	if v, there := in["node"]; there {
		out.Node, _ = r.text(v, "a name")
	}
	if !nodeName.MatchString(out.Node) {
		r.fail(f.line, f.path, "node %q: want letters, digits, - and _, at most 64; set `node`", out.Node)
	}
	r.take(in, "fleet.share", &out.Share)
	r.take(in, "fleet.quorum", &out.Quorum)
	c.Fleet = out
}

// fleetServer says what is wrong with a server's address.
func fleetServer(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "not an address; write it like tls://192.0.2.10:4222"
	}
	switch u.Scheme {
	case "tls":
		return ""
	case "nats":
		a, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && a.IsLoopback() {
			return ""
		}
		return "not encrypted; write tls:// (nats:// is for servers on this machine)"
	}
	return "unknown scheme; write tls://"
}
