// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"tidegate/internal/plane/hostbpf"
)

// The listeners that the packet path distinguishes; core/listener.h. A place is an address,
// or the unspecified one of a family, and a port.

// Why an adoption was refused; enum tg_refusal.
const (
	RefusalMPTCP       = 1
	RefusalUnexplained = 2
	RefusalUnproven    = 3

	// RefusalsProve: so many in a row are believed; TG_REFUSALS_PROVE.
	RefusalsProve = 3
)

// Listener is the listener that userspace found at a place.
type Listener struct {
	Cookie uint64 // of the socket; 0: there are several
	State  uint8  // ListenerOK or ListenerMPTCP
}

// ListenerNote is an entry with the packet path's notes.
type ListenerNote struct {
	Listener
	Why           uint8
	Refusals      int   // in a row
	PausedUntilNs int64 // MonotonicNs
}

// Doubted reports whether adoption is, or was until a moment ago, paused.
func (n ListenerNote) Doubted() bool { return n.State == ListenerOK && n.Refusals >= RefusalsProve }

func listenerKey(place netip.AddrPort) hostbpf.HostXdpTgListenerKey {
	var raw [16]byte
	k := hostbpf.HostXdpTgListenerKey{PortBe: place.Port()<<8 | place.Port()>>8, Family: 4}
	if place.Addr().Is4() {
		a := place.Addr().As4()
		copy(raw[:], a[:])
	} else {
		raw = place.Addr().As16()
		k.Family = 6
	}
	k.Addr.D[0] = binary.LittleEndian.Uint64(raw[:8])
	k.Addr.D[1] = binary.LittleEndian.Uint64(raw[8:])
	return k
}

func listenerPlace(k hostbpf.HostXdpTgListenerKey) netip.AddrPort {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], k.Addr.D[0])
	binary.LittleEndian.PutUint64(raw[8:], k.Addr.D[1])
	a := netip.AddrFrom16(raw)
	if k.Family == 4 {
		a = netip.AddrFrom4([4]byte(raw[:4]))
	}
	return netip.AddrPortFrom(a, k.PortBe<<8|k.PortBe>>8)
}

func readListeners(m *ebpf.Map) (map[netip.AddrPort]ListenerNote, error) {
	all := map[netip.AddrPort]ListenerNote{}
	var key hostbpf.HostXdpTgListenerKey
	var e hostbpf.HostXdpTgListenerEntry
	it := m.Iterate()
	for it.Next(&key, &e) {
		all[listenerPlace(key)] = ListenerNote{Listener{e.Cookie, e.State}, e.Why, int(e.Refusals), int64(e.PausedUntilNs)}
	}
	return all, it.Err()
}

// Listeners reads every entry, with the packet path's notes.
func (p *Plane) Listeners() (map[netip.AddrPort]ListenerNote, error) {
	return readListeners(p.maps[hostbpf.HostXdpMapTgListeners])
}

// SetListeners makes the table hold exactly `wanted`; `there` is its present content (Listeners).
// The packet path's notes on a socket stay as long as the socket.
func (p *Plane) SetListeners(there map[netip.AddrPort]ListenerNote, wanted map[netip.AddrPort]Listener) error {
	m := p.maps[hostbpf.HostXdpMapTgListeners]
	for place := range there {
		if _, ok := wanted[place]; ok {
			continue
		}
		if err := m.Delete(listenerKey(place)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("listener table: %w", err)
		}
	}
	for place, l := range wanted {
		if old, ok := there[place]; ok && old.Listener == l {
			continue
		}
		if err := m.Put(listenerKey(place), hostbpf.HostXdpTgListenerEntry{Cookie: l.Cookie, State: l.State}); err != nil {
			return fmt.Errorf("listener table, %s: %w; SYNs to listeners that are not in it go to the kernel", place, err)
		}
	}
	return nil
}

// AnswerBell lets the packet path ring again.
func (p *Plane) AnswerBell() error {
	if err := p.maps[hostbpf.HostTcMapTgBellRung].Put(uint32(0), uint32(0)); err != nil {
		return fmt.Errorf("bell: %w", err)
	}
	return nil
}

// AwaitBell blocks until the packet path asks for a look at the listeners; os.ErrClosed
// once Close has been called.
func (p *Plane) AwaitBell() error {
	_, err := p.bell.Read()
	if errors.Is(err, ringbuf.ErrClosed) {
		return os.ErrClosed
	}
	return err
}

// Listeners of a pinned instance; none if it has no such table.
func (p *Pinned) Listeners() (map[netip.AddrPort]ListenerNote, error) {
	if p.listeners == nil {
		return nil, nil
	}
	return readListeners(p.listeners)
}
