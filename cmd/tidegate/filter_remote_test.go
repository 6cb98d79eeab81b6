// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
	"tidegate/internal/upstreamtest"
)

// The commands of a detector on another machine: keygen, key, add, list, rm.
func TestFilterCommandsOfARemoteDetector(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	n, err := upstreamtest.New(upstreamtest.Options{Prefixes: [][]netip.Prefix{{netip.MustParsePrefix("10.1.0.0/16")}}, Own: own, Capacity: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	m := filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: own, Expires: time.Minute, Log: n.Log})
	file := filepath.Join(t.TempDir(), "ids.key")
	command := func(args ...string) (string, string) {
		t.Helper()
		_, stdout, stderr := run(newRootCmd(), args...)
		return stdout, stderr
	}
	command("keygen", file)
	text, stderr := command("filter", "key", file)
	key, err := upstream.ParseKey(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err, stderr)
	}
	m.SetDetectors([]filterman.Detector{{Name: "ids", Key: key, Filters: 10}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	id := upstreamtest.NewIdentity()
	s, err := filterman.ServeDetectors(m, id, l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := upstream.FormatKey(id.Public()) + "@" + l.Addr().String()
	for _, c := range []struct{ line, want string }{
		{"add 10.1.0.7 198.51.100.1 --witness ts --floor 64", "installed 10.1.0.7/32 -> 198.51.100.1/32"},
		{"list", "10.1.0.7/32"},
		{"list --json", `"detector": "tls:ids"`},
		{"rm 10.1.0.7 198.51.100.1", "removed 10.1.0.7/32"},
	} {
		stdout, stderr := command(append([]string{"filter"}, strings.Fields(c.line+" --api "+at+" --identity "+file)...)...)
		if !strings.Contains(stdout, c.want) {
			t.Errorf("%s: %s%s, want %q", c.line, stdout, stderr, c.want)
		}
	}
	if n.Tables[0].Len() != 0 || len(m.List()) != 0 {
		t.Error("the filter is still there")
	}
	if _, stderr := command("filter", "list", "--api", at); !strings.Contains(stderr, "needs --identity FILE") {
		t.Errorf("without a key: %s", stderr)
	}
	if _, stderr := command("filter", "list", "--api", filepath.Join(t.TempDir(), "none.sock")); !strings.Contains(stderr, "no filter manager answers at") {
		t.Errorf("a socket that is not there: %s", stderr)
	}
}
