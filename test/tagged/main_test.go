// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	harness "tidegate/test/world"
)

// patience bounds every wait for a state that must come, and every connection: what takes a
// second on a quiet machine takes ten on a busy one.
const patience = 40 * time.Second

const (
	port    = 80
	service = 1
	epoch   = 8 * time.Second
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		if _, err := rig.Clean(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after killed tests:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// What all end-to-end tests have.
var (
	families   = harness.Families
	familyName = harness.FamilyName
)

var worlds atomic.Int32

// world is a client, an edge and a server whose programs are loaded.
type world struct {
	*rig.Wire
	t      *testing.T
	edge   *edge
	plane  *plane.Server
	secret keys.Secret
	server plane.ServerSettings
}

// options of a world.
type options struct {
	flows      int
	floor      uint32 // connections that a source may hold without being evicted
	mode       plane.XDPMode
	unverified uint8
	idleTicks  uint16
	edge       func(*edge)
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	harness.NeedRoot(t)
	harness.Beside(t)
	wire, err := rig.NewWire(fmt.Sprintf("s%d", worlds.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := wire.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Wire: wire, t: t}
	for i := range w.secret {
		w.secret[i] = 0x5a
	}
	w.edge = &edge{secret: w.secret, epoch: epoch, id: 7, wscale: 5, maxMSS: 1420}
	if o.edge != nil {
		o.edge(w.edge)
	}
	if o.flows == 0 {
		o.flows = 1000
	}
	if o.mode == "" {
		o.mode = plane.XDPNative
	}
	if o.idleTicks == 0 {
		o.idleTicks = 1000
	}
	if err := w.Server.Do(func() error { return w.load(o) }); err != nil {
		t.Fatal(err)
	}
	if err := w.edge.run(wire); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.edge.close)
	return w
}

// load attaches the server's programs, in its namespace.
func (w *world) load(o options) (err error) {
	w.plane, err = plane.LoadServer(plane.ServerOptions{Options: plane.Options{Instance: w.Instance, KeySlots: 32},
		BPFFS: "/sys/fs/bpf", Flows: o.flows})
	if err != nil {
		return err
	}
	w.t.Cleanup(w.plane.Close)
	cookie, err := instance.NetnsCookie()
	if err != nil {
		return err
	}
	if err := w.fill(o, cookie); err != nil {
		return err
	}
	_, err = w.plane.Attach(plane.AttachOptions{BPFFS: "/sys/fs/bpf", Instance: w.Instance,
		Interfaces: []string{w.ServerPort.Name}, XDPMode: o.mode})
	if err == nil {
		err = w.plane.Commit()
	}
	w.t.Cleanup(func() {
		if err := w.plane.Detach(); err != nil {
			w.t.Error(err)
		}
	})
	return err
}

// fill writes keys, settings and the one service.
func (w *world) fill(o options, cookie uint64) error {
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return err
	}
	settings := plane.Settings{EpochLenNs: uint64(epoch), NetnsCookie: cookie,
		WallMinusMonoNs: uint64(time.Now().UnixNano() - mono.Nano())}
	for _, n := range keys.Epochs(time.Now(), epoch, 10*epoch) {
		if err := errors.Join(w.plane.PutKey(n, w.secret.EpochKey(n)), w.plane.PutTagKeys(n, w.secret.TagKey(n), w.secret.ConfirmKey(n))); err != nil {
			return err
		}
	}
	w.server = plane.ServerSettings{IdleTicks: o.idleTicks, SourceFloor: o.floor, ConfirmPortBe: htons(plane.ConfirmPort), Unverified: o.unverified}
	if o.mode == plane.XDPGeneric {
		w.server.Generic = 1
	}
	raw := make([]byte, 8*len(w.server.Keys))
	_, _ = rand.Read(raw)
	for i := range w.server.Keys {
		w.server.Keys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	target := plane.Target{ID: service, Ports: [][2]uint16{{port, port}},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
		Service: plane.Service{MssV4: 1440, MssV6: 1420, Window: 65535, Wscale: w.edge.wscale, Sack: 1, Timestamps: 1,
			Mode: plane.ModeAlways, ListenerV4: plane.ListenerMPTCP, ListenerV6: plane.ListenerMPTCP}}
	return errors.Join(w.plane.SetServer(w.server), w.plane.SetEdge(int(w.edge.id), edgeAddr4, edgeAddr6, 0, 0),
		w.plane.SetServices([]plane.Target{target}, &settings))
}

// counter returns a counter of the service.
func (w *world) counter(name string) uint64 {
	w.t.Helper()
	sum, err := plane.ReadCounters(w.plane.Map("tg_counters"), service)
	if err != nil {
		w.t.Fatal(err)
	}
	n, ok := schema.Map(sum)[name]
	if !ok {
		w.t.Fatalf("no counter %s", name)
	}
	return n
}

// counters returns the counters that are not zero.
func (w *world) counters() map[string]uint64 {
	sum, err := plane.ReadCounters(w.plane.Map("tg_counters"), service)
	if err != nil {
		w.t.Fatal(err)
	}
	all := schema.Map(sum)
	for name, n := range all {
		if n == 0 {
			delete(all, name)
		}
	}
	return all
}

// wantCounters compares some counters with the expected values.
func (w *world) wantCounters(want map[string]uint64) {
	w.t.Helper()
	for name, n := range want {
		if got := w.counter(name); got != n {
			w.t.Errorf("counter %s is %d, want %d; all: %v", name, got, n, w.counters())
		}
	}
}

// await polls for a state that must come.
func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	harness.Until(w.t, what, reached)
}

// serve listens in the server's namespace, as Go does by default: with MPTCP.
func (w *world) serve(handle func(*net.TCPConn)) {
	w.t.Helper()
	for _, ipv6 := range families() {
		harness.Server{MPTCP: true}.Serve(w.t, w.Server, netip.AddrPortFrom(w.ServerAddr(ipv6), port).String(), handle)
	}
}

// dial opens a connection from the client.
func (w *world) dial(ipv6 bool) (*net.TCPConn, error) {
	return harness.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(ipv6), port))
}

// echo sends back what it receives and closes after end of file.
func echo(c *net.TCPConn) { harness.Echo(c) }

// ping opens a connection, has a word echoed, half-closes, and reads end of file.
func (w *world) ping(ipv6 bool) error { return harness.Ping(w.dial(ipv6)) }

// promptly expects do to complete without a retransmission.
func (w *world) promptly(t *testing.T, what string, do func()) {
	t.Helper()
	harness.NoRetransmits(t, what, do, w.Client, w.Server)
}
