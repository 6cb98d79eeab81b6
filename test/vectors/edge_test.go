// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

// edgeGate is the edge's program, run by BPF_PROG_TEST_RUN as a bridge between the
// loopback device of a namespace and itself: what it forwards it redirects. It
// leaves TTLs unchanged and forwards unknown packets, so that all of the host's
// vectors apply: a SYN's answer, byte by byte, and drops.
type edgeGate struct {
	p            *plane.Edge
	xdp          *ebpf.Program
	used         map[uint32]bool
	v            *vectors.Vector
	challengeAll uint8 // SYNs with timestamps, too, are looked up
	tagged       bool  // the protocol is
}

func newEdgeGate(t *testing.T, smart bool) *edgeGate {
	t.Helper()
	enterNamespace(t)
	g := &edgeGate{used: map[uint32]bool{}}
	var err error
	if g.p, err = plane.LoadEdge(plane.EdgeOptions{Options: plane.Options{KeySlots: vectors.KeyRingSlots, Services: plane.MaxServices}, BloomBits: 16, Smart: smart}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.p.Close)
	g.xdp, _ = g.p.Programs()
	err = errors.Join(g.p.Map("tg_edge_ports").Put(uint32(1), plane.EdgePort{Flags: plane.EdgePortHere | plane.EdgePortBridged}), // lo has no address
		g.p.Map("tg_devices").Put(uint32(1), uint32(1)), g.p.SetForwarding([2]uint32{1, 1}, false), g.p.SetEdge(edgeSettings(plane.AllowAll)))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// differently are the vectors that an edge treats in its own way: it verifies a first
// fragment, and, without keys, forwards what may be an answer to the server's
// own kernel.
var differently = []string{"first-fragment-", "key-not-loaded-", "stack-"}

// ofEdge: an edge has neither listeners nor sockets.
func ofEdge(v *vectors.Vector) bool {
	for _, prefix := range differently {
		if strings.HasPrefix(v.Name, prefix) {
			return false
		}
	}
	for _, s := range v.Services {
		if s.Listener != "ok" {
			return false
		}
	}
	return v.Filter != vectors.FilterMaybe && v.Socket == vectors.SocketListener
}

func (g *edgeGate) Prepare(v *vectors.Vector) error {
	g.v = v
	var targets []plane.Target
	rows := map[uint32]bool{0: true}
	for _, s := range v.Services {
		t, err := target(s)
		if err != nil {
			return err
		}
		targets = append(targets, t)
		rows[s.ID] = true
	}
	settings := settingsFor(v)
	if err := g.p.SetServices(targets, &settings); err != nil {
		return err
	}
	for slot := range uint32(vectors.KeyRingSlots) {
		if err := g.p.Map("tg_keys").Put(slot, plane.EpochKey{Epoch: math.MaxUint64}); err != nil {
			return err
		}
	}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		if err := g.p.PutKey(n, secret.EpochKey(n)); err != nil {
			return err
		}
	}
	for range plane.BloomGenerations { // an empty filter
		if err := g.p.Rotate(); err != nil {
			return err
		}
	}
	for id := range g.used {
		rows[id] = true
	}
	for id := range rows {
		if err := errors.Join(plane.ClearCounters(g.p.Map("tg_counters"), id), fullAllowance(g.p.Map("tg_signed"), id)); err != nil {
			return err
		}
	}
	g.used = rows
	return nil
}

func (g *edgeGate) Packet(in []byte) (vectors.Result, error) {
	if len(in) < ethernetHeaderLen { // the kernel accepts no such test frame
		return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
	}
	before, err1 := g.misplaced()
	ret, out, err := run(g.xdp, in)
	after, err2 := g.misplaced()
	if err := errors.Join(err, err1, err2); err != nil {
		return vectors.Result{}, fmt.Errorf("XDP: %w", err)
	}
	switch ret {
	case 1:
		if after != before { // a host leaves it to its kernel
			return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
		}
		return vectors.Result{Verdict: vectors.Drop, Out: out}, nil
	case 2, 4: // to the kernel, or forwarded
		return vectors.Result{Verdict: vectors.Pass, Out: out}, nil
	case 3:
		return vectors.Result{Verdict: vectors.TX, Out: out}, nil
	}
	return vectors.Result{}, fmt.Errorf("XDP returned %d", ret)
}

// misplaced is what was dropped because it belongs to no connection.
func (g *edgeGate) misplaced() (n uint64, err error) {
	for _, s := range g.v.Services {
		sum, err := plane.ReadCounters(g.p.Map("tg_counters"), s.ID)
		if err != nil {
			return 0, err
		}
		n += sum[schema.CounterDropStray] + sum[schema.CounterDropSynack]
	}
	return n, nil
}

