// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"
)

func TestWriteMetrics(t *testing.T) {
	var out strings.Builder
	err := WriteMetrics(&out, &Status{Role: "proxy", Instance: "a", Running: true, KeysUntil: time.Unix(1700000000, 0),
		Global:   map[string]uint64{"drop_malformed": 3},
		Services: []Service{{Name: "web", Counters: map[string]uint64{"syn": 12, "cookie_sent": 11}}, {Name: "mail"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tidegate_running{instance=\"a\",role=\"proxy\"} 1\n",
		"tidegate_keys_until_seconds{instance=\"a\",role=\"proxy\"} 1.7e+09\n",
		"# TYPE tidegate_syn_total counter\ntidegate_syn_total{instance=\"a\",role=\"proxy\",service=\"mail\"} 0\ntidegate_syn_total{instance=\"a\",role=\"proxy\",service=\"web\"} 12\n",
		"tidegate_drop_malformed_total{instance=\"a\",role=\"proxy\",service=\"\"} 3\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name, _, ok := strings.Cut(line, " ")
		if !ok || !strings.HasSuffix(line, "\n") || !strings.HasPrefix(line, "#") && seen[name] {
			t.Errorf("bad line %q", line)
		}
		seen[name] = !strings.HasPrefix(line, "#")
	}
}
