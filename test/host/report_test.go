// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The report of a running instance has its state and events, and neither its secret nor the addresses of its clients.
func TestReport(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	secret, err := os.ReadFile(filepath.Join(w.dir, "secret"))
	w.must(err)
	hidden := []string{strings.TrimSpace(string(secret)), w.ClientAddr(false).String(), w.ServerAddr(false).String()}
	conf := w.webConfig(webPort, "# by hand: "+strings.Join(hidden, " "))
	w.start(conf)
	path := filepath.Join(w.dir, "reported.yaml")
	w.must(os.WriteFile(path, []byte(conf), 0o600))
	w.must(w.pingNew(false, webPort))
	file := filepath.Join(w.dir, "report.tar.gz")
	if out, errs, err := w.tidegateRun("report", "-c", path, "-o", file); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	text, err := exec.Command("tar", "xzOf", file).Output()
	w.must(err)
	for _, leak := range hidden {
		if strings.Contains(string(text), leak) {
			t.Errorf("%q is in the report", leak)
		}
	}
	for _, part := range []string{`"cookie_valid": 1`, `"kind":"started"`, `"checks"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in the report:\n%.3000s", part, text)
		}
	}
}
