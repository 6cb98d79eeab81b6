// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/bpfcount"
	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/plane/serverbpf"
)

// Limits of sources that a verified ACK may have to be held against.
var sourceLimits = []struct {
	name string
	set  func(*plane.Settings)
}{
	{"none", func(*plane.Settings) {}},
	{"new_per_second", func(s *plane.Settings) { s.SourceLimited, s.LimitCostNs = 1, 1 }},
	{"both", func(s *plane.Settings) { s.SourceLimited, s.LimitCostNs, s.LimitHeld = 1, 1, 1<<31-1 }},
}

// setSourceLimits puts limits into the settings that are in force.
func setSourceLimits(p *plane.Plane, set func(*plane.Settings)) error {
	var s plane.Settings
	m := p.Map(plane.VarSettings)
	if err := m.Lookup(uint32(0), &s); err != nil {
		return err
	}
	s.SourceLimited, s.LimitCostNs, s.LimitHeld, s.LimitV4, s.LimitV6 = 0, 0, 0, 32, 64
	set(&s)
	return m.Put(uint32(0), s)
}

// What a verified ACK costs at the proxy with limits of its source, and without.
func TestInstructionsOfSourceLimit(t *testing.T) {
	needRoot(t)
	// The comparison alone is in the ceiling of TestInstructionsOfSegments.
	most := map[string]int{"new_per_second": 540, "both": 586}
	runSourceLimit(t, func(b *proxyBench, p *plane.Proxy, xdp *ebpf.Program) error {
		ack, err := b.answered(xdp, synFrame("v4", nil))
		if err != nil {
			return err
		}
		spec, err := proxybpf.LoadProxyXdp()
		if err != nil {
			return err
		}
		none := 0
		for _, l := range sourceLimits {
			if err := setSourceLimits(p.Plane, l.set); err != nil {
				return err
			}
			res, err := bpfcount.XDP(spec.Programs[proxybpf.ProxyXdpProgTgProxyXdp], bpfcount.MapsOf(t, xdp), ack, uint32(b.box.LegitPort.Index))
			if err != nil {
				return err
			}
			if res.Action != xdpRedirect {
				t.Fatalf("%s: the ACK opened nothing: action %d", l.name, res.Action)
			}
			if l.name == "none" {
				none = res.Instructions
			}
			more := res.Instructions - none
			t.Logf("%s: %d instructions, %d more than without a limit", l.name, res.Instructions, more)
			if ceiling := most[l.name]; more > ceiling || ceiling > 0 && more < 100 {
				t.Errorf("%s: %d instructions more, want 100 to %d; the costliest lines:\n%s", l.name, more, ceiling, res.Costliest(15))
			}
		}
		return nil
	})
}

// The same as times: each ACK opens a connection.
func BenchmarkSourceLimit(b *testing.B) {
	const rounds, acks = 11, 200
	runSourceLimit(b, func(bench *proxyBench, p *plane.Proxy, xdp *ebpf.Program) error {
		syn, took := synFrame("v4", nil), map[string][]float64{}
		ctx := make([]byte, 24) // struct xdp_md
		binary.LittleEndian.PutUint32(ctx[12:], uint32(bench.box.LegitPort.Index))
		for round := range rounds {
			for i := range sourceLimits {
				l := sourceLimits[(i+round)%len(sourceLimits)]
				if err := setSourceLimits(p.Plane, l.set); err != nil {
					return err
				}
				var each []float64
				for n := range acks {
					binary.BigEndian.PutUint16(syn[34:], uint16(1024+n))
					copy(syn[26:], []byte{10, byte(round), byte(i), byte(n)})
					putSums(syn)
					ack, err := bench.answered(xdp, syn)
					if err != nil {
						return err
					}
					binary.LittleEndian.PutUint32(ctx[4:], uint32(len(ack)))
					err = bench.box.Proxy.Do(func() error {
						ns, err := testRun(xdp, ack, ctx, 1)
						each = append(each, float64(ns))
						return err
					})
					if err != nil {
						return err
					}
				}
				slices.Sort(each)
				took[l.name] = append(took[l.name], each[len(each)/2])
			}
		}
		for _, l := range sourceLimits {
			ratio := spread(ratios(took[l.name], took["none"]))
			b.Logf("%s: %.0f ns a verified ACK, %.2f times that without (%.2f to %.2f)", l.name, spread(took[l.name]).Median, ratio.Median, ratio.Min, ratio.Max)
		}
		return nil
	})
}

