// SPDX-License-Identifier: Apache-2.0

package bugreport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestRedact(t *testing.T) {
	r := &Redactor{Host: "web7"}
	got := r.Text(`prefixes: [198.51.100.0/24, "2001:db8::/64", 0.0.0.0/0, "::/0"] at 12:34:56 on web7
  webhook: https://user:token@example.org/hook?key=1
  command: [/usr/local/bin/page, secret-word]
key 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff from 198.51.100.0:443 and [2001:db8::]:80, 10.1.2.3, fe80::1, 127.0.0.1, mac 02:11:22:33:44:55
`)
	want := `prefixes: [ip4-1/24, "ip6-2/64", 0.0.0.0/0, "::/0"] at 12:34:56 on this-host
  webhook: https://LEFT-OUT
  command: LEFT-OUT
key KEY-LEFT-OUT from ip4-1:443 and [ip6-2]:80, ip4-private-3, ip6-link-local-4, 127.0.0.1, mac 02:11:22:xx:xx:xx
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := (&Redactor{Addresses: true}).Text("198.51.100.1 02:11:22:33:44:55"); got != "198.51.100.1 02:11:22:33:44:55" {
		t.Errorf("with addresses: %s", got)
	}
}

// Nothing of a webhook's address or of a hook's command but its program gets through, however YAML, JSON or the log write it.
func TestRedactHooks(t *testing.T) {
	for name, text := range map[string]string{
		"flow":          `events: {webhook: "https://u:token-1@a.example/token-2", command: [/bin/tell, "token]3", 'token-4']}, role: host`,
		"block":         "events:\n  command:\n    - /bin/tell\n    - token-1\n    - \"token-2\"\nrole: host\n",
		"block, outer":  "events:\n  command:\n  - /bin/tell\n  - token-1\n  journal: no\n",
		"lines":         "  command: [/bin/tell,\n    token-1,\n    token-2]\n  journal: no",
		"JSON":          `{"command":["/bin/tell","token-1"],"kept":1}`,
		"JSON, lines":   "{\n \"command\": [\n  \"/bin/tell\",\n  \"token-1\"\n ],\n \"kept\": 1\n}",
		"anchor":        "  command: &hook [/bin/tell, token-1]\n",
		"key in quotes": `"command" : ['/bin/tell', 'token-1']`,
		"log":           `level=WARN msg="events cannot be delivered; retrying" taker="command /bin/tell token-1 token-2" error="exit status 1"`,
		"event":         `{"kind":"degraded","text":"command /bin/tell token-1 failed"}`,
		"other scheme":  `servers: ["tls://user:token-1@192.0.2.1:4222", nats://token-2@gate]`,
	} {
		if got := (&Redactor{}).Text(text); strings.Contains(got, "token") || strings.Contains(text, "kept") && !strings.Contains(got, `"kept"`) ||
			strings.Contains(text, "role: host") && !strings.Contains(got, "role: host") || strings.Contains(text, "journal") && !strings.Contains(got, "journal: no") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	failed, err := Write(&b, "report", time.Unix(1, 0), []Part{
		{"good.txt", func() (string, error) { return "at 198.51.100.1\n", nil }},
		{"bad.txt", func() (string, error) { return "half", errors.New("no such instance") }},
		{"long.log", func() (string, error) { return strings.Repeat("x", maxPart+5) + "end", nil }},
	}, &Redactor{})
	if err != nil || len(failed) != 1 || failed[0] != "bad.txt" {
		t.Fatalf("failed %q, %v", failed, err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(text)
	}
	if all["report/good.txt"] != "at ip4-1\n" || all["report/bad.txt"] != "half\nfailed: no such instance\n" {
		t.Errorf("%q, %q", all["report/good.txt"], all["report/bad.txt"])
	}
	if l := all["report/long.log"]; len(l) > maxPart+100 || !strings.HasSuffix(l, "end") || !strings.Contains(l, "left out") {
		t.Errorf("%d bytes of the long one", len(l))
	}
}
