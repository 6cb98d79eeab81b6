// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const full = `role: host
instance: edge-1
interfaces: [eth0, eth1]
secret_file: /etc/tidegate/secret
epoch: 4s
key_horizon: 1h
on_stale_keys: drop
drain: 500ms
xdp_mode: generic
services:
  - name: web
    prefixes: [192.0.2.0/24, "2001:db8::/64", 198.51.100.7]
    ports: [80, 443, "8000-8010"]
    mode: monitor
    mss: 1400
    wscale: 7
    window: 65535
    signed: pass
    signed_rate: 7
  - name: rest
    ports: [22]
`

func TestParseFull(t *testing.T) {
	got, err := Parse("full.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	auto := AutoInt{Auto: true}
	want := &Config{
		Role: "host", Instance: "edge-1", Interfaces: []string{"eth0", "eth1"}, SecretFile: "/etc/tidegate/secret",
		Epoch: 4 * time.Second, KeyHorizon: time.Hour, Drain: 500 * time.Millisecond,
		OnStaleKeys: StaleKeysDrop, XDPMode: XDPGeneric, Dispatcher: DispatcherAuto, Priority: 20, TCOrder: TCFirst,
		Detector: Detector{SensitivityNormal, 5000, 50, 30 * time.Second},
		Server:   Server{Takeover: TakeoverAuto},
		Tagged:   Tagged{MaxConnections: 1 << 18, IdleTime: 2 * time.Hour, SourceShare: 0.001},
		Services: []Service{{
			Name: "web",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64"),
				netip.MustParsePrefix("198.51.100.7/32")},
			Ports: []PortRange{{80, 80}, {443, 443}, {8000, 8010}}, Mode: ModeMonitor,
			MSS: AutoInt{Value: 1400}, WScale: AutoInt{Value: 7}, Window: AutoInt{Value: 65535},
			SignedSYNs: SignedPass, SignedRate: 7, Line: 11,
		}, {
			Name:     "rest",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
			Ports:    []PortRange{{22, 22}}, Mode: ModeAuto, MSS: auto, WScale: auto, Window: auto,
			SignedSYNs: SignedAnswer, SignedRate: 100, Line: 20,
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseDefaults(t *testing.T) {
	c, err := Parse("x", []byte("interfaces: [eth0]\nsecret_file: s\nservices: [{name: a, ports: [1-65535]}]"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Role != "host" || c.Instance != "default" || c.Epoch != 8*time.Second || c.KeyHorizon != 2*time.Hour ||
		c.Drain != 2*time.Second || c.OnStaleKeys != StaleKeysPass || c.XDPMode != XDPAuto ||
		c.Services[0].Mode != ModeAuto || !c.Services[0].MSS.Auto {
		t.Errorf("%+v", c)
	}
}

// base is a valid file; tests put their lines in place of the markers.
const base = "interfaces: [eth0]\nsecret_file: s\n%s\nservices:\n  - name: web\n    ports: [80]\n    %s\n"

func top(s string) string     { return fmt.Sprintf(base, s, "mode: always") }
func service(s string) string { return fmt.Sprintf(base, "role: host", s) }

var mistakes = []struct{ name, yaml, want string }{
	{"empty file", "", `f.yaml:1: is empty`},
	{"only comments", "# nothing\n", `f.yaml:1: is empty`},
	{"not a mapping", "- a\n", `f.yaml:1: is a list; write `},
	{"plain word", "hello", `f.yaml:1: is a single value; write `},
	{"bad YAML", "a: [1,\n", `f.yaml:1: is not valid YAML: `},
	{"tab", top("\trole: host"), `is not valid YAML: `},
	{"two documents", top("") + "---\na: 1\n", `f.yaml:9: holds a second YAML document`},
	{"duplicate key", top("secret_file: t"), `f.yaml:3: is not valid YAML: mapping key "secret_file" already defined`},
	{"unknown field", top("epok: 8s"), `f.yaml:3: epok: unknown field; did you mean epoch?`},
	{"unknown field, other spelling", top("on-stale-keys: pass"), `f.yaml:3: on-stale-keys: unknown field; did you mean on_stale_keys?`},
	{"unknown field, nothing near", top("colour: red"), `f.yaml:3: colour: unknown field; use role, instance`},
	{"signed unknown", service("signed: maybe"), `f.yaml:7: services[0].signed: "maybe" is not known; use answer, pass or drop`},
	{"signed_rate alone", service("signed_rate: 5"), `f.yaml:7: services[0].signed_rate: means nothing without signed: pass; remove it, or set that`},
	{"signed_rate zero", service("signed: pass\n    signed_rate: 0"), `f.yaml:8: services[0].signed_rate: 0 is out of range; use 1 to 100000`},
	{"signed at a server", strings.Replace(service("signed: drop"), "role: host", "role: server", 1), `signed: belongs to roles host, proxy and edge; remove it, or set one of them`},
	{"unknown field of a service", service("prots: [1]"), `f.yaml:7: services[0].prots: unknown field; did you mean ports?`},
	{"misspelled required field", "interfaces: [e]\nsecret_flie: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:2: secret_flie: unknown field; did you mean secret_file?`},
	{"merge key", top("<<: {epoch: 8s}"), `f.yaml:3: <<`},
	{"alias", top("epoch: &e 8s"), `f.yaml:3: epoch: is a YAML anchor, alias or tag`},

	{"role unknown", top("role: hots"), `f.yaml:3: role: "hots" is not known; use host, proxy, edge or server`},
	{"strategy of a host", service("strategy: cookie"), `strategy: belongs to role: proxy; remove it, or set that role`},
	{"defer_accept of a host", service("defer_accept: yes"), `defer_accept: belongs to role: proxy; remove it, or set that role`},
	{"defer_accept of what translates nothing", strings.Replace(service("strategy: auth-ttl\n    defer_accept: true"), "role: host", "role: proxy", 1), `f.yaml:8: services[0].defer_accept: means nothing under strategy auth-ttl, where clients complete their servers' handshakes themselves; remove it, or use strategy: cookie or cache`},
	{"defer_accept unknown", strings.Replace(service("defer_accept: 3"), "role: host", "role: proxy", 1), `f.yaml:7: services[0].defer_accept: `},
	{"field of a proxy", top("max_flows: 5000"), `f.yaml:3: max_flows: belongs to role: proxy; remove it, or set that role`},
	{"forwarding unknown", top("role: proxy\nforwarding: hub"), `f.yaml:4: forwarding: "hub" is not known; use router or bridge`},
	{"bridge with one port", top("role: proxy\nforwarding: bridge"), `a bridge has two ports, and 1 are named; name two, or use forwarding: router`},
	{"flow table too small", top("role: proxy\nmax_flows: 5"), `f.yaml:4: max_flows: 5 is out of range; use 1024 to 16777216`},
	{"idle time of an edge", strings.Replace(top("role: edge\ninside: [eth0]\nidle_time: 1h"), "[eth0]", "[eth0, eth1]", 1), `idle_time: belongs to roles proxy, host and server`},
	{"takeover of a host", top("takeover: steal"), `f.yaml:3: takeover: "steal" is not known; use auto, adopt or translate`},
	{"idle time too short", top("role: proxy\nidle_time: 10ms"), `f.yaml:4: idle_time:`},
	{"no auto", top("role: proxy\nmax_flows: auto"), `f.yaml:4: max_flows: "auto" is not a number; use 1024 to 16777216`},
	{"instance path", top("instance: ../x"), `f.yaml:3: instance: "../x" is not a name`},
	{"instance dot", top("instance: .."), `f.yaml:3: instance: ".." is not a name`},
	{"instance long", top("instance: " + strings.Repeat("a", 33)), `f.yaml:3: instance: `},
	{"instance empty", top("instance: \"\""), `f.yaml:3: instance: is empty; write a name`},
	{"epoch no unit", top("epoch: 8"), `f.yaml:3: epoch: 8 has no unit; write 8s if seconds are meant`},
	{"epoch word", top("epoch: soon"), `f.yaml:3: epoch: "soon" is not a duration; write it like`},
	{"epoch short", top("epoch: 999ms"), `f.yaml:3: epoch: 999ms is out of range; use 1s to 1m`},
	{"epoch long", top("epoch: 61s"), `f.yaml:3: epoch: 61s is out of range; use 1s to 1m`},
	{"epoch list", top("epoch: [8s]"), `f.yaml:3: epoch: is a list; write a duration`},
	{"horizon short", top("key_horizon: 15s"), `f.yaml:3: key_horizon: 15s is out of range; use 16s to 24h`},
	{"horizon long", top("key_horizon: 25h"), `f.yaml:3: key_horizon: 25h is out of range; use 16s to 24h`},
	{"drain negative", top("drain: -1s"), `f.yaml:3: drain: -1s is out of range; use 0s to 10m`},
	{"events that nobody gets", top("events: {}"), `f.yaml:3: events: has no consumer; name a file, a webhook or a command, or set journal: yes`},
	{"a webhook", top("events: {webhook: ftp://x}"), `f.yaml:3: events.webhook: is not an address that can be posted to; write it like https://example.org/hook`},
	{"a command", top("events: {command: [tell]}"), `f.yaml:3: events.command: begin with the absolute path of a program, such as [/usr/local/bin/tell, on-call]`},
	{"metrics", top("metrics: 9464"), `f.yaml:3: metrics: "9464" is not an address and port; write it like 127.0.0.1:9464 or '[::1]:9464'`},
	{"stale keys", top("on_stale_keys: open"), `f.yaml:3: on_stale_keys: "open" is not known; use pass or drop`},
	{"xdp mode", top("xdp_mode: offload"), `f.yaml:3: xdp_mode: "offload" is not known; use auto, native or generic`},
	{"secret missing", "interfaces: [e]\nservices: [{name: a, ports: [1]}]\n", "f.yaml:1: secret_file: is missing; name a file made by `tidegate keygen FILE`"},
	{"secret empty", "interfaces: [e]\nsecret_file:\nservices: [{name: a, ports: [1]}]\n", `f.yaml:2: secret_file: is empty; write the path`},
	{"interfaces missing", "secret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: is missing`},
	{"interfaces empty", "interfaces: []\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: is empty`},
	{"interfaces null", "interfaces:\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: is empty where a list is expected; write a list`},
	{"interfaces scalar", "interfaces: eth0\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: is a single value where a list is expected; write [eth0]`},
	{"interface twice", "interfaces:\n - a\n - b\n - a\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:4: interfaces: a is listed twice; remove one`},
	{"interface long", "interfaces: [abcdefghijklmnop]\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: "abcdefghijklmnop" cannot be the name`},
	{"interface slash", "interfaces: [a/b]\nsecret_file: s\nservices: [{name: a, ports: [1]}]\n", `f.yaml:1: interfaces: "a/b" cannot be the name`},

	{"services missing", "interfaces: [e]\nsecret_file: s\n", `f.yaml:1: services: is missing`},
	{"services empty", "interfaces: [e]\nsecret_file: s\nservices: []\n", `f.yaml:3: services: is empty`},
	{"services null", "interfaces: [e]\nsecret_file: s\nservices:\n", `f.yaml:3: services: is empty where a list is expected`},
	{"service is a word", "interfaces: [e]\nsecret_file: s\nservices: [web]\n", `f.yaml:3: services[0]: is a single value; write `},
	{"service is empty", "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports: [1]\n  - {}\n", `f.yaml:6: services[1]: is empty; give it a name and ports`},
	{"name missing", "interfaces: [e]\nsecret_file: s\nservices:\n  - ports: [1]\n", `f.yaml:4: services[0].name: is missing`},
	{"name bad", "interfaces: [e]\nsecret_file: s\nservices:\n  - ports: [1]\n    name: a b\n", `f.yaml:5: services[0].name: "a b" is not a name`},
	{"ports missing", "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n", `f.yaml:4: services[0].ports: is missing`},
	{"ports empty", "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports: []\n", `f.yaml:5: services[0].ports: is empty`},
	{"ports scalar", "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports: 80\n", `f.yaml:5: services[0].ports: is a single value where a list is expected; write [80]`},
	{"mode unknown", service("mode: on"), `f.yaml:7: services[0].mode: "on" is not known; use off, monitor, auto or always`},
	{"mss small", service("mss: 535"), `f.yaml:7: services[0].mss: 535 is out of range; use auto or 536 to 65495`},
	{"mss word", service("mss: big"), `f.yaml:7: services[0].mss: "big" is not a number; use auto or 536`},
	{"wscale", service("wscale: 15"), `f.yaml:7: services[0].wscale: 15 is out of range; use auto or 0 to 14`},
	{"window zero", service("window: 0"), `f.yaml:7: services[0].window: 0 is out of range; use auto or 1 to 65535`},
	{"window huge", service("window: 99999999999"), `f.yaml:7: services[0].window: 99999999999 is out of range`},

	{"prefixes empty", service("prefixes: []"), `f.yaml:7: services[0].prefixes: is empty; remove the field`},
	{"host bits", service("prefixes: [192.0.2.1/24]"), `f.yaml:7: services[0].prefixes: 192.0.2.1/24 has host bits set; write 192.0.2.0/24, or 192.0.2.1/32`},
	{"host bits v6", service("prefixes: [2001:db8::1/64]"), `host bits set; write 2001:db8::/64, or 2001:db8::1/128`},
	{"prefix too long", service("prefixes: [192.0.2.0/33]"), `"192.0.2.0/33" is not a prefix`},
	{"prefix zone", service("prefixes: [\"fe80::1%eth0\"]"), `"fe80::1%eth0" is not a prefix`},
	{"prefix name", service("prefixes: [localhost]"), `"localhost" is not a prefix`},
	{"prefix mapped", service("prefixes: [\"::ffff:192.0.2.0/120\"]"), `is an IPv4-mapped address; write it as IPv4`},
	{"prefix twice", service("prefixes: [192.0.2.0/24, 192.0.2.0/24]"), `192.0.2.0/24 is listed twice`},
}

func TestMistakes(t *testing.T) {
	for _, tc := range mistakes {
		t.Run(tc.name, func(t *testing.T) { wantOneMistake(t, tc.yaml, tc.want) })
	}
}

// wantOneMistake fails unless yaml has exactly one mistake, reported in one line that contains want.
func wantOneMistake(t *testing.T, yaml, want string) {
	t.Helper()
	c, err := Parse("f.yaml", []byte(yaml))
	if err == nil {
		t.Fatalf("accepted: %+v", c)
	}
	var list Errors
	if !errors.As(err, &list) || len(list) != 1 {
		t.Fatalf("want one mistake, got: %v", err)
	}
	if msg := err.Error(); !strings.Contains(msg, want) || strings.Contains(msg, "\n") || !strings.HasPrefix(msg, "f.yaml:") {
		t.Errorf("got  %s\nwant %s", msg, want)
	}
}

func TestPortMistakes(t *testing.T) {
	for _, tc := range []struct{ ports, want string }{
		{"70000", "f.yaml:5: services[0].ports: 70000 is out of range; use 1 to 65535"},
		{"0", "0 is out of range; use 1 to 65535"},
		{"80-70000", "70000 is out of range"},
		{"99999999999999999999999", "is not a port"},
		{"-1", `"-1" is not a port`},
		{"80-", `"80-" is not a port`},
		{"1-2-3", `"1-2-3" is not a port`},
		{"http", `"http" is not a port; write a number such as 443`},
		{"8.5", `"8.5" is not a port`},
		{"0x50", `"0x50" is not a port`},
		{"90-80", `90-80 runs backwards; write "80-90"`},
		{"80, 80", "80 and 80 overlap; name every port once"},
		{"80-90, 85", "80-90 and 85 overlap"},
		{"[80]", "is a list; write a port or a range"},
	} {
		wantOneMistake(t, "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports: ["+tc.ports+"]\n", tc.want)
	}
}

func TestLinesOfListItems(t *testing.T) {
	wantOneMistake(t, "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports:\n      - 80\n      - 70000\n",
		"f.yaml:7: services[0].ports: 70000")
	wantOneMistake(t, "interfaces: [e]\nsecret_file: s\nservices:\n  - name: a\n    ports: [1]\n    prefixes:\n      - 192.0.2.0/24\n      - 1.2.3.4/8\n",
		"f.yaml:8: services[0].prefixes: 1.2.3.4/8")
}

func TestAllMistakesAreTold(t *testing.T) {
	_, err := Parse("f.yaml", []byte("role: edge\ninterfaces: []\nsecret_file: s\nepoch: 9\nservices:\n  - name: a\n    ports: [0]\n"))
	var list Errors
	if !errors.As(err, &list) || len(list) != 4 {
		t.Fatalf("want 4 mistakes, got %v", err)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Line < list[i-1].Line {
			t.Errorf("not in the order of the file: %v", err)
		}
	}
	many := "interfaces: [e]\nsecret_file: s\nservices: [{name: a, ports: [" + strings.Repeat("0, ", 100) + "0]}]\n"
	if _, err := Parse("f.yaml", []byte(many)); len(strings.Split(err.Error(), "\n")) != maxErrors {
		t.Errorf("want at most %d lines", maxErrors)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(path, []byte(top("")), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.SecretFile != filepath.Join(dir, "s") {
		t.Errorf("secret_file = %s", c.SecretFile)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none.yaml")} {
		if _, err := Load(bad); err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Load(%s): %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for _, m := range mistakes {
		f.Add([]byte(m.yaml))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if (c == nil) == (err == nil) {
			t.Fatal("want either a configuration or an error")
		}
		if err == nil {
			return
		}
		var list Errors
		if !errors.As(err, &list) {
			t.Fatalf("not Errors: %v", err)
		}
		for _, line := range list.Lines() {
			if strings.ContainsAny(line, "\n\r") {
				t.Fatalf("more than one line: %q", line)
			}
		}
	})
}