// runSourceLimit runs with a bridge that opens connections under strategy cookie.
func runSourceLimit(t testing.TB, run func(*proxyBench, *plane.Proxy, *ebpf.Program) error) {
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	if _, err := runProxyParts(context.Background(), opt, []part{{what: "source limits", run: func(b *proxyBench) error {
		p, err := b.newBridge(config.StrategyCookie, 1<<16)
		if err != nil {
			return err
		}
		defer p.Close()
		xdp, _ := p.Programs()
		return run(b, p, xdp)
	}}}); err != nil {
		t.Fatal(err)
	}
}

// The same at a server that translates: an edge's tag or, as here, a cookie has proven the source.
func TestInstructionsOfSourceLimitOfServer(t *testing.T) {
	needRoot(t)
	most := map[string]int{"new_per_second": 360, "both": 385}
	p, err := plane.LoadServer(plane.ServerOptions{Options: plane.Options{KeySlots: 1024}, Flows: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s := plane.Settings{EpochLenNs: uint64(8 * time.Second), WallMinusMonoNs: plane.WallMinusMonoNs(time.Now())}
	secret := keys.Secret{1, 2, 3}
	for _, n := range keys.Epochs(time.Now(), 8*time.Second, time.Hour) {
		if err := p.PutKey(n, secret.EpochKey(n)); err != nil {
			t.Fatal(err)
		}
	}
	own := plane.ServerSettings{Generic: 1, IdleTicks: 1000}
	for i := range own.Keys {
		own.Keys[i] = uint64(2*i + 3)
	}
	err = errors.Join(p.SetServer(own), p.SetServices([]plane.Target{{ID: 1, Ports: [][2]uint16{{80, 80}},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		Service:  plane.Service{MssV4: 1460, MssV6: 1440, Window: 64240, Wscale: 7, Sack: 1, Timestamps: 1, Mode: plane.ModeAlways}}}, &s), p.SetSettings(&s))
	if err != nil {
		t.Fatal(err)
	}
	var ack []byte // with the cookie of another gate that has the secret
	runSourceLimit(t, func(b *proxyBench, _ *plane.Proxy, gate *ebpf.Program) (err error) {
		ack, err = b.answered(gate, synFrame("v4", nil))
		return err
	})
	spec, err := serverbpf.LoadServerXdp()
	if err != nil {
		t.Fatal(err)
	}
	maps := map[string]*ebpf.Map{} // the kernel knows their names only in part
	for name := range spec.Maps {
		name = strings.TrimPrefix(name, ".data.")
		maps[name] = p.Map(name)
	}
	none := 0
	for _, l := range sourceLimits {
		if err := setSourceLimits(p.Plane, l.set); err != nil {
			t.Fatal(err)
		}
		res, err := bpfcount.XDP(spec.Programs[serverbpf.ServerXdpProgTgServerXdp], maps, ack, 1)
		if err != nil {
			t.Fatal(err)
		}
		if res.Action != 2 { // XDP_PASS: to the TC program, which makes the SYN
			t.Fatalf("%s: the ACK opened nothing: action %d", l.name, res.Action)
		}
		if l.name == "none" {
			none = res.Instructions
		}
		more := res.Instructions - none
		t.Logf("%s: %d instructions, %d more than without a limit", l.name, res.Instructions, more)
		if ceiling := most[l.name]; more > ceiling || ceiling > 0 && more < 100 {
			t.Errorf("%s: %d instructions more, want 100 to %d; the costliest lines:\n%s", l.name, more, ceiling, res.Costliest(15))
		}
	}
}
