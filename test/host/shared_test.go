// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/api"
	"tidegate/internal/detect"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
	"tidegate/test/world/natsd"
)

// fleetNode is one of several gates of one machine, each at a port of its own.
type fleetNode struct {
	w    *world
	name string
	in   *harness.Instance
	api  *api.Client
	peer netip.Addr
	syns *harness.SYNs
	sent int
}

// fleetOf starts gates in mode auto that share attacks, one for each quorum.
func (w *world) fleetOf(quorums ...int) (nodes []*fleetNode) {
	w.t.Helper()
	o, err := rig.Self()
	w.must(err)
	for i, quorum := range quorums {
		outside, inside := w.ClientPort, w.ServerPort
		if i > 0 {
			outside, inside, err = rig.NewVeth(o, w.Client, fmt.Sprintf("tg-client%d", i), w.Server, fmt.Sprintf("tg-server%d", i))
			w.must(err)
			w.must(w.Server.Do(func() error { // a host answers whom it knows the way to
				return errors.Join(rig.AddAddr(inside.Index, netip.PrefixFrom(fleetPeer(i).Prev(), 24)), netlink.NeighSet(&netlink.Neigh{LinkIndex: inside.Index, State: netlink.NUD_PERMANENT,
					Family: unix.AF_INET, IP: fleetPeer(i).AsSlice(), HardwareAddr: outside.MAC}))
			}))
		}
		in := *w.in
		in.Name, in.Config = fmt.Sprintf("%s%c", w.Instance, 'a'+i), filepath.Join(w.dir, fmt.Sprintf("gate%d.yaml", i))
		n := &fleetNode{w: w, name: fmt.Sprintf("gate%d", i), in: &in, peer: fleetPeer(i), api: api.NewClient("/run/tidegate", in.Name), syns: harness.NewSYNs(w.t, outside, inside)}
		in.Write(fmt.Sprintf("instance: %s\ninterfaces: [%s]\nsecret_file: secret\nfleet: {servers: ['nats://127.0.0.1:4222'], node: %s, share: on, quorum: %d}\nservices: [{name: web, ports: [%d], mode: auto}]\n",
			in.Name, inside.Name, n.name, quorum, webPort))
		in.Start("--detector-calm", "1s")
		nodes = append(nodes, n)
	}
	return nodes
}

func (n *fleetNode) detector() instance.DetectorState {
	n.w.t.Helper()
	var list []instance.DetectorState
	if err := n.api.Do(n.w.t.Context(), http.MethodGet, "/v1/detector", nil, &list); err != nil || len(list) != 1 || list[0].Fleet == nil {
		n.w.t.Fatalf("%s: %v: %+v", n.name, err, list)
	}
	return list[0]
}

// fleetPeer is whom the node of that number has SYNs from.
func fleetPeer(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(3 + i), 2}) }

func (n *fleetNode) send(count int) {
	for range count {
		n.syns.Send(netip.AddrPortFrom(n.peer, uint16(1024+n.sent%60000)), netip.AddrPortFrom(n.w.ServerAddr(false), webPort), nil)
		n.sent++
	}
}

// trickle sends a SYN to each of the nodes at each tick until stop is called. It never catches up: a process that was not scheduled would send a flood.
func trickle(nodes []*fleetNode, every time.Duration, count int) (stop func()) {
	end, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, n := range nodes {
				n.send(count)
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { close(end); done.Wait() }) }
	nodes[0].w.t.Cleanup(stop)
	return stop
}

// answered is how many SYNs a node has answered.
func (n *fleetNode) answered() uint64 { return n.in.Counters()["cookie_sent"] }

func (n *fleetNode) events() (list []event.Event) {
	n.w.t.Helper()
	err := n.api.Lines(n.w.t.Context(), "/v1/events", func(line json.RawMessage) error {
		var e event.Event
		err := json.Unmarshal(line, &e)
		if e.Kind == event.AttackBegan || e.Kind == event.AttackEnded {
			list = append(list, e)
		}
		return err
	})
	n.w.must(err)
	return list
}

