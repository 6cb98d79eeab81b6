// SPDX-License-Identifier: Apache-2.0

package switchgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/status"
)

const file = `role: edge
plane: p4
instance: sw
interfaces: [sw1, sw2]
inside: [sw2]
secret_file: secret
hops: 9
p4: {thrift: "%"}
services: [{name: web, ports: [80]}]
`

// refusing is an address of the loopback that refuses connections until the test ends: it is bound, so that nobody else gets it,
// and nobody listens there.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)
}

// A controller whose switch is not there yet is an instance like any other: it has a state file, waits, and
// reloads: what can change does, what cannot is named and refused, and nothing of that reload is applied.
func TestWaitingForTheSwitch(t *testing.T) {
	nobody := refusing(t)
	dir := t.TempDir()
	write := func(name, text string) { // whole at once: the controller may be reading
		whole := filepath.Join(dir, "."+name)
		if err := errors.Join(os.WriteFile(whole, []byte(strings.ReplaceAll(text, "%", nobody)), 0o600), os.Rename(whole, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	write("c.yaml", file)
	write("secret", strings.Repeat("5a", 32)+"\n")
	type ended struct {
		cfg *config.Config
		err error
	}
	reload, reloaded := make(chan os.Signal), make(chan ended, 1)
	opt := instance.Options{ConfigPath: filepath.Join(dir, "c.yaml"), StateDir: dir, Log: slog.New(slog.DiscardHandler), Reload: reload,
		OnReload: func(cfg *config.Config, err error) { reloaded <- ended{cfg, err} }}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, context.Background(), opt) }()
	ask := func(text string) (r ended) {
		t.Helper()
		write("c.yaml", text)
		for signals := reload; ; {
			select {
			case signals <- syscall.SIGHUP:
				signals = nil
			case r = <-reloaded:
				return r
			case err := <-done:
				t.Fatalf("the controller has ended: %v", err)
			}
		}
	}
	if r := ask(strings.Replace(file, "hops: 9", "hops: 4", 1)); r.err != nil || r.cfg.Edge.Hops != 4 {
		t.Errorf("hops: %v", r.err)
	}
	for field, change := range map[string][2]string{
		"epoch": {"hops: 9", "epoch: 4s"}, "protocol": {"hops: 9", "protocol: tagged\nedge_id: 1"}, "instance": {"instance: sw", "instance: ws"},
		"p4.thrift": {`"%"`, `"127.0.0.1:1"`}, "p4.notifications": {"p4: {", "p4: {notifications: /n, "},
		"metrics": {"hops: 9", "metrics: 127.0.0.1:9464"}, "plane": {"plane: p4\n", ""},
	} {
		text := strings.Replace(file, change[0], change[1], 1)
		if field == "plane" {
			text = strings.ReplaceAll(text, "p4: {thrift: \"%\"}\n", "")
		}
		if r := ask(text); r.err == nil || !strings.HasPrefix(r.err.Error(), field) || r.cfg.Edge.Hops != 4 {
			t.Errorf("%s: %v", field, r.err)
		}
	}
	st, err := status.Read(opt, "sw")
	if err != nil || !st.Running || st.Role != config.RoleEdge || st.P4 == nil || st.P4.Answers || st.P4.Why == "" {
		t.Errorf("status: %+v %v", st, err)
	}
	cancel(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st, err = status.Read(opt, "sw"); err != nil || st.Running {
		t.Errorf("stopped without ErrOff, the instance is gone: %+v %v", st, err)
	}
	if _, err := Off(t.Context(), opt, "sw", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("off says that the switch forwards everything, and nothing answers there")
	}
	if done, err := Off(t.Context(), opt, "other", slog.New(slog.DiscardHandler)); err != nil || done {
		t.Errorf("off of nothing: %v %v", done, err)
	}
}
