// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"tidegate/test/world"
)

// Of linux/bpf.h and pkt_cls.h.
const (
	tcxNext = -1
	tcOK    = 0
)

// neighbour is a TC program on the server's port that counts frames and ends with a verdict.
type neighbour struct {
	seen *ebpf.Map
	link link.Link
}

func (s *street) neighbour(name string, at ebpf.AttachType, anchor link.Anchor, verdict int32) *neighbour {
	s.t.Helper()
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R1, seen.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, verdict),
		asm.Return(),
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer prog.Close()
	n := &neighbour{seen: seen}
	if err := s.Server.Do(func() (err error) {
		n.link, err = link.AttachTCX(link.TCXOptions{Interface: s.ServerPort.Index, Program: prog, Attach: at, Anchor: anchor})
		return err
	}); err != nil {
		s.t.Fatalf("TCX: %v", err)
	}
	s.t.Cleanup(func() {
		n.link.Close()
		seen.Close()
	})
	return n
}

func (n *neighbour) frames(t *testing.T) (count uint64) {
	t.Helper()
	if err := n.seen.Lookup(uint32(0), &count); err != nil {
		t.Fatal(err)
	}
	return count
}

// order are the programs at a TCX hook.
func (s *street) order(at ebpf.AttachType) (names []string) {
	s.t.Helper()
	err := s.Server.Do(func() error {
		q, err := link.QueryPrograms(link.QueryOptions{Target: s.ServerPort.Index, Attach: at})
		if err != nil {
			return err
		}
		for _, one := range q.Programs {
			p, err := ebpf.NewProgramFromID(one.ID)
			if err != nil {
				return err
			}
			info, err := p.Info()
			p.Close()
			if err != nil {
				return err
			}
			name := info.Name
			if strings.HasPrefix(name, "tg_") {
				name = "tidegate"
			}
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

// Our programs run before one that ends the chain, as Cilium's do, or after one that passes packets on; both see the traffic, and
// nothing is lost when either attaches or detaches.
func TestTCOrder(t *testing.T) {
	for tag, c := range map[string]struct {
		order   string
		verdict int32
		want    []string
	}{
		"t1": {"first", tcOK, []string{"tidegate", "there"}},
		"t2": {"last", tcxNext, []string{"there", "tidegate"}},
	} {
		t.Run(c.order, func(t *testing.T) {
			s := newStreet(t, tag)
			in := s.neighbour("there", ebpf.AttachTCXIngress, link.Tail(), c.verdict)
			out := s.neighbour("there", ebpf.AttachTCXEgress, link.Tail(), c.verdict)
			l := world.StartLoad(t, 10, world.InTurn(s.dial))
			for _, takeover := range []string{"adopt", "translate"} {
				s.config("tc_order: "+c.order, "takeover: "+takeover)
				g := s.in.Start()
				s.protects(l, takeover)
				if got := s.order(ebpf.AttachTCXIngress); !slices.Equal(got, c.want) {
					t.Errorf("%s: at ingress stand %v, want %v", takeover, got, c.want)
				}
				if got := s.order(ebpf.AttachTCXEgress); takeover == "translate" && !slices.Equal(got, c.want) {
					t.Errorf("%s: at egress stand %v, want %v", takeover, got, c.want)
				}
				before, beforeOut := in.frames(t), out.frames(t)
				later := s.neighbour("later", ebpf.AttachTCXIngress, link.Head(), tcxNext)
				s.protects(l, takeover+", another before all")
				if in.frames(t) == before || out.frames(t) == beforeOut || later.frames(t) == 0 {
					t.Errorf("%s: neighbours see nothing", takeover)
				}
				later.link.Close()
				s.protects(l, takeover+", it is gone")
				g.Interrupt()
				l.More(20)
			}
			l.End("TC neighbours, " + c.order)
		})
	}
}
