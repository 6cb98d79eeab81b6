// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
	"tidegate/internal/vectors"
)

// planeGate is one plane, on one of its paths, as the differential test drives it: as a
// bridge of two ports.
type planeGate interface {
	name() string
	prepare(w *planesWorld) error
	at(w *planesWorld, epoch uint64) error // sets the clock to the middle of this epoch
	packet(in []byte, fromServer bool) (outcome, error)
	flow(f *readyFlow) error
	forgetFlows() error // before a world is played again
	counters() (vectors.Counters, error)
	places() ([]string, error) // what is counted for the detector, by place
}

// The keys that dpdk/test/harness.c gives its worker.
var (
	planesChallengeKey = [2]uint64{0x0123456789abcdef, 11}
	planesCacheKey     = [2]uint64{9, 10}
	planesAskKey       = [2]uint64{13, 14}
	planesSampleKey    = uint64(0x13579bdf02468ace)
)

const planesHalves = 8 // likewise (dpdk/test/replay.c): one bucket, which is full at times; with more, planes choose different ones

// planesPlaces is TG_PLACES of core/automatic.h.
const planesPlaces = 1024

// xdpPlane is the proxy's XDP program. With slow, frames get a VLAN tag, which sends them to the slow path;
// it is removed afterwards.
type xdpPlane struct {
	*proxyGate
	slow  bool
	ports [2]uint32 // the clients', the servers'
	wire  *planesWire
	twin  *ebpf.Program // of what leaves by the port that it came by
	names [2]string

	bonded              bool // in this world the ports are bonds: each has one member, the far end of its cable
	useTwins, haveTwins bool // whether the ports may send twins: in the next world, and now
	twins               int  // that were sent
}

// loadTwin loads the program of twins as one that BPF_PROG_TEST_RUN runs, which it does not with programs of a devmap.
func loadTwin(t *testing.T, p *plane.Proxy) *ebpf.Program {
	t.Helper()
	spec, err := proxybpf.LoadProxyTwin()
	if err != nil {
		t.Fatal(err)
	}
	prog := spec.Programs[proxybpf.ProxyTwinProgTgProxyTwin]
	prog.AttachType = ebpf.AttachXDP
	ring := proxybpf.ProxyTwinMapTgTwinRing
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{ring: p.Map(ring)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loaded.Close)
	return loaded.Programs[prog.Name]
}