// Counters are those that host and edge share, with the same meaning:
// an ACK that a host adopts an edge verifies.
func (g *edgeGate) Counters() (vectors.Counters, error) {
	c := vectors.Counters{}
	for id := range g.used {
		sum, err := plane.ReadCounters(g.p.Map("tg_counters"), id)
		if err != nil {
			return nil, err
		}
		for name, n := range schema.Map(sum) {
			if n != 0 && inCommon[name] {
				if c[id] == nil {
					c[id] = map[string]uint64{}
				}
				c[id][name] = n
			}
		}
	}
	return c, nil
}

var inCommon = map[string]bool{"syn": true, "cookie_sent": true, "would_answer": true, "cookie_valid": true,
	"pass_no_key": true, "pass_frame": true, "drop_flags": true, "drop_malformed": true, "drop_fragment": true,
	"drop_source": true, "drop_ext_chain": true, "drop_no_key": true, "drop_tx": true, "pass_signed": true,
	"signed_answered": true, "signed_excess": true, "drop_signed": true, "drop_auth_option": true}

// asEdge converts a host's vector to the edge's expected result.
func asEdge(v vectors.Vector) vectors.Vector {
	packets, counters := append([]vectors.Packet{}, v.Packets...), vectors.Counters{}
	for i := range packets {
		if packets[i].Verdict == vectors.Adopt { // verified: forwarded to the server
			packets[i].Verdict, packets[i].Agreed = vectors.Pass, nil
		}
	}
	for id, row := range v.Counters {
		counters[id] = map[string]uint64{}
		for name, n := range row {
			if inCommon[name] {
				counters[id][name] = n
			}
		}
	}
	v.Packets, v.Counters = packets, counters
	return v
}

// TestEdge replays what a host and an edge treat alike.
func TestEdge(t *testing.T) {
	needRoot(t)
	g := newEdgeGate(t, false)
	var all []vectors.Vector
	adopts := 0
	for _, v := range load(t, dir) {
		if ofEdge(&v) {
			if v.Adopts() {
				adopts++
			}
			all = append(all, asEdge(v))
		}
	}
	rejectAll(t, g, func(v *vectors.Vector) bool { return ofEdge(v) && makesNone(v) })
	t.Logf("%d vectors on the edge's program, %d of them verified", replayAll(t, g, all, every), adopts)
	if len(all) < 1000 || adopts < 50 {
		t.Errorf("%d vectors, %d of them verified; there were more", len(all), adopts)
	}
}

// TestEdgeTTL: verified packets are forwarded with the edge's TTL and a right checksum, and
// otherwise unchanged; with too low a TTL, they are dropped.
func TestEdgeTTL(t *testing.T) {
	needRoot(t)
	g := newEdgeGate(t, false)
	ran := 0
	for _, v := range load(t, dir) {
		if !v.Adopts() || !ofEdge(&v) || len(v.Packets) != 1 {
			continue
		}
		in := v.Packets[0].In
		ipv6 := in[12] == 0x86
		if !ipv6 && (in[12] != 8 || in[13] != 0) { // tagged
			continue
		}
		ttl := ethernetHeaderLen + 8
		if ipv6 {
			ttl--
		}
		for _, hops := range []uint8{in[ttl], in[ttl] - 1, in[ttl] + 1} {
			own := edgeSettings(plane.AllowAll)
			own.Hops = hops
			if err := errors.Join(g.Prepare(&v), g.p.SetEdge(own)); err != nil {
				t.Fatal(err)
			}
			ret, out, err := run(g.xdp, in)
			if err != nil {
				t.Fatal(err)
			}
			if hops > in[ttl] {
				if ret != 1 {
					t.Errorf("%s: TTL %d below %d hops: XDP returned %d", &v, in[ttl], hops, ret)
				}
				continue
			}
			want := append([]byte{}, in...)
			want[ttl] = hops
			if !ipv6 {
				header := want[ethernetHeaderLen : ethernetHeaderLen+int(want[ethernetHeaderLen]&15)*4]
				header[10], header[11] = 0, 0
				sum := checksum(header)
				header[10], header[11] = byte(sum>>8), byte(sum)
			}
			if ret != 4 || !bytes.Equal(out, want) {
				t.Errorf("%s: %d hops: XDP returned %d\n got %x\nwant %x", &v, hops, ret, out, want)
			}
		}
		ran++
	}
	if ran < 50 {
		t.Errorf("%d vectors; there were more", ran)
	}
}

// checksum is RFC 1071's, of whole words.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// edgeSettings has a filter key that tells flows apart.
func edgeSettings(unknownCost uint64) plane.EdgeSettings {
	random := rand.New(rand.NewPCG(differentialSeed, 2))
	s := plane.EdgeSettings{UnknownCostNs: unknownCost}
	for i := range s.BloomKey.K {
		for j := range s.BloomKey.K[i] {
			s.BloomKey.K[i][j] = random.Uint64()
		}
	}
	return s
}
