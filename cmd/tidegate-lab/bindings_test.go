// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"tidegate/internal/cli"
)

func TestLabBindings(t *testing.T) {
	args := []string{"bindings", "--managers", "12", "--bindings", "300", "--degree", "4", "--hostile", "0,0.1"}
	code, out, stderr := run(newRootCmd(), append(args, "--json")...)
	var list []struct {
		Hostile int
		Cold    struct{ Reached, Of int } `json:"cold_start"`
		Updates []struct {
			Reached, Of int
			MaxMs       float64 `json:"max_ms"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != cli.ExitOK {
		t.Fatalf("code %d, %v\n%s%s", code, err, out, stderr)
	}
	if len(list) != 2 || list[0].Hostile != 0 || list[1].Hostile != 1 || list[1].Cold.Of != 11 || list[1].Cold.Reached != 11 {
		t.Errorf("%+v", list)
	}
	if u := list[0].Updates[0]; u.Reached != 12 || u.MaxMs < 50 || u.MaxMs > 1000 {
		t.Errorf("an update over links of 50 ms: %+v", u)
	}
	if code, out, _ = run(newRootCmd(), append(args[:len(args)-1], "0")...); code != cli.ExitOK || !strings.Contains(out, "cold start: managers complete") {
		t.Errorf("table: code %d\n%s", code, out)
	}
	for _, bad := range [][]string{{"--managers", "1"}, {"--hostile", "2"}, {"--degree", "500"}} {
		if code, _, stderr := run(newRootCmd(), append([]string{"bindings"}, bad...)...); code != cli.ExitUsage {
			t.Errorf("%v: code %d, %s", bad, code, stderr)
		}
	}
}
