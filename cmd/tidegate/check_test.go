// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/cli"
	"tidegate/internal/keys"
	"tidegate/internal/probe"
)

func TestCheckBadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("interfaces: [lo]\nsecret_file: s\nservices:\n  - name: a\n    ports: [70000]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(newRootCmd(), "check", "-c", path)
	want := "tidegate: " + path + ":5: services[0].ports: 70000 is out of range; use 1 to 65535\n"
	if code != cli.ExitError || stdout != "" || stderr != want {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, _, stderr = run(newRootCmd(), "check", "-c", path+".none")
	if code != cli.ExitError || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, ".none") {
		t.Errorf("missing file: code %d, stderr %q", code, stderr)
	}
}

func TestCheckJSON(t *testing.T) {
	dir := t.TempDir()
	if err := keys.CreateSecret(filepath.Join(dir, "secret")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ok.yaml")
	text := "interfaces: [nowhere0]\nsecret_file: secret\nservices:\n  - name: a\n    ports: [9]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(newRootCmd(), "check", "-c", path, "--json")
	var got struct {
		Version string
		OK      bool
		Failed  int
		Checks  []probe.Check
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if code != cli.ExitError || got.OK || got.Failed == 0 || got.Version == "" || stderr != "" {
		t.Errorf("code %d, stderr %q, %+v", code, stderr, got)
	}
	status := map[string]probe.Status{}
	for _, c := range got.Checks {
		status[c.Name] = c.Status
	}
	if status["interface nowhere0"] != probe.Fail || status["secret file"] != probe.OK || status["service a"] != probe.Warn {
		t.Errorf("%v", status)
	}
}

func TestCheckTable(t *testing.T) {
	var b bytes.Buffer
	r := &probe.Report{OK: false, Failed: 1, Checks: []probe.Check{
		{Name: "one", Status: probe.OK, Found: "here"},
		{Name: "number two", Status: probe.Fail, Found: "gone", Means: "trouble", Fix: "fetch it"},
	}}
	if err := writeCheck(&b, r, false); !errors.Is(err, cli.ErrSilent) {
		t.Errorf("error %v", err)
	}
	want := "ok    one         here\n" +
		"FAIL  number two  gone\n" +
		"                    means: trouble\n" +
		"                    fix:  fetch it\n" +
		"2 checks, 1 failed, 0 warnings: this machine cannot run tidegate until each FAIL is fixed\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
