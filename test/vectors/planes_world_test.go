// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"

	"tidegate/internal/framegen"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
)

// planesEpochLen is so long that no test reaches its end.
const planesEpochLen = uint64(1e12)

// planesWorld is one random configuration of a proxy, the same for every plane.
type planesWorld struct {
	number    int
	services  []planesService
	secret    keys.Secret
	epoch     uint64   // the planes' clocks are in its middle
	keys      []uint64 // epochs whose keys are loaded
	staleDrop bool
	aheadNs   uint64 // how far verifiers of cookies are ahead: from clock_skew
	v4Mask    uint32 // which bits of an IPv4 source count, as on the wire
	v6Mask    uint64
	flows     bool               // translated connections are put into the tables
	lists     *sourcelist.Table  // nil: there are none
	placesOn  [planesPlaces]bool // where SYNs are answered under mode auto
	defers    bool               // XDP answers a server's SYN-ACK with the client's window alone: defer_accept
}

type planesService struct {
	id   uint32
	port uint16
	plane.Service
	strategy, firstData, fixed uint8
}

var strategyNames = schema.StrategyWords()

func (w *planesWorld) String() string {
	s := &w.services[0]
	return fmt.Sprintf("world %d, %s, mode %d, first data %d, fixed %d, %d keys", w.number, strategyNames[s.strategy], s.Mode, s.firstData, s.fixed, len(w.keys))
}

// keepsData reports whether gates keep the first data of clients, which only DPDK does.
func (w *planesWorld) keepsData() bool { return w.services[0].firstData == schema.FirstDataStore }

// name distinguishes worlds whose differences have different causes.
func (w *planesWorld) name() string {
	s := &w.services[0]
	name := fmt.Sprintf("%s, mode %d", strategyNames[s.strategy], s.Mode)
	if w.aheadNs > 0 {
		name += ", clock_skew"
	}
	return name
}

// newPlanesWorld: strategies in turn, modes and all else at random.
func newPlanesWorld(r *rand.Rand, number int) *planesWorld {
	one := func(of ...uint8) uint8 { return of[r.IntN(len(of))] }
	service := func(id uint32, port uint16) planesService {
		return planesService{id: id, port: port, Service: plane.Service{
			MssV4: []uint16{1460, 1452, 8960}[r.IntN(3)], MssV6: []uint16{1440, 1220, 8940}[r.IntN(3)],
			Window: []uint16{65535, 29200, 1}[r.IntN(3)], Wscale: one(7, 7, 0, 14, 15), Sack: one(1, 1, 1, 0), Timestamps: one(1, 1, 1, 0), Ecn: one(1, 0),
			Mode: one(plane.ModeAlways, plane.ModeAlways, plane.ModeAlways, plane.ModeAlways, plane.ModeMonitor, plane.ModeMonitor, plane.ModeOff),
			// all answered, all refused, or all passed; anything in between depends on the clock
			SignedCostUs: []uint32{0, math.MaxUint32, 1}[r.IntN(3)],
			Verify:       uint8(number >> 1 & 1)}, // of a mode that answers nothing, some of whose clients have cookies
			strategy: uint8(r.IntN(len(strategyNames))), firstData: one(plane.FirstDataZeroWindow, plane.FirstDataNotify),
			fixed: one(0, 0, plane.FixedMSS, plane.FixedWScale, plane.FixedMSS|plane.FixedWScale)}
	}
	w := &planesWorld{number: number, services: []planesService{service(1, 80), service(2, 443)}, epoch: 1000 + r.Uint64N(1000),
		staleDrop: r.IntN(2) == 0, v4Mask: []uint32{math.MaxUint32, 0xffffff}[r.IntN(2)], v6Mask: []uint64{math.MaxUint64, 0xffffffffffff}[r.IntN(2)],
		flows: r.IntN(3) == 0}
	if number%7 == 6 { // some of every strategy
		w.services[0].firstData, w.services[1].firstData = schema.FirstDataStore, schema.FirstDataStore
	}
	w.services[0].strategy = uint8(number % len(strategyNames))
	for i := range w.services {
		if s := &w.services[i]; number%3 != 0 && strategyNames[s.strategy] != "cache" { // as internal/instance has it
			s.FlowKey = uint32(number)*0x9e3779b1 | 1
		}
	}
	for i := range w.secret {
		w.secret[i] = byte(r.Uint32())
	}
	switch r.IntN(8) {
	case 0:
	case 1:
		w.keys = []uint64{w.epoch - 1}
	default:
		w.keys = []uint64{w.epoch - 2, w.epoch - 1, w.epoch, w.epoch + 1, w.epoch + 2}
	}
	if !slices.Contains(w.keys, w.epoch) {
		for i := range w.services { // a full cache without a key evicts the oldest; on DPDK, whose clock stands still, all are as old
			if w.services[i].strategy == plane.StrategyCache {
				w.services[i].strategy = plane.StrategyCookie
			}
		}
	}
	if number%5 == 1 { // some of every strategy
		w.lists = deniedClients(w.network())
	}
	if r.IntN(2) == 0 {
		w.aheadNs = []uint64{planesEpochLen * 3 / 4, planesEpochLen / 4}[r.IntN(2)]
	}
	return w
}

// newProxyWorld is one with some services in mode auto, which means something else at other roles.
func newProxyWorld(r *rand.Rand, number int) *planesWorld {
	w := newPlanesWorld(r, number)
	if number%7 == 3 { // some of every strategy
		w.automate(r)
	}
	return w
}

// automate puts the services in mode auto, as the detector has them: nothing is answered, or some places, or everything, or nothing any more.
func (w *planesWorld) automate(r *rand.Rand) {
	places := r.IntN(3)
	for at := range w.placesOn {
		w.placesOn[at] = places == 2 || places == 1 && r.IntN(2) == 0
	}
	for i := range w.services {
		s := &w.services[i]
		s.Automatic, s.Mode, s.Verify = 1, plane.ModeAuto, uint8(r.IntN(2))
		if r.IntN(4) == 0 {
			s.Mode, s.Verify = plane.ModeAlways, 1
		}
	}
}

// network is the source of the world's frames: no tuple occurs in two of 20,000 worlds, for XDP's tables of flows are not emptied between them.
func (w *planesWorld) network() framegen.Network {
	return framegen.Network{SourceMAC: [6]byte{2, 0, 0, 0, 0, 2}, GateMAC: [6]byte{2, 0, 0, 0, 0, 1}, Port: 80,
		Service: [2]netip.Addr{serverAddrs[0], serverAddrs[1]},
		Clients: [2]netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(10 + w.number>>8), byte(w.number), 0, 0}), 16),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(1 + w.number>>8), byte(w.number)}), 96)},
		OnLink: [2]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:2::/64")}}
}

// deniedClients denies a quarter of the clients, of which it allows a quarter again.
func deniedClients(n framegen.Network) *sourcelist.Table {
	var all []sourcelist.Entry
	for _, p := range n.Clients {
		all = append(all, sourcelist.NewEntry(netip.PrefixFrom(p.Addr(), p.Bits()+2), sourcelist.Deny),
			sourcelist.NewEntry(netip.PrefixFrom(p.Addr(), p.Bits()+4), sourcelist.Allow))
	}
	table, err := sourcelist.Build(all)
	if err != nil {
		panic(err)
	}
	return table
}

// nowNs is the middle of an epoch, of Unix time.
func nowNs(epoch uint64) uint64 { return epoch*planesEpochLen + planesEpochLen/2 }
