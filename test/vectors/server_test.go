// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/goccy/go-yaml"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

// serverGate is the translating server's three programs under BPF_PROG_TEST_RUN. Its
// table is one bucket and the keys of its hash are zero, so that every connection has
// the same hash, and any packet finds the entry.
type serverGate struct {
	p                    *plane.Server
	xdp, ingress, egress *ebpf.Program
}

const (
	zeroHash    = 2       // tg_split_hash under keys of zero
	hashV6      = 1 << 63 // and in it the family
	splitTS     = 1
	splitReady  = 0x40
	splitFresh  = 0x80
	tcxPass     = ^uint32(0) // TCX_NEXT
	tcxRedirect = 7
	metaLen     = 4
	metaSetup   = 0x74677331 // TG_META_SETUP
)

func newServerGate(t *testing.T) *serverGate {
	t.Helper()
	enterNamespace(t)
	p, err := plane.LoadServer(plane.ServerOptions{Options: plane.Options{KeySlots: vectors.KeyRingSlots}, Flows: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	g := &serverGate{p: p, egress: p.Egress()}
	g.xdp, g.ingress = p.Programs()
	return g
}

// prepare sets a vector's services and keys, and empties the table.
func (g *serverGate) prepare(t *testing.T, v *vectors.Vector, generic uint8) {
	t.Helper()
	var targets []plane.Target
	for _, s := range v.Services {
		target, err := target(s)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	settings := settingsFor(v)
	err := errors.Join(g.p.SetServices(targets, &settings), g.p.SetServer(plane.ServerSettings{IdleTicks: 100, Generic: generic}))
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		err = errors.Join(err, g.p.PutKey(n, secret.EpochKey(n)))
	}
	for id := range targets {
		err = errors.Join(err, plane.ClearCounters(g.p.Map("tg_counters"), targets[id].ID))
	}
	if err = errors.Join(err, g.put(plane.Split{})); err != nil {
		t.Fatal(err)
	}
}

// put makes an entry the only one of the table; entry reads it.
func (g *serverGate) put(e plane.Split) error {
	v6 := e
	if e.Hash != 0 {
		v6.Hash |= hashV6
	}
	return g.p.Map("tg_splits").Put(uint32(0), plane.SplitBucket{Way: [4]plane.Split{e, v6}})
}

func (g *serverGate) entry(t *testing.T) (found plane.Split) {
	t.Helper()
	var b plane.SplitBucket
	if err := g.p.Map("tg_splits").Lookup(uint32(0), &b); err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Way {
		if e.Hash != 0 {
			return e
		}
	}
	return found
}

// TestServerTranslatesTheVectors: the proxy's vectors of translated segments, on the
// server's programs: XDP towards the stack, TC towards the client.
func TestServerTranslatesTheVectors(t *testing.T) {
	needRoot(t)
	g := newServerGate(t)
	text, err := os.ReadFile(filepath.Join(dir, "proxy", "translate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []translation `yaml:"vectors"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	first := load(t, dir)[0]
	g.prepare(t, &first, 0)
	ways := map[bool]int{}
	for i := range file.Vectors {
		v := &file.Vectors[i]
		e := plane.Split{Hash: zeroHash, SeqDelta: v.Flow.SeqDelta, TsDelta: v.Flow.TSDelta, State: splitReady,
			ClientWindow: uint16(v.Flow.WindowUp) | uint16(uint8(v.Flow.WindowDown))<<8}
		if v.Flow.Timestamps {
			e.State |= splitTS
		}
		if err := g.put(e); err != nil {
			t.Fatal(err)
		}
		prog, pass := g.xdp, uint32(xdpPass)
		if v.ToClient {
			prog, pass = g.egress, tcxPass
		}
		ways[v.ToClient]++
		ret, out, err := run(prog, v.In)
		if err != nil || ret != pass || !bytes.Equal(out, v.Out) {
			t.Errorf("%s: verdict %d, %v\n  in %x\n got %x\nwant %x", v.Name, ret, err, []byte(v.In), out, []byte(v.Out))
		}
	}
	t.Logf("%d to the server, %d to the client", ways[false], ways[true])
	if ways[false] < 40 || ways[true] < 30 {
		t.Error("too few of a kind")
	}
}

// TestServerOpens: every ACK that the host role adopts opens a connection here. The XDP
// program marks the frame and does not change it; the TC program turns it into the SYN
// that the cookie stands for; the stack's SYN-ACK determines the difference, once.
func TestServerOpens(t *testing.T) {
	needRoot(t)
	g := newServerGate(t)
	opened, refused := 0, 0
	for _, v := range load(t, dir) {
		for i, p := range v.Packets {
			// First fragments, truncated frames and similar ones go to the stack unchanged.
			if (p.Verdict != vectors.Adopt || len(v.Packets) != 1) && v.File != "acks-refused" {
				continue
			}
			g.prepare(t, &v, 0)
			ret, out, err := run(g.xdp, p.In)
			if err != nil {
				t.Fatalf("%s: %v", &v, err)
			}
			e := g.entry(t)
			if p.Verdict != vectors.Adopt {
				refused++
				if e.Hash != 0 {
					t.Errorf("%s: packet %d (%s) opened a connection", &v, i, v.Why)
				}
				continue
			}
			opened++
			if ret != xdpPass || len(out) != metaLen+len(p.In) || binary.LittleEndian.Uint32(out) != metaSetup || !bytes.Equal(out[metaLen:], p.In) {
				t.Errorf("%s: verdict %d\n  in %x\n got %x", &v, ret, []byte(p.In), out)
			}
			if e.Hash&^hashV6 != zeroHash || e.State&^splitTS != splitFresh || (e.State&splitTS != 0) != p.Agreed.Timestamps {
				t.Errorf("%s: entry %+v", &v, e)
			}
			g.synOf(t, &v, &p)
		}
	}
	t.Logf("%d opened, %d refused", opened, refused)
	if opened < 50 || refused < 50 {
		t.Error("too few of a kind")
	}
}

// synOf runs the TC programs over the ACK: the resulting SYN, and what its
// SYN-ACK determines.
func (g *serverGate) synOf(t *testing.T, v *vectors.Vector, p *vectors.Packet) {
	t.Helper()
	const isn, tsval = 0x11223344, 0x55667788
	g.prepare(t, v, 1) // as behind generic XDP: the frame carries no mark
	if _, _, err := run(g.xdp, p.In); err != nil {
		t.Fatal(err)
	}
	cookie := g.entry(t)
	ret, syn, err := run(g.ingress, p.In)
	if err != nil || ret != tcxPass {
		t.Fatalf("%s: TC ingress: verdict %d, %v", v, ret, err)
	}
	in, out := tcpOf(p.In), tcpOf(syn)
	if out == nil || out.flags&0x3f != 2 || out.seq != in.seq-1 || !bytes.Equal(out.ports, in.ports) || !out.sumOK {
		t.Errorf("%s: the SYN of %x is %x", v, []byte(p.In), syn)
		return
	}
	if want := agreedOptions(p.Agreed); !want.equal(out.options) || (out.flags&0xc0 == 0xc0) != p.Agreed.ECN {
		t.Errorf("%s: the SYN offers %+v (flags %#x), want %+v", v, out.options, out.flags, p.Agreed)
	}
	answer := synackOf(syn, out, isn, tsval, p.Agreed.Timestamps)
	if ret, _, err := run(g.egress, answer); err != nil || ret != tcxRedirect { // it returns as the ACK
		t.Errorf("%s: the SYN-ACK: verdict %d, %v", v, ret, err)
	}
	e := g.entry(t)
	if e.State&^splitTS != splitReady || e.SeqDelta != isn-cookie.SeqDelta || p.Agreed.Timestamps && e.TsDelta != tsval-cookie.TsDelta {
		t.Errorf("%s: settled as %+v from %+v", v, e, cookie)
	}
	// Again: nothing is computed a second time.
	if _, _, err := run(g.egress, answer); err != nil || g.entry(t) != e {
		t.Errorf("%s: the SYN-ACK again changed %+v into %+v, %v", v, e, g.entry(t), err)
	}
}
