// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/cli"
)

// bindingKit is a directory with keys of an anchor, an ISP and a manager, and the anchors' file.
type bindingKit struct {
	t      *testing.T
	dir    string
	public map[string]string
}

func newBindingKit(t *testing.T) *bindingKit {
	k := &bindingKit{t: t, dir: t.TempDir(), public: map[string]string{}}
	for _, name := range []string{"rir", "isp", "bm"} {
		k.public[name] = strings.TrimSpace(k.ok("binding", "keygen", k.path(name+".key")))
	}
	text := fmt.Sprintf("anchors:\n  - name: rir\n    key: %s\n    prefixes: [192.0.2.0/24, \"2001:db8::/32\"]\n", k.public["rir"])
	if err := os.WriteFile(k.path("anchors.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *bindingKit) path(name string) string { return filepath.Join(k.dir, name) }

// ok runs a command line that must succeed and returns its stdout.
func (k *bindingKit) ok(args ...string) string {
	k.t.Helper()
	code, stdout, stderr := run(newRootCmd(), args...)
	if code != cli.ExitOK {
		k.t.Fatalf("%v: code %d: %s%s", args, code, stdout, stderr)
	}
	return stdout
}

func (k *bindingKit) sign(by, to, out string, more ...string) []string {
	return append([]string{"binding", "sign", "--key", k.path(by + ".key"), "--subject", k.public[to], "--out", k.path(out)}, more...)
}

func TestBindingSignVerifyShow(t *testing.T) {
	k := newBindingKit(t)
	k.ok(k.sign("rir", "isp", "isp.cbor", "--role", "authority", "--prefix", "192.0.2.0/24,2001:db8::/32")...)
	k.ok(k.sign("isp", "bm", "bm.cbor", "--role", "border-manager", "--prefix", "192.0.2.0/25", "--endpoint", "ifp=192.0.2.1:4141", "--serial", "3")...)
	verify := []string{"binding", "verify", "--anchors", k.path("anchors.yaml"), k.path("bm.cbor"), k.path("isp.cbor")} // any order
	if out := k.ok(verify...); strings.Count(out, "  ok  ") != 2 {
		t.Errorf("verify:\n%s", out)
	}
	if got := strings.TrimSpace(k.ok("binding", "public", k.path("bm.key"))); got != k.public["bm"] {
		t.Errorf("public: %s", got)
	}
	var shown []struct {
		Role, Key, Issuer   string
		Serial              int
		Prefixes, Endpoints []string
		SignatureOK         bool `json:"signature_ok"`
	}
	if err := json.Unmarshal([]byte(k.ok("binding", "show", "--json", k.path("bm.cbor"))), &shown); err != nil {
		t.Fatal(err)
	}
	if s := shown[0]; s.Role != "border-manager" || s.Key != k.public["bm"] || s.Issuer != k.public["isp"] || s.Serial != 3 ||
		!s.SignatureOK || s.Prefixes[0] != "192.0.2.0/25" || s.Endpoints[0] != "ifp=192.0.2.1:4141" {
		t.Errorf("show: %+v", s)
	}
	if out := k.ok("binding", "show", k.path("bm.cbor")); !strings.Contains(out, "by its issuer") || !strings.Contains(out, "192.0.2.0/25") {
		t.Errorf("show:\n%s", out)
	}

	// Revoked: the older record is refused, and says why.
	k.ok(k.sign("isp", "bm", "end.cbor", "--role", "border-manager", "--revoke", "--serial", "4")...)
	code, out, _ := run(newRootCmd(), append(verify, "--json", k.path("end.cbor"))...)
	var verdicts []struct{ File, Code string }
	if err := json.Unmarshal([]byte(out), &verdicts); err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitError || verdicts[0].Code != "stale" || verdicts[1].Code != "ok" || verdicts[2].Code != "ok" {
		t.Errorf("after revocation: code %d, %+v", code, verdicts)
	}
}

func TestBindingVerifyRefuses(t *testing.T) {
	k := newBindingKit(t)
	k.ok(k.sign("rir", "isp", "wide.cbor", "--role", "authority", "--prefix", "192.0.0.0/16")...)
	k.ok(k.sign("isp", "bm", "orphan.cbor", "--role", "border-manager", "--prefix", "192.0.2.0/25", "--endpoint", "ifp=192.0.2.1:4141")...)
	if err := os.WriteFile(k.path("junk.cbor"), []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"wide.cbor": "wider-than-authority", "orphan.cbor": "no-authority", "junk.cbor": "malformed"} {
		code, out, stderr := run(newRootCmd(), "binding", "verify", "--anchors", k.path("anchors.yaml"), k.path(file))
		if code != cli.ExitError || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 || stderr != "" {
			t.Errorf("%s: code %d, %q, %q; want %s", file, code, out, stderr, want)
		}
	}
	k.ok(k.sign("rir", "isp", "isp.cbor", "--role", "authority", "--prefix", "192.0.2.0/24")...)
	code, out, _ := run(newRootCmd(), "binding", "verify", "--anchors", k.path("anchors.yaml"), "--at", "2100-01-01T00:00:00Z", k.path("isp.cbor"))
	if code != cli.ExitError || !strings.Contains(out, "expired") {
		t.Errorf("in 2100: code %d, %s", code, out)
	}
}

func TestBindingErrors(t *testing.T) {
	k := newBindingKit(t)
	if err := os.Chmod(k.path("rir.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.path("there.cbor"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	manager := []string{"--role", "border-manager", "--prefix", "192.0.2.0/24", "--endpoint", "ifp=192.0.2.1:1"}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"key file open":  {k.sign("rir", "isp", "a.cbor", "--role", "authority", "--prefix", "192.0.2.0/24"), cli.ExitError, "chmod 600"},
		"file exists":    {k.sign("isp", "bm", "there.cbor", manager...), cli.ExitError, "not overwritten"},
		"no key file":    {k.sign("none", "bm", "a.cbor", manager...), cli.ExitError, "tidegate binding keygen"},
		"no role":        {k.sign("isp", "bm", "a.cbor"), cli.ExitUsage, "role"},
		"bad role":       {k.sign("isp", "bm", "a.cbor", "--role", "king"), cli.ExitUsage, "want border-manager"},
		"bad prefix":     {k.sign("isp", "bm", "a.cbor", "--role", "authority", "--prefix", "192.0.2.1/24"), cli.ExitUsage, "host bits"},
		"bad endpoint":   {k.sign("isp", "bm", "a.cbor", "--role", "border-manager", "--endpoint", "x"), cli.ExitUsage, "ifp=ADDRESS:PORT"},
		"no endpoint":    {k.sign("isp", "bm", "a.cbor", "--role", "border-manager", "--prefix", "192.0.2.0/24"), cli.ExitUsage, "endpoint"},
		"no prefix":      {k.sign("isp", "bm", "a.cbor", "--role", "authority"), cli.ExitUsage, "prefix"},
		"oneself":        {k.sign("isp", "isp", "a.cbor", manager...), cli.ExitUsage, "cannot bind itself"},
		"too long":       {k.sign("isp", "bm", "a.cbor", append(manager, "--valid", "10000h")...), cli.ExitUsage, "at most 398"},
		"too early":      {k.sign("isp", "bm", "a.cbor", append(manager, "--not-before", "2100-01-01T00:00:00Z")...), cli.ExitUsage, "at most 7 days"},
		"short revoke":   {k.sign("isp", "bm", "a.cbor", "--role", "key", "--revoke", "--valid", "24h"), cli.ExitUsage, "405"},
		"stdout twice":   {[]string{"binding", "sign", "--key", "x", "--subject", k.public["bm"], "--role", "authority", "--out", "-", "--json"}, cli.ExitUsage, "both want stdout"},
		"keygen twice":   {[]string{"binding", "keygen", k.path("isp.key")}, cli.ExitError, "not overwritten"},
		"no anchors":     {[]string{"binding", "verify", "--anchors", k.path("none"), k.path("there.cbor")}, cli.ExitError, "anchor"},
		"no record file": {[]string{"binding", "show", k.path("none")}, cli.ExitError, "tidegate binding sign"},
		"no time":        {[]string{"binding", "verify", "--anchors", k.path("anchors.yaml"), "--at", "noon", k.path("there.cbor")}, cli.ExitUsage, "--at"},
	} {
		code, _, stderr := run(newRootCmd(), tc.args...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, %q; want %d and %q", name, code, stderr, tc.code, tc.want)
		}
		if _, err := os.Stat(k.path("a.cbor")); err == nil {
			t.Errorf("%s: wrote a record all the same", name)
		}
	}
}
