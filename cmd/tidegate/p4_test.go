// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// untilPrinted ends a command once it has written a text.
type untilPrinted struct {
	mu   sync.Mutex
	b    bytes.Buffer
	text string
	end  func()
}

func (u *untilPrinted) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.b.Write(p)
	if strings.Contains(u.b.String(), u.text) {
		u.end()
	}
	return len(p), nil
}

// The former format of switches is read by `p4 run`, which says how it is written now; a file with plane: p4 needs no
// such words, and `run` refuses the former format with directions.
func TestFormerFormatOfSwitches(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", strings.Repeat("5a", 32)+"\n")
	top := fmt.Sprintf("instance: tg-p4-%d\nsecret_file: secret\ninside: [sw2]\nservices: [{name: web, ports: [80]}]\n", os.Getpid())
	former := write("former.yaml", "program: edge\nthrift: 127.0.0.1:1\nwindow: 9s\n"+top)
	present := write("present.yaml", "role: edge\nplane: p4\ninterfaces: [sw1, sw2]\np4: {thrift: \"127.0.0.1:1\"}\n"+top)
	for path, warned := range map[string]bool{former: true, present: false} {
		ctx, cancel := context.WithCancel(t.Context())
		output := &untilPrinted{text: "waiting for the switch", end: cancel}
		root := newRootCmd()
		root.SetArgs([]string{"p4", "run", "-c", path})
		root.SetErr(output)
		root.SetOut(output)
		if err := root.ExecuteContext(ctx); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		text := output.b.String()
		if has := strings.Contains(text, "former format") && strings.Contains(text, "window: filter_window"); has != warned {
			t.Errorf("%s: it said\n%s", path, text)
		}
	}
	_ = os.Remove(fmt.Sprintf("/run/tidegate/tg-p4-%d.json", os.Getpid())) // `run` leaves a switch protecting
	if code, _, output := run(newRootCmd(), "run", "-c", former); code == 0 || !strings.Contains(output, "tidegate p4 run -c FILE") || !strings.Contains(output, "plane: p4") {
		t.Errorf("run of the former format: %d %s", code, output)
	}
}
