// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The calculator of docs/capacity.md, run by a browser, agrees with the formulas of its table.
func TestCapacityCalculator(t *testing.T) {
	chromium := os.Getenv("TIDEGATE_CHROMIUM")
	if chromium == "" {
		t.Skip("part of make test-web: it takes a browser")
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(string(text), "<form"), strings.Index(string(text), "</script>")
	if from < 0 || to < from {
		t.Fatal("the page has no calculator")
	}
	page := string(text)[from:to] + "</script>"
	for _, c := range []struct {
		role   string
		rate   float64 // million a second
		n      float64
		memory string
	}{
		{"adopt", 2, 100000, "none beside the kernel's own"},
		{"translate", 2, 100000, "6.1 MiB"},
		{"proxy", 10, 1 << 20, "121.0 MiB"},
		{"dpdk", 30, 1<<20 + 1, "1536.0 MiB"},
		{"edge", 2, 579600, "6.0 MiB (filter_bits: 22)"},
		{"edge", 2, 10, "0.0 MiB (filter_bits: 10)"},
	} {
		file := filepath.Join(t.TempDir(), "page.html")
		fields := fmt.Sprintf(`<script>form = document.getElementById("plan"); form.rate.value = %g; form.flows.value = %g; form.role.value = %q; form.dispatchEvent(new Event("input"))</script>`, c.rate, c.n, c.role)
		if err := os.WriteFile(file, []byte("<!doctype html><meta charset=utf-8>"+page+fields), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+file).Output()
		if err != nil {
			t.Fatal(err)
		}
		said := regexp.MustCompile(`plan-result">([^<]*)`).FindStringSubmatch(string(out))
		if said == nil {
			t.Fatalf("no result: %s", out)
		}
		cores := math.Ceil(c.rate * 1e6 * 300e-9 / 0.7)
		for _, want := range []string{fmt.Sprintf("receive: %g,", cores), "connections: " + c.memory, fmt.Sprintf("%.2f Gbit/s", c.rate*84*8/1000),
			fmt.Sprintf("at most %.2f ms", 1024*300e-6), fmt.Sprintf("more than %.2f ms", 1024/(c.rate*1e3/cores))} {
			if !strings.Contains(said[1], want) {
				t.Errorf("%s, %g million SYN/s, %g connections: no %q in %s", c.role, c.rate, c.n, want, said[1])
			}
		}
	}
	// The filter that it proposes: at most 1 % of forged packets pass, and half of it would not do.
	for bits, enough := range map[float64]bool{22: true, 21: false} {
		if share := math.Pow(1-math.Exp(-579600/math.Pow(2, bits)), 3); (share <= 0.01) != enough {
			t.Errorf("%g bits let %.2f %% pass", bits, 100*share)
		}
	}
}
