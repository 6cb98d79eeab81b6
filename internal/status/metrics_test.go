// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

func text(t *testing.T, r Reading) string {
	t.Helper()
	body, err := newScrape(func() (Reading, error) { return r, nil }, processCollectors()...).text()
	if err != nil {
		t.Fatal(err)
	}
	for _, collides := range []string{`instance="`, `job="`} { // Prometheus sets these itself
		if strings.Contains(string(body), collides) {
			t.Errorf("a label collides with a scrape's own: %s", collides)
		}
	}
	return string(body)
}

func TestMetricsOfServices(t *testing.T) {
	out := text(t, &Status{Role: "proxy", Instance: "a", Running: true, KeysUntil: time.Unix(1700000000, 0), Forwarding: "bridge",
		Global: map[string]uint64{"drop_malformed": 3},
		Services: []Service{{Name: "web", Mode: "always", Strategy: "cookie", Counters: map[string]uint64{"syn": 12, "cookie_sent": 11}},
			{Name: "mail", Counters: map[string]uint64{}}}})
	for _, want := range []string{
		`tidegate_instance_info{forwarding="bridge",name="a",plane="xdp",role="proxy"} 1`,
		`tidegate_keys_expiry_timestamp_seconds 1.7e+09`,
		"# TYPE tidegate_syn_total counter\ntidegate_syn_total{service=\"\"} 0\ntidegate_syn_total{service=\"mail\"} 0\ntidegate_syn_total{service=\"web\"} 12\n",
		`tidegate_drop_malformed_total{service=""} 3`,
		`tidegate_service_info{mode="always",service="web",strategy="cookie"} 1`,
		"process_start_time_seconds ", "go_goroutines ", `tidegate_build_info{`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestMetricsOfManagers(t *testing.T) {
	u := upstreamReading{Role: config.RoleBorderManager, Instance: "b", At: time.Unix(1700000000, 0),
		Figures:  map[string]uint64{"bindings": 3, "requests_pending": 1},
		Counters: map[string]uint64{"nonce_sent": 7}, Patrols: []instance.UpstreamPeer{{Name: "p1", Up: true}, {Name: "p2"}}}
	out := text(t, &u)
	for _, want := range []string{
		`tidegate_instance_info{forwarding="",name="b",plane="",role="border-manager"} 1`,
		"tidegate_border_manager_bindings 3", "tidegate_border_manager_nonces_sent_total 7",
		`tidegate_border_manager_patrol_up{patrol="p1"} 1`, `tidegate_border_manager_patrol_up{patrol="p2"} 0`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	f := upstreamReading{Role: config.RoleFilterManager, Figures: map[string]uint64{"filters_asked": 2, "filters_installed": 5}, Counters: map[string]uint64{"messages_sent": 9}}
	if out := text(t, &f); !strings.Contains(out, `tidegate_filter_manager_filters{state="installed"} 5`) || !strings.Contains(out, "tidegate_filter_manager_messages_sent_total 9") {
		t.Error(out)
	}
}