// Gates of a fleet see in the sum what none of them sees alone, and name whose word it is; it ends with the carpet. A gate that lies switches nobody on that wants the word of two, and
// one that wants the word of one; a node that is cut off decides by what it sees.
func TestSharedAttacks(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	servers := natsd.Start(t, w.Server, filepath.Join(w.dir, "nats"))
	w.await("the NATS server", func() bool {
		_, _, err := w.tidegateRun("fleet", "--server", "nats://127.0.0.1:4222", "init", "--replicas", "1")
		return err == nil
	})
	nodes := w.fleetOf(2, 2, 1)
	all := func(what string, is func(n *fleetNode, d *instance.DetectorState) bool) {
		t.Helper()
		w.await(what, func() bool {
			return !slices.ContainsFunc(nodes, func(n *fleetNode) bool { d := n.detector(); return !is(n, &d) })
		})
	}

	// A carpet: 15 SYNs a second at each, of which 17.5 are needed alone.
	stop := trickle(nodes, time.Second/15, 1)
	all("the carpet is seen in the sum", func(_ *fleetNode, d *instance.DetectorState) bool { return d.On })
	for _, n := range nodes {
		d := n.detector()
		if d.Detector.On || !d.Fleet.On || len(d.Fleet.Attacked) != 0 {
			t.Errorf("%s: the test shows nothing, a gate has seen it alone: %+v", n.name, d)
		}
		if d.Attack == nil || len(d.Attack.Fleet) != 2 || slices.Contains(d.Attack.Fleet, n.name) {
			t.Errorf("%s: by whose word: %+v", n.name, d.Attack)
		}
		before := n.answered()
		w.await("SYNs are answered", func() bool { return n.answered() > before })
		if e := n.events(); len(e) != 1 || e[0].Detail["fleet"] == "" {
			t.Errorf("%s: events: %+v", n.name, e)
		}
	}
	stop()
	all("the end of the carpet", func(_ *fleetNode, d *instance.DetectorState) bool { return !d.On && !d.Fleet.On })

	// A lie, as the bearer of a node's certificate could tell it. A few SYNs make the address one that the gates know.
	conn, err := nats.Connect("nats://127.0.0.1:4222", nats.SetCustomDialer(dialIn{w.Server}))
	w.must(err)
	defer conn.Close()
	victim := netip.PrefixFrom(w.ServerAddr(false), 32)
	claim := detect.Claim{Missing: 1e6}
	lie, err := json.Marshal(fleet.Claims{Version: 1, Every: 1, Services: []detect.ServiceClaim{{Service: "web", On: true, Claim: claim, Prefixes: []detect.PrefixClaim{{Prefix: victim, On: true, Claim: claim}}}}})
	w.must(err)
	tell := func() {
		if _, err := conn.Request("tidegate.attack.liar", lie, patience); err != nil {
			t.Fatal(err)
		}
	}
	stop = trickle(nodes, time.Second, 1)
	w.await("the lie is heard, and believed where the word of one suffices", func() bool {
		tell()
		return nodes[2].detector().On && !slices.ContainsFunc(nodes, func(n *fleetNode) bool {
			d := n.detector()
			return !d.Fleet.Prepared || !slices.Contains(d.Fleet.Gates, "liar")
		})
	})
	for range 10 {
		tell()
		for _, n := range nodes[:2] {
			if d := n.detector(); d.On || d.Fleet.On || !slices.Equal(d.Fleet.Attacked, []string{"liar"}) || d.Fleet.LeftOut != 1 || d.Fleet.Gates[0] != "liar" {
				t.Errorf("%s: one liar: %+v, %+v", n.name, d, d.Fleet)
			}
		}
	}
	if d := nodes[2].detector(); !d.On || d.Attack == nil || !slices.Contains(d.Attack.Fleet, "liar") || !slices.Equal(d.Attack.Prefixes, []netip.Prefix{victim}) && !d.All {
		t.Errorf("whose word it was: %+v, %+v", d, d.Attack)
	}
	stop()
	all("the lie expires", func(_ *fleetNode, d *instance.DetectorState) bool { return !d.On && !d.Fleet.Prepared })

	// Cut off: nobody is heard, and what is seen here is answered.
	w.must(servers.Process.Kill())
	_ = servers.Wait()
	all("what the others said expires", func(_ *fleetNode, d *instance.DetectorState) bool { return len(d.Fleet.Gates) == 0 })
	stop = trickle(nodes[:1], 10*time.Millisecond, 60)
	w.await("a flood at a gate that is cut off", func() bool { return nodes[0].detector().On })
	stop()
	if d := nodes[1].detector(); d.On {
		t.Errorf("%s has no flood: %+v", nodes[1].name, d)
	}
}

// dialIn dials from a namespace.
type dialIn struct{ ns *rig.Namespace }

func (d dialIn) Dial(network, address string) (c net.Conn, err error) {
	err = d.ns.Do(func() error {
		c, err = net.DialTimeout(network, address, patience)
		return err
	})
	return c, err
}