// newXDPPlanes makes both, with two ports each in one namespace.
func newXDPPlanes(t *testing.T) []planeGate {
	t.Helper()
	var all []planeGate
	enterNamespace(t)
	for n, slow := range []bool{false, true} {
		wire := newPlanesWire(t, n)
		p, err := plane.LoadProxy(plane.ProxyOptions{Options: plane.Options{KeySlots: vectors.KeyRingSlots, Bonds: true},
			Flows: 1 << 16, Sources: 1 << 12, Halves: planesHalves})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		g := &xdpPlane{proxyGate: &proxyGate{p: p}, slow: slow, ports: [2]uint32{uint32(wire.gate[0]), uint32(wire.gate[1])}, wire: wire,
			twin: loadTwin(t, p), names: [2]string{portName(n, 0), portName(n, 1)}, useTwins: !slow}
		xdp, tc := p.Programs()
		g.xdp = xdp
		wire.attach(t, tc)
		for _, port := range g.ports {
			if err := p.Map("tg_devices").Put(port, port); err != nil {
				t.Fatal(err)
			}
		}
		for port, index := range g.ports {
			if err := plane.SetEntry(p.Map(plane.VarMembers), uint32(wire.far[port]%256), [2]uint32{uint32(wire.far[port]), index}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, g)
	}
	return all
}

func (g *xdpPlane) name() string {
	if g.slow {
		return "XDP, slow path"
	}
	return "XDP"
}

func (g *xdpPlane) prepare(w *planesWorld) error {
	g.bonded = w.epoch%2 == 1
	own := plane.ProxySettings{Bridge: g.ports, WhiteV4Mask: w.v4Mask, WhiteV6Mask: w.v6Mask, PresenceSalt: 0xfedcba9876543210}
	own.ChallengeKey.K0, own.ChallengeKey.K1 = planesChallengeKey[0], planesChallengeKey[1]
	own.CacheKey.K0, own.CacheKey.K1 = planesCacheKey[0], planesCacheKey[1]
	own.AskKey.K0, own.AskKey.K1 = planesAskKey[0], planesAskKey[1]
	own.Plain = 1 // as internal/role/proxy has it
	var targets []plane.Target
	for i := range w.services {
		s := &w.services[i]
		if s.Automatic != 0 || strategyTranslates(s.strategy) {
			own.Plain = 0
		}
		targets = append(targets, plane.Target{ID: s.id, Prefixes: everywhere, Ports: [][2]uint16{{s.port, s.port}}, Service: s.Service})
		if strategyTranslates(s.strategy) {
			own.Flows = 1
		}
		err := errors.Join(g.p.SetStrategy(s.id, plane.ProxyService{Strategy: s.strategy, FirstData: s.firstData, Fixed: s.fixed, DeferAccept: uint8(bit(w.defers))}),
			fullAllowance(g.p.Map("tg_signed"), s.id), plane.ClearCounters(g.p.Map("tg_counters"), s.id))
		if err != nil {
			return err
		}
	}
	if err := g.useLists(w.lists); err != nil {
		return err
	}
	settings := planesSettings(w, w.epoch)
	settings.FilterKeys[0] = planesSampleKey // of a proxy; of other roles it is the key of the sockets' filter
	err := errors.Join(g.p.SetServices(targets, &settings), plane.ClearCounters(g.p.Map("tg_counters"), 0), g.forget())
	for at, on := range w.placesOn {
		err = errors.Join(err, g.p.AnswerPlace(at, on))
	}
	for slot := range uint32(vectors.KeyRingSlots) {
		err = errors.Join(err, g.p.Map("tg_keys").Put(slot, plane.EpochKey{Epoch: math.MaxUint64}))
	}
	for _, n := range w.keys {
		err = errors.Join(err, g.p.PutKey(n, w.secret.EpochKey(n)))
	}
	return errors.Join(err, g.p.SetProxy(own), g.setTwins())
}

// ingress is the interface that frames from clients, or from servers, name.
func (g *xdpPlane) ingress(fromServer bool) uint32 {
	if g.bonded {
		return uint32(g.wire.far[bit(fromServer)])
	}
	return g.ports[bit(fromServer)]
}

// setTwins lets the ports send twins, or forgets that they can: then the TC program makes two packets of a SYN-ACK.
func (g *xdpPlane) setTwins() error {
	if g.useTwins == g.haveTwins {
		return nil
	}
	g.haveTwins = g.useTwins
	if g.useTwins {
		return g.p.SetTwins(g.names[:])
	}
	pairs := g.p.Map("tg_twins")
	for key := make([]byte, pairs.KeySize()); pairs.NextKey(nil, &key) == nil; {
		if err := pairs.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

func (g *xdpPlane) useLists(table *sourcelist.Table) error {
	if table == nil {
		return g.p.SetList(nil)
	}
	list, err := plane.NewList(table)
	if err != nil {
		return err
	}
	return g.p.SetList(list)
}

func strategyTranslates(s uint8) bool {
	return s == plane.StrategyCookie || s == plane.StrategyCache
}

// forgetFlows empties the tables of flows, which have other tuples in every other world.
func (g *xdpPlane) forgetFlows() error {
	if err := g.p.ForgetFlows(); err != nil {
		return err
	}
	for _, name := range []string{"tg_closed4", "tg_closed6"} {
		closed := g.p.Map(name)
		for key := make([]byte, closed.KeySize()); closed.NextKey(nil, &key) == nil; {
			if err := closed.Delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget empties the whitelist, the SYN cache and the tables of servers and closed ports.
func (g *xdpPlane) forget() error {
	for _, name := range []string{"tg_white", "tg_white6"} {
		white, err := g.p.Active(name)
		if err != nil {
			return err
		}
		for key := uint64(0); white.NextKey(nil, &key) == nil; {
			if err := white.Delete(key); err != nil {
				return err
			}
		}
		white.Close()
	}
	servers := g.p.Map("tg_servers")
	for key := make([]byte, servers.KeySize()); servers.NextKey(nil, &key) == nil; {
		if err := servers.Delete(key); err != nil {
			return err
		}
	}
	for _, name := range []string{"tg_halfopens", "tg_half_fronts", "tg_refused", "tg_servers_near"} {
		table := g.p.Map(name)
		empty := make([]byte, table.ValueSize())
		for at := range table.MaxEntries() {
			if err := table.Put(at, empty); err != nil {
				return err
			}
		}
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for at := range uint32(planesPlaces) {
		if err := g.p.Map("tg_places").Put(at, make([][32]byte, cpus)); err != nil {
			return err
		}
	}
	samples := g.p.Map("tg_samples")
	all := make([]uint32, samples.MaxEntries())
	for i := range all {
		all[i] = uint32(i)
	}
	if _, err := samples.BatchUpdate(all, make([][16]byte, len(all)), nil); err != nil {
		return err
	}
	return fullAllowance(g.p.Map("tg_refused_share"), 0)
}

func (g *xdpPlane) places() (list []string, err error) {
	all, err := g.p.Places()
	for _, p := range all {
		list = append(list, fmt.Sprintf("%d: %d SYNs, %d handshakes, service %d, %v", p.At, p.SYNs, p.Handshakes, p.Service, p.Prefix))
	}
	return list, err
}

// planesSettings sets the clock to the middle of an epoch.
func planesSettings(w *planesWorld, epoch uint64) plane.Settings {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return plane.Settings{Lists: uint8(bit(w.lists != nil)), EpochLenNs: planesEpochLen, StaleKeys: uint8(bit(w.staleDrop)), FilterKeepTicks: 1, VerifyAheadNs: w.aheadNs,
		WallMinusMonoNs: nowNs(epoch) - uint64(now.Nano())}
}

func (g *xdpPlane) at(w *planesWorld, epoch uint64) error {
	var s plane.Settings
	if err := g.p.Map("tg_settings").Lookup(uint32(0), &s); err != nil {
		return err
	}
	s.WallMinusMonoNs = planesSettings(w, epoch).WallMinusMonoNs
	return g.p.SetSettings(&s)
}

// xdpMd is struct xdp_md of linux/bpf.h.
type xdpMd struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

func (g *xdpPlane) packet(in []byte, fromServer bool) (r outcome, err error) {
	tagged := g.slow && (in[12] == 8 || in[12] == 0x86)
	if tagged {
		in = append(append(append([]byte{}, in[:12]...), 0x81, 0, 0, 7), in[12:]...)
	}
	o := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256),
		Context: xdpMd{DataEnd: uint32(len(in)), IngressIfindex: g.ingress(fromServer)}}
	ret, err := g.xdp.Run(&o)
	if err != nil {
		return r, err
	}
	untagged := func(out []byte) []byte {
		if tagged && len(out) >= 16 {
			out = append(append([]byte{}, out[:12]...), out[16:]...)
		}
		return out
	}
	switch ret {
	case xdpDrop:
		return outcomeOf(nil), nil
	case xdpTX:
		return outcomeOf([]vectors.Result{{Verdict: vectors.TX, Out: untagged(o.DataOut)}}), nil
	case xdpRedirect:
		on := vectors.Result{Verdict: vectors.Pass, Out: untagged(o.DataOut)}
		back, err := g.twinOf(o.DataOut)
		if err != nil || back == nil {
			return outcomeOf([]vectors.Result{on}), err
		}
		return outcomeOf([]vectors.Result{{Verdict: vectors.TX, Out: untagged(back)}, on}), nil
	case xdpPass:
		if !fromServer {
			break
		}
		sent, err := g.wire.pass(in, 1) // the kernel does nothing with a bridge's frame: what arrives was sent by the TC program
		var back, on []vectors.Result
		for _, s := range sent {
			if s.port == 1 {
				back = append(back, vectors.Result{Verdict: vectors.TX, Out: untagged(s.frame)})
			} else {
				on = append(on, vectors.Result{Verdict: vectors.Pass, Out: untagged(s.frame)})
			}
		}
		return outcomeOf(append(back, on...)), err
	}
	return r, fmt.Errorf("verdict %d of %x: a bridge leaves to its kernel only a server's answer", ret, in)
}

// twinOf returns what the twin of a redirected frame becomes; nil: it has none.
func (g *xdpPlane) twinOf(frame []byte) ([]byte, error) {
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	ret, err := g.twin.Run(&o)
	if err == nil && ret != xdpPass {
		err = fmt.Errorf("the program of twins returns %d for %x", ret, frame)
	}
	if err != nil || bytes.Equal(frame, o.DataOut) {
		return nil, err
	}
	g.twins++
	return o.DataOut, nil
}

func (g *xdpPlane) counters() (vectors.Counters, error) {
	return planesCounters(g.p.Map("tg_counters"))
}

// planesCounters are those of a world's services.
func planesCounters(m *ebpf.Map) (vectors.Counters, error) {
	c := vectors.Counters{}
	for id := range uint32(3) {
		sum, err := plane.ReadCounters(m, id)
		if err != nil {
			return nil, err
		}
		for name, n := range schema.Map(sum) {
			if n != 0 {
				if c[id] == nil {
					c[id] = map[string]uint64{}
				}
				c[id][name] = n
			}
		}
	}
	return c, nil
}

// everywhere are the prefixes of a service of any address.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// readyFlow is a translated connection.
type readyFlow struct {
	client            []byte // a segment of its client, without tags or options
	ipv6              bool
	seqDelta, tsDelta uint32
	ts                bool
	windowUp          uint8
	windowDown        int8
}

func (g *xdpPlane) flow(f *readyFlow) error {
	v := plane.Flow{SeqDelta: f.seqDelta, TsDelta: f.tsDelta, Service: 1, State: 2, WindowUp: f.windowUp, WindowDown: f.windowDown,
		Flags: uint8(bit(f.ts)), OptionBits: uint16(g.ports[1])}
	ip, flows := f.client[ethernetHeaderLen:], []plane.Flow{v}
	if !f.ipv6 {
		return g.p.PutFlows4([]plane.FlowKey4{{Client: le32(ip[12:]), Server: le32(ip[16:]), Ports: le32(ip[20:])}}, flows)
	}
	six := plane.FlowKey6{Ports: le32(ip[40:])}
	for i := range six.Client {
		six.Client[i], six.Server[i] = le32(ip[8+4*i:]), le32(ip[24+4*i:])
	}
	return g.p.PutFlows6([]plane.FlowKey6{six}, flows)
}

// le32 is a word as the packet path loads it.
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func wire32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func wire64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
