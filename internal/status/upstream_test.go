// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// What a manager says is read back with whether its process lives, and is gone with it.
func TestUpstreamState(t *testing.T) {
	dir := t.TempDir()
	c := &config.Config{Role: config.RoleFilterManager, Instance: "filters"}
	read := func() *instance.Upstream {
		t.Helper()
		s, err := ReadUpstream(instance.Options{StateDir: dir}, "filters")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := read(); s != nil {
		t.Fatalf("nobody runs, and yet %+v", s)
	}
	unlock, err := instance.Lock(dir, c.Instance)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	wait := instance.KeepUpstream(ctx, dir, c, false, slog.Default(), func(s *instance.Upstream) {
		s.API, s.Figures["bindings"] = "/api", 3
		s.Counters = map[string]uint64{"messages_sent": 7}
	})
	s := read()
	if s == nil || !s.Running || s.Starting || s.Role != config.RoleFilterManager || s.API != "/api" || s.Figures["bindings"] != 3 || s.Counters["messages_sent"] != 7 || s.PID == 0 {
		t.Errorf("%+v", s)
	}
	unlock() // as if it had been killed: the file stays
	if s := read(); s == nil || s.Running {
		t.Errorf("after its death: %+v", s)
	}
	cancel()
	wait()
	if s := read(); s != nil {
		t.Errorf("after its end: %+v", s)
	}
	before, err := json.Marshal(instance.Upstream{Role: config.RoleFilterManager, Run: "of a process that was killed"})
	if err == nil {
		err = os.WriteFile(instance.StatePath(dir, "filters"), before, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s := read(); s == nil || s.Running || s.Starting {
		t.Errorf("what a killed manager has left: %+v", s)
	}
	if unlock, err = instance.Lock(dir, c.Instance); err != nil {
		t.Fatal(err)
	}
	if s := read(); s == nil || !s.Running || !s.Starting {
		t.Errorf("while the next one starts: %+v", s)
	}
	unlock()
	host := instance.StateFile{Role: config.RoleHost}
	if err := host.Write(instance.StatePath(dir, "filters")); err != nil {
		t.Fatal(err)
	}
	if s := read(); s != nil {
		t.Errorf("another role's: %+v", s)
	}
}
