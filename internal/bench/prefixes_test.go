// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/bpfcount"
	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/schema"
)

// A service at networks, as nearly all are at a box: what has been found out for its server is asked first, so that no packet of a flood but
// the first looks in the hash of prefixes.
func TestInstructionsOfPrefixes(t *testing.T) {
	needRoot(t)
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	counted := func(what string, load func() (*ebpf.CollectionSpec, error), name string, maps map[string]*ebpf.Map, frame []byte, port, most, mostCalls int) {
		res := spent(t, load, name, maps, frame, port)
		within(t, what, res, most)
		calls(t, what, res, mostCalls)
		if n := res.Calls["look-up in tg_prefixes"]; n != 0 {
			t.Errorf("%s: %d look-ups in the hash of prefixes", what, n)
		}
		if res.First <= res.Instructions {
			t.Errorf("%s: the first packet takes %d instructions, the next %d", what, res.First, res.Instructions)
		}
	}
	_, err := runProxyParts(context.Background(), opt, []part{{what: "instructions", run: func(b *proxyBench) error {
		port := b.box.FloodPort
		for _, of := range []struct {
			strategy  config.Strategy
			most      int
			mostCalls int
		}{{config.StrategyCookie, 754, 0}, {config.StrategyAuthFull, 566, 1}} {
			p, err := b.newProxy(of.strategy, 1<<12)
			if err != nil {
				return err
			}
			defer p.Close()
			prog, _ := p.Programs()
			counted("proxy, "+string(of.strategy), proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, bpfcount.MapsOf(t, prog),
				synFrame("v4-ts", port.MAC), port.Index, of.most, of.mostCalls)
		}
		e, err := b.edgeBench().newEdge([2]uint32{})
		if err != nil {
			return err
		}
		defer e.Close()
		prog, _ := e.Programs()
		for kind, most := range map[string]int{"v4-ts": 762, "v6-ts": 938} {
			counted("edge, "+kind, edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, bpfcount.MapsOf(t, prog), synFrame(kind, port.MAC),
				port.Index, most, 1)
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// What has been found out does not outlast the tables that it came from: a packet behind a change is counted for the service that is there
// now, or for none.
func TestServicesOfDestinationsChange(t *testing.T) {
	needRoot(t)
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	_, err := runProxyParts(context.Background(), opt, []part{{what: "services", run: func(b *proxyBench) error {
		e, err := b.edgeBench().newEdge([2]uint32{})
		if err != nil {
			return err
		}
		defer e.Close()
		xdp, _ := e.Programs()
		nets := servers(b.box, false)
		settings := benchSettings()
		answered := func(step string, want uint32, targets ...plane.Target) {
			t.Helper()
			if targets != nil {
				if err := e.SetServices(targets, &settings); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the second is found where the first was kept
				for _, kind := range []string{"v4-ts", "v6-ts"} {
					before := countedSYNs(t, e)
					_, got, err := b.verdict(xdp, synFrame(kind, b.box.FloodPort.MAC), b.box.FloodPort.Index)
					if err != nil {
						t.Fatal(err)
					}
					after := countedSYNs(t, e)
					for id := range after {
						if more := after[id] - before[id]; (more == 1) != (id != 0 && uint32(id) == want) {
							t.Errorf("%s: %s counted %d times for service %d, want service %d; action %d", step, kind, more, id, want, got)
						}
					}
				}
			}
		}
		at := func(id uint32, prefixes ...netip.Prefix) plane.Target {
			target := benchServices(0)[0]
			target.ID, target.Prefixes = id, prefixes
			return target
		}
		hosts := []netip.Prefix{netip.PrefixFrom(b.box.ServiceAddr(false, 80).Addr(), 32), netip.PrefixFrom(b.box.ServiceAddr(true, 80).Addr(), 128)}
		answered("as it was loaded", 1)
		answered("another service there", 2, at(2, nets...))
		answered("one at the address itself", 3, at(2, nets...), at(3, hosts...))
		answered("an exception", 0, at(2, nets...), at(0, hosts...))
		answered("the network again", 2, at(2, nets...))
		answered("elsewhere", 0, at(2, netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")))
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// countedSYNs are the SYNs of services 1 to 3; of 0, what belongs to none is not counted.
func countedSYNs(t *testing.T, e *plane.Edge) (n [4]uint64) {
	t.Helper()
	for id := uint32(1); id < 4; id++ {
		row, err := plane.ReadCounters(e.Map("tg_counters"), id)
		if err != nil {
			t.Fatal(err)
		}
		n[id] = row[schema.CounterSyn]
	}
	return n
}
