// SPDX-License-Identifier: Apache-2.0

package firstconfig

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

func TestPorts(t *testing.T) {
	at := func(addr string, port uint16, mptcp bool) listeners.Listener {
		return listeners.Listener{Addr: netip.MustParseAddr(addr), Port: port, MPTCP: mptcp}
	}
	got := ports([]listeners.Listener{at("::", 443, false), at("127.0.0.1", 631, false), at("0.0.0.0", 80, false), at("::1", 25, false),
		at("192.0.2.1", 443, true), at("::", 80, false)})
	if !slices.Equal(got, []Port{{80, false}, {443, true}}) {
		t.Errorf("%+v", got)
	}
}

// Whatever was found, the file is a valid configuration, and one that answers nothing yet.
func TestTextIsAConfiguration(t *testing.T) {
	for _, m := range []*Machine{
		{Interfaces: []string{"eth0", "vlan%1"}, Ports: []Port{{80, false}, {4711, true}}, Syncookies: true},
		{Interfaces: []string{"eth0"}, Guessed: true},
		{},
	} {
		c, err := config.Parse("x", []byte(m.Text("/etc/tidegate/secret")))
		if err != nil {
			t.Fatalf("%v\n%s", err, m.Text("/s"))
		}
		for _, s := range c.Services {
			if s.Mode != config.ModeMonitor {
				t.Errorf("service %s is in mode %s", s.Name, s.Mode)
			}
		}
		if says := strings.Contains(m.Text("/s"), "tcp_syncookies=1"); says == m.Syncookies {
			t.Error("the sysctl is not told as it is")
		}
	}
}

func TestWriteOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "default.yaml")
	m := &Machine{Interfaces: []string{"lo"}}
	if err := Write(m, path); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(filepath.Join(dir, "new", "secret"))
	if err != nil || len(secret) < 64 {
		t.Fatal(err, len(secret))
	}
	if err := Write(m, path); err == nil || !strings.Contains(err.Error(), "already") {
		t.Error(err)
	}
	if err := Write(m, filepath.Join(dir, "new", "second.yaml")); err != nil {
		t.Error(err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "new", "secret")); err != nil || string(again) != string(secret) {
		t.Error("the secret was replaced", err)
	}
	if c, err := config.Load(path); err != nil || c.SecretFile != filepath.Join(dir, "new", "secret") {
		t.Error(err, c)
	}
}
