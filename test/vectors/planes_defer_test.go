// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"math/rand/v2"
	"testing"

	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

// halfGate shows one of the two packets that are made of a server's SYN-ACK: what it shows of a gate that defers its
// accepts must be what it shows of one that does not.
type halfGate struct {
	planeGate
	defers bool
	seen   *deferredSeen
}

// deferredSeen is what deferring gates have done.
type deferredSeen struct{ windows, again int }

func (g halfGate) packet(in []byte, fromServer bool) (outcome, error) {
	o, err := g.planeGate.packet(in, fromServer)
	bare := func(r vectors.Result, v vectors.Verdict) bool {
		tcp := tcpHeader(r.Out)
		return r.Verdict == v && tcp != nil && tcp[13] == tcpACK
	}
	asked := tcpHeader(in)
	if err != nil || !fromServer || asked == nil || asked[13]&(tcpSYN|tcpACK) != tcpSYN|tcpACK {
		return o, err
	}
	both := len(o.more) == 1 && bare(o.Result, vectors.TX) && bare(o.more[0], vectors.Pass)
	switch {
	case both && g.defers: // a repeated SYN-ACK: the others send the ACK alone
		g.seen.again++
		return outcome{Result: o.Result}, nil
	case both:
		return outcome{Result: o.more[0]}, nil
	case g.defers && len(o.more) == 0 && bare(o.Result, vectors.Pass):
		g.seen.windows++
	}
	return o, nil
}

// TestPlanesDefer sends the same random frames to gates that defer accepts and to some that do not. But for the ACK to the server,
// all that they send and count is equal: what they learn of servers, which SYN-ACKs make a flow ready, the window, and the
// translation of what follows.
func TestPlanesDefer(t *testing.T) {
	needRoot(t)
	seen := &deferredSeen{}
	c := &planesComparison{t: t, kinds: map[string]int{}, counted: map[string]uint64{}, verdicts: map[vectors.Verdict]int{}}
	for _, g := range newXDPPlanes(t) {
		c.gates = append(c.gates, halfGate{g, true, seen})
	}
	c.gates = append(c.gates, halfGate{newDPDKPlanes(t)[0], false, seen})
	for n := range planesWorlds / 2 {
		if w := newPlanesWorld(rand.New(rand.NewPCG(differentialSeed, uint64(n))), n); !strategyTranslates(w.services[0].strategy) || w.keepsData() {
			continue
		}
		for try := range planesTries {
			parted := c.parted
			c.mayRepeat = try < planesTries-1
			r := rand.New(rand.NewPCG(differentialSeed, uint64(n)))
			w := newPlanesWorld(r, n)
			w.services[0].Mode, w.keys = plane.ModeAlways, []uint64{w.epoch - 2, w.epoch - 1, w.epoch, w.epoch + 1, w.epoch + 2}
			w.defers = true
			c.world(r, w, differentialSeed+uint64(n))
			if c.parted == parted {
				break
			}
			c.forgetFlows()
		}
	}
	t.Logf("%d frames, %d windows alone, %d SYN-ACKs answered again with both: %v", c.frames, seen.windows, seen.again, c.counted)
	for kind, n := range c.kinds {
		t.Errorf("%d times: %s", n, kind)
	}
	for _, name := range []string{"flow_ready", "flow_notified", "flow_older", "flow_mismatch", "flow_forged", "flow_reack", "server_asked", "flow_closed"} {
		if c.counted[name] == 0 {
			t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
	if seen.windows == 0 || seen.again == 0 {
		t.Error("no accept was deferred, or no SYN-ACK repeated")
	}
}
