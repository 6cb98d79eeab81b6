// SPDX-License-Identifier: Apache-2.0

package upstreamtest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/ifp"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/role/borderman"
	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
)

// managed is a manager that runs from a configuration file, as `tidegate run` starts it.
type managed struct {
	t     *testing.T
	file  string
	asked chan os.Signal
	ended chan error
}

func runManager(t *testing.T, dir, name, text string, run func(ctx, _ context.Context, opt instance.Options) error) *managed {
	t.Helper()
	m := &managed{t: t, file: filepath.Join(dir, name+".yaml"), asked: make(chan os.Signal), ended: make(chan error, 1)}
	write(t, m.file, text)
	ready, left := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		left <- run(ctx, ctx, instance.Options{ConfigPath: m.file, StateDir: dir, Reload: m.asked, Ready: func() { close(ready) },
			OnReload: func(_ *config.Config, err error) { m.ended <- err }, Log: slog.New(slog.DiscardHandler)})
	}()
	select {
	case <-ready:
	case err := <-left:
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-left; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return m
}

// reload changes the file, asks for a reload, and returns its result.
func (m *managed) reload(text string) error {
	m.t.Helper()
	write(m.t, m.file, text)
	select {
	case m.asked <- syscall.SIGHUP:
	case <-time.After(10 * time.Second):
		m.t.Fatalf("%s: nobody takes the request to reload", filepath.Base(m.file))
	}
	return <-m.ended
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort is a UDP port of the loopback that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// monotonicS is the clock by which filters expire.
func monotonicS(t *testing.T) uint32 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil {
		t.Fatal(err)
	}
	return uint32(ts.Sec)
}

