// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"
	mrand "math/rand/v2"
	"net"
	"testing"
)

// peer is a connection with only an address and a close.
type peer struct {
	net.Conn
	addr   string
	closed bool
}

func (p *peer) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", p.addr)
	if err != nil {
		panic(err)
	}
	return a
}

func (p *peer) Close() error { p.closed = true; return nil }

func enter(s *Slots, addr string) (*peer, func(), bool) {
	p := &peer{addr: addr}
	leave, ok := s.Enter(p)
	return p, leave, ok
}

func TestOneNetworkHasFewSlots(t *testing.T) {
	for network, others := range map[string][2]string{
		"192.0.2.1:%d":             {"192.0.2.2:1", "[::ffff:192.0.2.1]:1"},
		"[2001:db8:0:ff%02x::1]:1": {"[2001:db8:0:100::1]:1", "[2001:db8:0:ff77::1%1]:1"},
	} {
		s := New()
		var leave func()
		for i := range 20 {
			_, l, ok := enter(s, fmt.Sprintf(network, i+1))
			if ok != (i < MaxNetwork) {
				t.Fatalf("%s: connection %d: %v", network, i, ok)
			}
			if ok {
				leave = l
			}
		}
		if _, _, ok := enter(s, others[0]); !ok {
			t.Errorf("%s: another network is refused", network)
		}
		if _, _, ok := enter(s, others[1]); ok {
			t.Errorf("%s: the same network in another dress", network)
		}
		leave()
		leave() // a second call does nothing
		if _, _, ok := enter(s, fmt.Sprintf(network, 99)); !ok {
			t.Errorf("%s: refused although one has left", network)
		}
		if got := s.Count(); got.Network != 20-MaxNetwork+1 || got.Evicted != 0 {
			t.Errorf("%+v", got)
		}
	}
}

func TestTheOldestGivesWay(t *testing.T) {
	s := New()
	var peers []*peer
	var leaves []func()
	for i := range Max + 10 {
		p, leave, ok := enter(s, fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255))
		if !ok {
			t.Fatalf("newcomer %d is refused", i)
		}
		peers, leaves = append(peers, p), append(leaves, leave)
	}
	for i, p := range peers {
		if p.closed != (i < 10) {
			t.Errorf("connection %d closed: %v", i, p.closed)
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if s.InUse() != 0 || len(s.networks) != 0 {
		t.Errorf("%d slots in use, %d networks known after all have left", s.InUse(), len(s.networks))
	}
}

// In any sequence, no bound is exceeded and nothing is left over.
func TestSlotsProperty(t *testing.T) {
	random := mrand.New(mrand.NewPCG(1, 1))
	s := New()
	var leaves []func()
	for range 50_000 {
		if len(leaves) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(leaves))
			leaves[i]()
			if random.IntN(2) == 0 {
				leaves[i] = leaves[len(leaves)-1]
				leaves = leaves[:len(leaves)-1]
			}
			continue
		}
		if _, leave, ok := enter(s, fmt.Sprintf("10.0.0.%d:1", random.IntN(200))); ok {
			leaves = append(leaves, leave)
		}
		total := 0
		for p, n := range s.networks {
			if total += n; n < 1 || n > MaxNetwork {
				t.Fatalf("%v holds %d", p, n)
			}
		}
		if total != s.InUse() || total > Max {
			t.Fatalf("%d slots by network, %d in use", total, s.InUse())
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if s.InUse() != 0 || len(s.networks) != 0 {
		t.Error("something is left over")
	}
}
