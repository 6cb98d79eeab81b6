// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/routers"
	harness "tidegate/test/world"
)

var (
	tidegate string // the binary under test, with tidegate-bgp beside it
	gobgpd   string
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &tidegate, buildSpeakers)) }

// buildSpeakers builds what `make build` puts beside tidegate, and the router of GoBGP.
func buildSpeakers() error {
	dir := filepath.Dir(tidegate)
	gobgpd = filepath.Join(dir, "gobgpd")
	for path, program := range map[string]string{filepath.Join(dir, "tidegate-bgp"): "tidegate/cmd/tidegate-bgp", gobgpd: "github.com/osrg/gobgp/v4/cmd/gobgpd"} {
		if err := harness.Build(path, program); err != nil {
			return err
		}
	}
	return nil
}

const (
	password = "pass-word"
	secured  = "ttl_security: yes, password_file: password"

	port   = 8080
	gateAS = 64512
	itsAS  = 64500
)

// Networks behind the router. Both hosts are legitimate until they open too many connections.
var (
	farGate  = netip.MustParsePrefix("198.51.100.1/24")
	offender = netip.MustParsePrefix("198.51.100.77/24")
	partner  = netip.MustParsePrefix("198.51.100.66/24") // in bgp.never
	service  = netip.MustParsePrefix("203.0.113.0/24")   // anycast, on the gate's loopback
)

var worlds atomic.Int32

// world is a gate, a router, and hosts behind the router:
//
//	far (tg-far) --- (tg-near) router (tg-client) --- (tg-server) gate
type world struct {
	*rig.Hosts
	t      *testing.T
	dir    string
	far    *rig.Namespace
	in     *harness.Instance
	toGate netip.AddrPort
}

func newWorld(t *testing.T) *world {
	t.Helper()
	harness.NeedRoot(t)
	t.Parallel()
	h, err := rig.NewHosts(fmt.Sprintf("r%d", worlds.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Hosts: h, t: t, dir: t.TempDir(), toGate: netip.AddrPortFrom(service.Addr().Next(), port)}
	harness.WriteSecret(t, w.dir)
	w.must(os.WriteFile(filepath.Join(w.dir, "password"), []byte(password+"\n"), 0o600))
	w.in = &harness.Instance{T: t, NS: h.Server, Binary: tidegate, Name: h.Instance, Config: filepath.Join(w.dir, "tidegate.yaml")}
	if w.far, err = h.AddNamespace("far"); err != nil {
		t.Fatal(err)
	}
	o, err := rig.Self()
	w.must(err)
	farPort, near, err := rig.NewVeth(o, w.far, "tg-far", h.Client, "tg-near")
	w.must(err)
	w.must(farPort.DisableTxChecksum())
	w.must(w.far.Do(func() error {
		for _, a := range []netip.Prefix{offender, partner} {
			if err := rig.AddAddr(farPort.Index, a); err != nil {
				return err
			}
		}
		return rig.AddRoute(farPort.Index, netip.MustParsePrefix("0.0.0.0/0"), farGate.Addr())
	}))
	w.must(h.Client.Do(func() error { return rig.AddAddr(near.Index, farGate) }))
	// Loose uRPF, as source RTBH wants it (RFC 5635): what comes from a discarded prefix is discarded, too.
	w.must(h.Client.SetSysctls([2]string{"net.ipv4.ip_forward", "1"}, [2]string{"net.ipv4.conf.all.rp_filter", "2"}))
	w.must(h.Server.Do(func() error {
		return rig.AddRoute(h.ServerPort.Index, netip.MustParsePrefix("0.0.0.0/0"), h.ClientAddr(false))
	}))
	w.mustRun(h.Server, "ip", "addr", "add", w.toGate.Addr().String()+"/32", "dev", "lo")
	w.must(farPort.AwaitUp())
	harness.Serve(t, h.Server, harness.Echo, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run runs a command in a namespace.
func (w *world) run(n *rig.Namespace, argv ...string) (string, error) {
	var out []byte
	err := n.Do(func() (err error) {
		out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput()
		return err
	})
	return string(out), err
}

func (w *world) mustRun(n *rig.Namespace, argv ...string) string {
	w.t.Helper()
	out, err := w.run(n, argv...)
	if err != nil {
		w.t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return out
}

// config is a gate's; extra goes into `bgp`, peer into its only peer.
func (w *world) config(extra, peer string) string {
	return fmt.Sprintf(`instance: %s
interfaces: [tg-server]
secret_file: secret
bgp: {as: %d, router_id: 198.18.3.1, hold_time: 6s, own: [203.0.113.0/24], never: [%s/32], source_rate: 20, next_hop_v4: 192.0.2.1, %s}
bgp_peers: [{address: 198.18.3.2, as: %d, local_address: 198.18.3.1, %s}]
services: [{name: web, ports: [%d], mode: always}]
`, w.Instance, gateAS, partner.Addr(), extra, itsAS, peer, port)
}

func (w *world) start(config string) *harness.Process {
	w.t.Helper()
	w.in.Write(config)
	p := w.in.Launch()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			out, errs, _ := w.in.Run("bgp", "--instance", w.Instance, "list", "--json")
			w.t.Logf("bgp list: %s%s", out, errs)
		}
	})
	p.AwaitReady()
	return p
}

// bgp is `tidegate bgp ...`, which must succeed.
func (w *world) bgp(args ...string) string {
	w.t.Helper()
	out, errs, err := w.in.Run(append([]string{"bgp", "--instance", w.Instance}, args...)...)
	if err != nil {
		w.t.Fatalf("bgp %v: %v: %s", args, err, errs)
	}
	return out
}

// state is what the instance says.
func (w *world) state() *routers.State {
	w.t.Helper()
	if r := w.in.Status().Routers; r != nil {
		return r
	}
	return &routers.State{}
}

func (w *world) until(what string, reached func() bool) {
	w.t.Helper()
	harness.Until(w.t, what, reached)
}

func (w *world) sessionUp() bool {
	s := w.state()
	return len(s.Sessions) == 1 && s.Sessions[0].Up
}

// announced says whether a route is announced, in the gate's own words.
func (w *world) announced(kind routers.Kind, prefix string) bool {
	for _, r := range w.state().Routes {
		if r.Kind == kind && r.Prefix.String() == prefix {
			return true
		}
	}
	return false
}

// connect opens a connection from an address behind the router.
func (w *world) connect(from netip.Prefix, timeout time.Duration) error {
	return w.far.Do(func() error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.Addr().AsSlice()}, Timeout: timeout}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", w.toGate.String())
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(timeout))
		return harness.Word(c)
	})
}

// offend opens connections from an address faster than bgp.source_rate until told to end.
func (w *world) offend(from netip.Prefix) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond) // five times bgp.source_rate, and little of the machine
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = w.connect(from, 500*time.Millisecond)
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// lines are those with all of these words.
func lines(text string, words ...string) (found []string) {
	for line := range strings.Lines(text) {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}