// Both managers reload while filters are in force: a new network with a new patrol, an exception, a protected
// address; what takes a restart is refused by name.
func TestManagersReload(t *testing.T) {
	dir := t.TempDir()
	n := &Net{Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(n.Close)
	for _, name := range []string{"identity", "secret"} {
		if err := keys.CreateSecret(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := upstream.LoadIdentity(filepath.Join(dir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	patrols := ""
	add := func(name, customers string) {
		p, err := n.patrol([]netip.Prefix{netip.MustParsePrefix(customers)}, id, 1000)
		if err != nil {
			t.Fatal(err)
		}
		patrols += fmt.Sprintf("  - {name: %s, address: %q, key: %s, prefixes: [%s]}\n", name, p.Addr, upstream.FormatKey(p.Key), customers)
	}
	add("west", "10.1.0.0/16")
	at, bindings := freePort(t), filepath.Join(dir, "bindings")
	bound := "filter 198.51.100.0/24 127.0.0.1\nborder 10.1.0.0/16 " + at + "\n"
	write(t, bindings, bound)
	borderText := func(more string) string {
		return fmt.Sprintf("role: border-manager\ninstance: bm\nlisten: %q\nidentity_file: %s/identity\nsecret_file: %s/secret\nbindings: %s\npatrols:\n%s%s", at, dir, dir, bindings, patrols, more)
	}
	own, api, detector := freePort(t), freePort(t), NewIdentity()
	detectors := fmt.Sprintf("  - {name: ids, key: %s}\n", upstream.FormatKey(detector.Public()))
	filterText := func(listen, more string) string {
		return fmt.Sprintf("role: filter-manager\ninstance: fm\nlisten: %q\nbindings: %s\nown: [198.51.100.0/24]\nproof: no\nidentity_file: %s/identity\napi_listen: %q\ndetectors:\n%s%s",
			listen, bindings, dir, api, detectors, more)
	}
	border := runManager(t, dir, "border", borderText(""), borderman.Run)
	filter := runManager(t, dir, "filter", filterText(own, ""), filterman.Run)
	client := filterman.NewClient(filterman.DefaultAPI(dir, "fm"))
	ask := func(src string) filterman.Verdict {
		t.Helper()
		v, err := client.Add(t.Context(), []filterman.Request{{Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix("198.51.100.1/32"), Witness: filterman.Handshake}})
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	refused := func(src, why string) {
		t.Helper()
		if v := ask(src); v.State != filterman.Refused || !strings.Contains(v.Error, why) {
			t.Errorf("%s: %+v, want a refusal that says %q", src, v, why)
		}
	}
	until := func(what string, reached func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	installed := func(src string) bool { return ask(src).State == filterman.Installed }
	until("the first filter is not installed", func() bool { return installed("10.1.0.7/32") })
	remote, err := filterman.NewRemoteClient(upstream.FormatKey(id.Public())+"@"+api, detector)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := remote.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a detector on another machine sees %v, %v; want none, it has requested none", list, err)
	}
	refused("10.2.0.7/32", "no border manager is known")

	add("east", "10.2.0.0/16")
	write(t, bindings, bound+"border 10.2.0.0/16 "+at+"\n")
	for _, err := range []error{border.reload(borderText("")), filter.reload(filterText(own, ""))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !installed("10.1.0.8/32") { // at once: the connection to the patrol that stays is kept
		t.Error("a reload disturbed the patrol that did not change")
	}
	until("no filter of the new network is installed", func() bool { return installed("10.2.0.7/32") })
	if west, east := n.Tables[0].Len(), n.Tables[1].Len(); west != 2 || east != 1 {
		t.Errorf("the patrols have %d and %d filters, want 2 and 1", west, east)
	}

	detectors = fmt.Sprintf("  - {name: ids, key: %s}\n", upstream.FormatKey(NewIdentity().Public()))
	if err := filter.reload(filterText(own, "never: [10.1.0.0/24]\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.List(t.Context()); err == nil {
		t.Error("a detector with a revoked key is answered")
	}
	until("filters that the configuration no longer allows are still there", func() bool { return n.Tables[0].Len() == 0 })
	refused("10.1.0.7/32", "never")

	if err := filter.reload(filterText(own, "never: [10.1.0.0/24]\nfloor: 100\n")); err != nil {
		t.Fatal(err)
	}
	for _, r := range []filterman.Request{{Src: netip.MustParsePrefix("10.2.0.7/32")}, {Src: netip.MustParsePrefix("10.2.0.8/32"), Floor: 8}} {
		r.Dst, r.Witness = netip.MustParsePrefix("198.51.100.1/32"), filterman.Handshake
		if v, err := client.Add(t.Context(), []filterman.Request{r}); err != nil || v[0].State != filterman.Installed {
			t.Fatal(v, err)
		}
	}
	floors := map[string]uint8{}
	n.Tables[1].Each(monotonicS(t), func(f ifp.Filter, _ ifp.Stat) bool { floors[f.Src.String()] = f.FloorLog2; return true })
	if want := map[string]uint8{"10.2.0.7/32": 7, "10.2.0.8/32": 4}; !maps.Equal(floors, want) {
		t.Errorf("floors at the patrol, as powers of two plus one: %v, want %v", floors, want)
	}

	if err := border.reload(borderText("protect: [10.2.0.9/32]\n")); err != nil {
		t.Fatal(err)
	}
	refused("10.2.0.9/32", "PROTECTED")

	if err := filter.reload(filterText("127.0.0.1:1", "")); err == nil || !strings.Contains(err.Error(), "listen changed") {
		t.Errorf("a reload that takes a restart: %v", err)
	}
	if err := border.reload(borderText("codepoint: 45\n")); err == nil || !strings.Contains(err.Error(), "codepoint changed") {
		t.Errorf("a reload that takes a restart: %v", err)
	}
	refused("10.1.0.7/32", "never")
	refused("10.2.0.9/32", "PROTECTED")
	write(t, bindings, "nonsense\n")
	if err := border.reload(borderText("")); err == nil {
		t.Error("bindings that cannot be read are accepted")
	}
	refused("10.2.0.9/32", "PROTECTED")
}
