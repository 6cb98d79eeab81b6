// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/cli"
	"tidegate/internal/config"
)

// unpack returns the files of a report.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[path.Base(h.Name)] = string(text)
	}
}

// A report can be made for each role and plane, whether an instance runs or not, and has nothing secret of what its configuration names.
func TestReportOfEachRole(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)<!-- example: ([a-z0-9 -]+) -->\n```yaml [^\n]*\n(.*?)```\n<!-- end").FindAllStringSubmatch(string(text), -1) {
		t.Run(m[1], func(t *testing.T) {
			dir := t.TempDir()
			example := strings.NewReplacer("/etc/tidegate/", dir+"/", "instance: default", "instance: report-of-nobody", "eth0", "none0", "eth1", "none1",
				"https://example.org/hook", "https://canary-user:canary-password@example.org/hook?token=canary-token",
				"[/usr/local/bin/tell, on-call]", `[/usr/local/bin/tell, "canary]argument"]`).Replace(m[2])
			for _, file := range regexp.MustCompile(regexp.QuoteMeta(dir)+`/[a-z0-9.-]+`).FindAllString(example, -1) {
				if err := os.WriteFile(file, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file, out := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "report.tar.gz")
			if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			roles[c.Role] = true
			if code, _, stderr := run(newRootCmd(), "report", "-c", file, "-o", out); code != cli.ExitOK {
				t.Fatalf("code %d, %q", code, stderr)
			}
			parts := unpack(t, out)
			for _, name := range []string{"version.txt", "kernel.txt", "status.json", "events.jsonl", "interfaces.txt", "log.txt", "configuration.yaml", "check.json"} {
				if parts[name] == "" {
					t.Errorf("no %s", name)
				}
			}
			for name, part := range parts {
				for _, secret := range []string{strings.Repeat("5a", 32), "canary"} {
					if i := strings.Index(strings.ToLower(part), secret); i >= 0 {
						t.Errorf("%s has %q", name, part[max(0, i-40):min(len(part), i+60)])
					}
				}
			}
			if !strings.Contains(parts["configuration.yaml"], "role: ") || !strings.Contains(parts["check.json"], `"checks"`) || !strings.Contains(parts["status.json"], "report-of-nobody") {
				t.Errorf("%.300q\n%.300q\n%.300q", parts["configuration.yaml"], parts["check.json"], parts["status.json"])
			}
		})
	}
	for _, role := range append(config.Roles(), config.RolePatrol, config.RoleBorderManager, config.RoleFilterManager) {
		if !roles[role] {
			t.Errorf("no report of role %s was made, only of %v", role, roles)
		}
	}
}
