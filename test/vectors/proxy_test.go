// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

// XDP verdicts, and the port that BPF_PROG_TEST_RUN says frames come by.
const (
	xdpDrop, xdpPass, xdpTX, xdpRedirect = 1, 2, 3, 4
	loopback                             = uint32(1)
)

// proxyGate is the proxy's XDP program, run by BPF_PROG_TEST_RUN in a network
// namespace of its own.
type proxyGate struct {
	p   *plane.Proxy
	xdp *ebpf.Program
	own plane.ProxySettings
}

func newProxyGate(t *testing.T, bridge bool) *proxyGate {
	t.Helper()
	needRoot(t)
	enterNamespace(t)
	p, err := plane.LoadProxy(plane.ProxyOptions{Options: plane.Options{KeySlots: vectors.KeyRingSlots, Services: plane.MaxServices},
		Flows: 1024, Sources: 1024, Halves: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	g := &proxyGate{p: p, own: plane.ProxySettings{WhiteV4Mask: math.MaxUint32, WhiteV6Mask: math.MaxUint64, Flows: 1}}
	if bridge {
		g.own.Bridge = [2]uint32{loopback, loopback}
	}
	g.xdp, _ = p.Programs()
	mac := uint64(0x010000000002) // 02:00:00:00:00:01, the gate of vectors/packets.py
	for name, value := range map[string]any{"tg_macs": mac, "tg_devices": loopback} {
		if err := p.Map(name).Put(loopback, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetProxy(g.own); err != nil {
		t.Fatal(err)
	}
	return g
}

// prepare loads a vector's setting; every service has this strategy.
func (g *proxyGate) prepare(t *testing.T, v *vectors.Vector, strategy uint8) {
	t.Helper()
	var targets []plane.Target
	for _, s := range v.Services {
		to, err := target(s)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, to)
		if err := fullAllowance(g.p.Map("tg_signed"), s.ID); err != nil {
			t.Fatal(err)
		}
		if err := g.p.SetStrategy(s.ID, plane.ProxyService{Strategy: strategy}); err != nil {
			t.Fatal(err)
		}
	}
	settings := settingsFor(v)
	if err := g.p.SetServices(targets, &settings); err != nil {
		t.Fatal(err)
	}
	for slot := range uint32(vectors.KeyRingSlots) {
		if err := g.p.Map("tg_keys").Put(slot, plane.EpochKey{Epoch: math.MaxUint64}); err != nil {
			t.Fatal(err)
		}
	}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		if err := g.p.PutKey(n, secret.EpochKey(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tg_white", "tg_white6"} { // no source is whitelisted
		white, err := g.p.Active(name)
		if err != nil {
			t.Fatal(err)
		}
		for key := uint64(0); white.NextKey(nil, &key) == nil; {
			if err := white.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
		white.Close()
	}
}

// Every SYN of the golden vectors gets from the proxy, under auth-cookie, what it gets
// from the host gate, byte for byte; and under every strategy no malformed frame
// is answered, or breaks anything.
func TestProxyReplaysTheVectors(t *testing.T) {
	g := newProxyGate(t, false)
	all := slices.DeleteFunc(load(t, dir), func(v vectors.Vector) bool {
		return v.File == "acks-sockets" || v.File == hostOnly || v.Filter == vectors.FilterMaybe || v.Socket == vectors.SocketEstablished || v.Socket == vectors.SocketTimeWait ||
			slices.ContainsFunc(v.Services, func(s vectors.Service) bool { return s.Listener != "ok" }) ||
			slices.ContainsFunc(v.Packets, func(p vectors.Packet) bool { return len(p.In) < ethernetHeaderLen })
	})
	answered, dropped, passed := 0, 0, 0
	for i := range all {
		v := &all[i]
		g.prepare(t, v, plane.StrategyAuthCookie)
		for n, p := range v.Packets {
			ret, out, err := run(g.xdp, p.In)
			if err != nil {
				t.Fatalf("%s: %v", v, err)
			}
			switch p.Verdict {
			case vectors.TX:
				answered++
				if ret != xdpTX || !bytes.Equal(out, p.Out) {
					t.Errorf("%s: packet %d: verdict %d\n got %x\nwant %x", v, n, ret, out, []byte(p.Out))
				}
			case vectors.Drop:
				dropped++
				if ret != xdpDrop {
					t.Errorf("%s: packet %d: verdict %d, want a drop", v, n, ret)
				}
			case vectors.Pass:
				passed++ // here forwarded to the server by the kernel, which has no route
				if ret != xdpPass || !bytes.Equal(out, p.In) {
					t.Errorf("%s: packet %d: verdict %d, %x", v, n, ret, out)
				}
			}
		}
	}
	t.Logf("%d answered, %d dropped, %d passed", answered, dropped, passed)
	if answered < 100 || dropped < 30 || passed < 30 {
		t.Error("too few of a kind: the vectors were not what this test believes")
	}
	for _, strategy := range []uint8{plane.StrategyCookie, plane.StrategyAuthFull, plane.StrategyAuthWrong,
		plane.StrategyAuthTTL, plane.StrategyCache} {
		for i := range all {
			v := &all[i]
			if v.File == "keys" && strategy != plane.StrategyCookie {
				continue // only a cookie needs a key
			}
			if !slices.ContainsFunc(v.Packets, func(p vectors.Packet) bool { return p.Verdict != vectors.TX }) {
				continue // nothing malformed in it
			}
			g.prepare(t, v, strategy)
			for n, p := range v.Packets {
				ret, _, err := run(g.xdp, p.In)
				if err != nil || ret < xdpDrop || ret > xdpRedirect {
					t.Fatalf("%s: packet %d under strategy %d: verdict %d, %v", v, n, strategy, ret, err)
				}
				if p.Verdict == vectors.Drop && ret != xdpDrop {
					t.Errorf("%s: packet %d under strategy %d: verdict %d, want a drop", v, n, strategy, ret)
				}
			}
		}
	}
}

// flows adds the connections of vectors/packets.py to both tables.
func (g *proxyGate) putFlow(t *testing.T, v *translation) {
	t.Helper()
	f := plane.Flow{SeqDelta: v.Flow.SeqDelta, TsDelta: v.Flow.TSDelta, Service: 1, State: 2,
		WindowUp: v.Flow.WindowUp, WindowDown: v.Flow.WindowDown}
	if v.Flow.Timestamps {
		f.Flags = 1
	}
	ports := uint32(40000>>8|40000&255<<8) | uint32(80)<<8<<16
	four := plane.FlowKey4{Client: binary.LittleEndian.Uint32([]byte{192, 0, 2, 1}),
		Server: binary.LittleEndian.Uint32([]byte{198, 51, 100, 7}), Ports: ports}
	six := plane.FlowKey6{Client: [4]uint32{0xb80d0120, 0x0100, 0, 0x01000000}, /* 2001:db8:1::1 */
		Server: [4]uint32{0xb80d0120, 0x0200, 0, 0x07000000}, Ports: ports}
	flows := []plane.Flow{f}
	if err := errors.Join(g.p.PutFlows4([]plane.FlowKey4{four}, flows), g.p.PutFlows6([]plane.FlowKey6{six}, flows)); err != nil {
		t.Fatal(err)
	}
}

// Each segment goes by the flow table first. Then the flow is taken from there: what a copy of it is enough for is translated once more to the
// same bytes, and nothing else is.
func TestProxyTranslatesTheVectors(t *testing.T) {
	g := newProxyGate(t, true)
	any := load(t, dir)[0]
	g.prepare(t, &any, plane.StrategyCookie)
	near := 0
	translateAll(t, func(v *translation) ([]byte, error) {
		g.putFlow(t, v)
		ret, out, err := run(g.xdp, v.In)
		if err == nil && ret != xdpRedirect {
			err = fmt.Errorf("verdict %d", ret)
		}
		g.dropFlows(t)
		_, again, errAgain := run(g.xdp, v.In)
		if enough := isNear(v.In); enough != bytes.Equal(again, out) && !bytes.Equal(out, v.In) {
			t.Errorf("%s: without its flow: %x, after it: %x; want the same: %v (%v)", v.Name, again, out, enough, errAgain)
		} else if enough {
			near++
		}
		return out, err
	})
	if near < 20 {
		t.Errorf("%d segments needed only the copy", near)
	}
	t.Logf("%d segments needed only the copy", near)
}

// dropFlows empties the active tables, and nothing else.
func (g *proxyGate) dropFlows(t *testing.T) {
	t.Helper()
	for _, name := range []string{"tg_flows4", "tg_flows6"} {
		m, err := g.p.Active(name)
		if err != nil {
			t.Fatal(err)
		}
		for {
			key, err := m.NextKeyBytes(nil)
			if err != nil {
				t.Fatal(err)
			}
			if key == nil {
				break
			}
			if err := m.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
		m.Close()
	}
}

// isNear reports whether core/near_flow.h is about such a segment: no VLAN tag, IP option, extension header or fragment, nothing that begins
// or ends a connection, and no TCP options but timestamps in the usual layout.
func isNear(frame []byte) bool {
	tcp := ethernetHeaderLen + 20
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0800:
		if frame[14] != 0x45 || binary.BigEndian.Uint16(frame[20:])&0x3fff != 0 {
			return false
		}
	case 0x86dd:
		if tcp += 20; frame[20] != 6 {
			return false
		}
	default:
		return false
	}
	if frame[tcp+13]&0x17 != 0x10 {
		return false
	}
	switch frame[tcp+12] >> 4 {
	case 5:
		return true
	case 8:
		return bytes.Equal(frame[tcp+20:tcp+24], []byte{1, 1, 8, 10})
	}
	return false
}
