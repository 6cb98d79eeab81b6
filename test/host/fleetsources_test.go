// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/test/world/natsd"
)

// A source that begins 8 connections a second with each of three gates is above the fleet's limit of 15, at none of them: `fleet top` names it with the gates whose word it is, and so does an
// event of a gate. One that stays below it in the sum is not named, nor are SYNs that nobody completes.
func TestSourcesOfAFleet(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	natsd.Start(t, w.Server, filepath.Join(w.dir, "nats"))
	tg := func(args ...string) string {
		t.Helper()
		out, errs, err := w.tidegateRun(append([]string{"fleet", "--server", "nats://127.0.0.1:4222"}, args...)...)
		if err != nil {
			t.Fatalf("fleet %v: %v: %s%s", args, err, out, errs)
		}
		return out
	}
	w.await("the NATS server", func() bool {
		_, _, err := w.tidegateRun("fleet", "--server", "nats://127.0.0.1:4222", "init", "--replicas", "1")
		return err == nil
	})
	nodes := w.fleetOf(2, 2, 2)
	heavy, light := netip.MustParseAddr("198.18.77.1"), netip.MustParseAddr("198.18.77.2")
	at := []netip.Addr{w.ServerAddr(false)}
	for _, a := range []netip.Addr{heavy, light} { // one way back for the clients' two addresses at each gate
		w.ip(w.Client, "address add "+a.String()+"/32 dev lo")
	}
	w.ip(w.Server, "route add 198.18.77.0/24 dev tg-server")
	for i := 1; i < len(nodes); i++ {
		gate := fleetPeer(i).Prev()
		at = append(at, gate)
		w.ip(w.Client, fmt.Sprintf("route add %v/32 dev tg-client%d", gate, i))
		w.ip(w.Server, fmt.Sprintf("rule add from %v lookup %d", gate, 100+i))
		w.ip(w.Server, fmt.Sprintf("route add 198.18.77.0/24 dev tg-server%d table %d", i, 100+i))
	}
	path := filepath.Join(w.dir, "fleet.yaml")
	w.must(os.WriteFile(path, []byte("modes: {web: always}\nfleet_limits: {new_per_second: 15}\n"), 0o600))
	w.await("all nodes report", func() bool {
		out := tg("top")
		return strings.Contains(out, "3 nodes have reported")
	})
	if out := tg("apply", path); !strings.Contains(out, "in force at every node") {
		t.Fatal(out)
	}

	end, clients := make(chan struct{}), sync.WaitGroup{}
	connect := func(from netip.Addr, every time.Duration) {
		for _, to := range at {
			clients.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for {
					select {
					case <-end:
						return
					case <-tick.C:
					}
					err := w.Client.Do(func() error {
						d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
						d.SetMultipathTCP(false)
						c, err := d.Dial("tcp", netip.AddrPortFrom(to, webPort).String())
						if err == nil {
							err = c.Close()
						}
						return err
					})
					if err != nil {
						t.Errorf("%v to %v: %v", from, to, err)
						return
					}
				}
			})
		}
	}
	connect(heavy, time.Second/8)
	connect(light, time.Second)
	defer clients.Wait()
	defer close(end)
	stop := trickle(nodes, time.Second/50, 1) // of a source that proves nothing
	defer stop()

	var top fleet.Top
	w.await("`fleet top` names the source", func() bool {
		w.must(json.Unmarshal([]byte(tg("top", "--json")), &top))
		return len(top.Above) > 0 && len(top.Above[0].Nodes) == 3
	})
	src := top.Above[0]
	if len(top.Above) != 1 || src.Prefix.Addr() != heavy || src.AtLeast <= 15 || src.AtLeast > 26 || src.AtMost < src.AtLeast || len(top.Offenders) != 0 {
		t.Errorf("%+v", top)
	}
	w.await("an event names it", func() bool {
		for _, n := range nodes {
			named := false
			w.must(n.api.Lines(t.Context(), "/v1/events", func(line json.RawMessage) error {
				var e event.Event
				err := json.Unmarshal(line, &e)
				if e.Kind == event.OffenderProven {
					if !strings.Contains(e.Detail["sources"], heavy.String()) || strings.Contains(e.Detail["sources"], light.String()) || !strings.Contains(e.Detail["fleet"], n.name) ||
						!strings.Contains(e.Detail["fleet"], ", ") || e.Detail["fleet_limit_per_second"] != "15" {
						t.Errorf("%s: %+v", n.name, e)
					}
					named = true
				}
				return err
			}))
			if named {
				return true
			}
		}
		return false
	})
	w.must(os.WriteFile(path, []byte("modes: {web: always}\n"), 0o600))
	if out := tg("apply", path); !strings.Contains(out, "in force at every node") {
		t.Error(out)
	}
	w.await("nothing is counted any more", func() bool { // the next report
		out := tg("top")
		return !strings.Contains(out, heavy.String())
	})
}
