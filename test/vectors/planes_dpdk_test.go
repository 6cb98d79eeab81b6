// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/sourcelist"
	"tidegate/internal/vectors"
)

// dpdkPlane is the burst pipeline, run by dpdk/test/replay.c.
type dpdkPlane struct {
	*dpdkGate
	from  bool
	lists string // the file by which it gets them
}

func newDPDKPlanes(t *testing.T) []planeGate {
	t.Helper()
	lists := filepath.Join(t.TempDir(), "lists-of-a-world") // with the sign that other lines refuse
	return []planeGate{&dpdkPlane{dpdkGate: newDPDKGate(t, 0, "best roomy"), lists: lists}, &dpdkPlane{dpdkGate: newDPDKGate(t, 1, "scalar"), lists: lists}}
}

func (g *dpdkPlane) name() string {
	if g.burst == 1 {
		return "DPDK, slow path"
	}
	return "DPDK"
}

func (g *dpdkPlane) prepare(w *planesWorld) error {
	commands := []string{fmt.Sprintf("reset %d %s", g.burst, g.way), fmt.Sprintf("epoch-length %d", planesEpochLen),
		"stale-keys " + map[bool]string{false: "pass", true: "drop"}[w.staleDrop], fmt.Sprintf("verify-ahead %d", w.aheadNs),
		fmt.Sprintf("white-v4-mask %x", wire32(w.v4Mask)), fmt.Sprintf("white-v6-mask %x", wire64(w.v6Mask))}
	for _, n := range w.keys {
		commands = append(commands, fmt.Sprintf("key %d %x", n, w.secret.EpochKey(n)))
	}
	for i := range w.services {
		s := &w.services[i]
		commands = append(commands, fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d", s.id, s.MssV4, s.MssV6, s.Window, s.Wscale,
			s.Sack, s.Timestamps, s.Ecn, s.Mode, s.strategy, s.firstData, s.fixed, s.SignedCostUs, s.Automatic, s.Verify, s.FlowKey), fmt.Sprintf("port %d %d", s.port, s.id))
	}
	if w.lists != nil {
		blocks := make([]byte, w.lists.Blocks()*sourcelist.BlockBytes)
		w.lists.Bytes(blocks)
		if err := os.WriteFile(g.lists, blocks, 0o600); err != nil {
			return err
		}
		commands = append(commands, "lists "+g.lists)
	}
	for at, on := range w.placesOn {
		if on {
			commands = append(commands, fmt.Sprintf("place %d 1", at))
		}
	}
	g.from = false
	return errors.Join(g.obey(commands...), g.at(w, w.epoch))
}

func (g *dpdkPlane) at(_ *planesWorld, epoch uint64) error {
	return g.obey(fmt.Sprintf("now %d", nowNs(epoch)))
}

func (g *dpdkPlane) packet(in []byte, fromServer bool) (outcome, error) {
	if fromServer != g.from {
		g.from = fromServer
		if err := g.obey(fmt.Sprintf("from %d", bit(fromServer))); err != nil {
			return outcome{}, err
		}
	}
	words, err := g.ask("packet %x", in)
	if err != nil {
		return outcome{}, err
	}
	var back, on []vectors.Result
	for len(words) > 1 {
		r := vectors.Result{Verdict: vectors.Verdict(words[0])}
		if r.Out, err = hex.DecodeString(words[1]); err != nil {
			return outcome{}, fmt.Errorf("%q: %w", words, err)
		}
		if r.Verdict == vectors.TX {
			back = append(back, r)
		} else {
			on = append(on, r)
		}
		words = words[2:]
	}
	return outcomeOf(append(back, on...)), nil
}

func (g *dpdkPlane) counters() (vectors.Counters, error) { return g.Counters() }

// forgetFlows: prepare does.
func (g *dpdkPlane) forgetFlows() error { return nil }

func (g *dpdkPlane) places() (list []string, err error) {
	words, err := g.ask("places")
	if err != nil {
		return nil, err
	}
	for _, word := range words[1:] {
		var at, syns, handshakes, service, family, prefix uint64
		if _, err := fmt.Sscanf(word, "%d:%d:%d:%d:%d:%d", &at, &syns, &handshakes, &service, &family, &prefix); err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		where := netip.PrefixFrom(netip.AddrFrom4([4]byte(wire32(uint32(prefix)))), 32)
		if family == 6 {
			where = netip.PrefixFrom(netip.AddrFrom16([16]byte(append(wire64(prefix), make([]byte, 8)...))), 64)
		}
		list = append(list, fmt.Sprintf("%d: %d SYNs, %d handshakes, service %d, %v", at, syns, handshakes, service, where))
	}
	return list, nil
}

func (g *dpdkPlane) flow(f *readyFlow) error {
	return g.obey(fmt.Sprintf("flow %d %d %d %d %d %x", f.seqDelta, f.tsDelta, bit(f.ts), f.windowUp, f.windowDown, f.client))
}
