// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
)

func fromFile(t *testing.T, text string) *Config {
	t.Helper()
	c, err := config.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return FromConfig(c)
}

const switchTop = "plane: p4\ninterfaces: [sw1, sw2]\ninside: [sw2]\nsecret_file: /s\n"

// A configuration with plane: p4 has the defaults of the other planes.
func TestFromConfigHasTheDefaultsOfOtherPlanes(t *testing.T) {
	e := fromFile(t, "role: edge\n"+switchTop+"services: [{name: web, ports: [80, \"8000-8002\"]}]\n")
	if e.Program != ProgramEdge || e.Hops != 16 || e.UnknownRate != 10000 || time.Duration(e.Window) != 15*time.Second || time.Duration(*e.Learn) != 15*time.Second ||
		time.Duration(e.KeyHorizon) != 64*8*time.Second || e.FilterAlarm != 0.2 || *e.MACLimit != 0 || e.Protocol != ProtocolPlain || e.Thrift != "127.0.0.1:9090" {
		t.Errorf("edge: %+v", e)
	}
	if s := e.Services[0]; len(s.Ports) != 4 || s.Ports[3] != 8002 || len(s.Prefixes) != 2 || s.MSSv4 != 1460 || *s.WScale != 7 || s.Window != 65535 || s.ID != 1 {
		t.Errorf("service: %+v", s)
	}
	p := fromFile(t, "role: proxy\n"+switchTop+"p4: {notifications: /n}\nservices: [{name: web, ports: [80]}]\n")
	if p.Program != ProgramCookie || time.Duration(p.Window) != 124*time.Minute || time.Duration(p.Crowded) != 5*time.Minute || *p.MACLimit != 1024 {
		t.Errorf("cookie: %+v", p)
	}
	a := fromFile(t, "role: proxy\nswap_period: 1m\n"+switchTop+"p4: {whitelist: bloom}\nservices: [{name: web, ports: [80], strategy: auth-full, mss: 1300, wscale: 2, window: 1000}]\n")
	if a.Program != ProgramAuthFull || time.Duration(a.Window) != time.Minute || a.Crowded != 0 || a.Whitelist != "bloom" {
		t.Errorf("auth-full: %+v", a)
	}
	if s := a.Services[0]; s.MSSv4 != 1300 || s.MSSv6 != 1300 || *s.WScale != 2 || s.Window != 1000 {
		t.Errorf("service: %+v", s)
	}
	g := fromFile(t, "role: edge\nprotocol: tagged\nedge_id: 3\nunknown_rate: all\nhops: 0\nfilter_alarm: 5%\n"+switchTop+
		"p4: {mtu: 9000, macs: [\"02:00:00:00:00:01 on sw1\"], port_macs: [\"sw2 from 02:00:00:00:00:02 to 02:00:00:00:00:03\"]}\nservices: [{name: web, ports: [80]}]\n")
	if g.Protocol != ProtocolTagged || g.EdgeID != 3 || g.MTU != 9000 || g.UnknownRate != UnknownAll || g.Hops != 0 || g.FilterAlarm != 0.05 ||
		g.MACs["02:00:00:00:00:01"] != "sw1" || g.PortMACs["sw2"].Dst != "02:00:00:00:00:03" || g.Services[0].MSSv4 != 1440 {
		t.Errorf("tagged: %+v", g)
	}
}

// Entries may be idle for long only while there is room.
func TestIdleEntriesGiveWayInACrowdedTable(t *testing.T) {
	e := &entries{most: 100, idle: time.Hour, crowded: time.Minute}
	ended := &entry{idle: time.Second}
	for _, c := range []struct {
		of   *entry
		held int
		want time.Duration
	}{{&entry{idle: time.Hour}, 24, time.Hour}, {&entry{idle: time.Hour}, 25, time.Minute}, {ended, 24, time.Second}, {ended, 90, time.Second}} {
		if got := e.idleFor(c.of, c.held); got != c.want {
			t.Errorf("of %v with %d held: %v, want %v", c.of.idle, c.held, got, c.want)
		}
	}
}

func TestFormerNamesAreTold(t *testing.T) {
	message := FormerNames([]byte("program: edge\nthrift: a\nwindow: 9s\nhops: 4\n" + goodConfig))
	for _, want := range []string{"program: role: edge", "thrift: p4.thrift", "window: filter_window", "former default, unknown_rate: 0", "former default, key_horizon: 5m"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not said: %s", want, message)
		}
	}
	if strings.Contains(message, "hops: 0") || strings.Contains(message, "mac_age") {
		t.Errorf("too much is said: %s", message)
	}
}
