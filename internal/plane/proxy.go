// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/schema"
)

// Types of the map ABI that only the proxy has.
type (
	ProxySettings = proxybpf.ProxyXdpTgProxySettings
	ProxyService  = proxybpf.ProxyXdpTgProxyService
	Flow          = proxybpf.ProxyXdpTgFlow
	FlowKey4      = proxybpf.ProxyXdpTgFlowKey4
	FlowKey6      = proxybpf.ProxyXdpTgFlowKey6
	Learned       = proxybpf.ProxyXdpTgLearned
	ServerKey     = proxybpf.ProxyXdpTgServerKey
)

// What a service fixes, what it does with first data, and strategies.
const (
	FixedMSS    = schema.FixedMSS
	FixedWScale = schema.FixedWScale

	FirstDataZeroWindow = schema.FirstDataZeroWindow
	FirstDataNotify     = schema.FirstDataNotify

	StrategyCookie     = schema.StrategyCookie
	StrategyAuthCookie = schema.StrategyAuthCookie
	StrategyAuthFull   = schema.StrategyAuthFull
	StrategyAuthWrong  = schema.StrategyAuthWrong
	StrategyAuthTTL    = schema.StrategyAuthTTL
	StrategyCache      = schema.StrategyCache
)

// Slots of a swap-out map, bpf/lib/proxy_maps.h.
const (
	slotActive  = uint32(0)
	slotHistory = uint32(1)
)

// ProxyOptions say how a proxy's plane is made.
type ProxyOptions struct {
	Options
	BPFFS   string
	Flows   int // entries of each family's flow table, active and history each
	Sources int // entries of the whitelist, likewise
	// WhiteBitsV4 is the length of the prefixes that the IPv4 whitelist has two bits
	// for each of; 0: it is a hash, as for IPv6.
	WhiteBitsV4 int
	Halves      int // places in the SYN cache; rounded up to whole buckets, a power of two
}

// Proxy is the plane of a proxy.
type Proxy struct {
	*Plane
	white *whiteBits
	inner map[string]*ebpf.MapSpec // of the swap-out maps, by the outer map's name
	slots map[string][2]*ebpf.Map  // the maps in its slots, active and history
	own   ProxySettings            // as last written

	twin      *ebpf.Program // of ports that send twins
	twinPorts *ebpf.MapSpec // of the ports of one twin

	nearAgain time.Time // when copies of flows are tried again
}

// presence of core/proxy.h: bits for each table, two generations each.
const (
	presenceWords   = 1 << 15
	presenceNear    = 5                             // TG_PRESENCE_FRONT: a bit of a front stands for 2^5
	presenceFront   = presenceWords >> presenceNear // words of a front, which stand after all tables'
	presenceFlows   = 0
	presenceSources = 1
	presenceTables  = 2
)

// waitingPlaces is how many flows of a family may wait for a place among `flows`: a quarter as
// many, but no fewer than CPUs keep at hand of such a table, and no more than 65,536 (17 MB).
func waitingPlaces(flows int) uint32 {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = 1
	}
	return uint32(max(min(flows/4, 1<<16), 1024, 256*cpus))
}

// halfWays is the number of places in a bucket of the SYN cache, core/syn_cache.h.
const halfWays = 8

// keptByProxy are the maps that a new process of an instance takes over, so that a
// restart loses neither connection nor whitelist.
var keptByProxy = []keptTables{
	{"all that was translated or whitelisted", []string{VarProxy}},
	{"which connections and sources are in no table: until the tables have been swapped twice, each SYN is looked up", []string{VarPresence}},
	{"translated connections over IPv4", []string{proxybpf.ProxyXdpMapTgFlows4}},
	{"translated connections over IPv6", []string{proxybpf.ProxyXdpMapTgFlows6}},
	{"the last segments of connections over IPv4 that have just ended", []string{proxybpf.ProxyXdpMapTgClosed4}},
	{"the last segments of connections over IPv6 that have just ended", []string{proxybpf.ProxyXdpMapTgClosed6}},
	{"whitelisted sources", []string{proxybpf.ProxyXdpMapTgWhite, proxybpf.ProxyXdpMapTgWhite6}},
	{"whitelisted sources of the bitmap", []string{proxybpf.ProxyXdpMapTgWhiteBits, proxybpf.ProxyXdpMapTgWhiteMarks}},
	{"handshakes under way of strategy cache", []string{proxybpf.ProxyXdpMapTgHalfopens, proxybpf.ProxyXdpMapTgHalfFronts}},
	{"what servers were found to give", []string{proxybpf.ProxyXdpMapTgServers}},
	{"connections that have carried nothing yet", []string{proxybpf.ProxyXdpMapTgWaiting4, proxybpf.ProxyXdpMapTgWaiting6}},
	{"what each source holds of the flow tables", []string{proxybpf.ProxyXdpMapTgShares}},
	{"how many connections each source holds, for source_limits", []string{proxybpf.ProxyXdpMapTgHeld}},
}

// LoadProxy loads the proxy's programs and maps into the kernel. Nothing is
// attached or pinned yet. Flows and whitelist of an earlier process of the same
// instance are taken over.
func LoadProxy(o ProxyOptions) (*Proxy, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	p := &Proxy{
		Plane: &Plane{bonded: o.Bonds, keySlots: powerOfTwo(o.KeySlots), maps: map[string]*ebpf.Map{}},
		inner: map[string]*ebpf.MapSpec{}, slots: map[string][2]*ebpf.Map{},
	}
	if err := p.loadProxy(o); err != nil {
		p.Close()
		return nil, explain(err)
	}
	return p, nil
}

func (p *Proxy) loadProxy(o ProxyOptions) error {
	spec, err := named(proxybpf.LoadProxyXdp)()
	if err != nil {
		return err
	}
	for name, entries := range map[string]int{
		proxybpf.ProxyXdpMapTgFlows4: o.Flows,
		proxybpf.ProxyXdpMapTgFlows6: o.Flows,
		proxybpf.ProxyXdpMapTgWhite:  o.Sources,
		proxybpf.ProxyXdpMapTgWhite6: o.Sources,
	} {
		inner := spec.Maps[name].InnerMap.Copy()
		inner.Name, inner.MaxEntries = name, uint32(entries)
		p.inner[name] = inner
	}
	p.twinPorts = spec.Maps[proxybpf.ProxyXdpMapTgTwins].InnerMap.Copy()
	ports, err := portSlots()
	if err != nil {
		return err
	}
	buckets := uint32(powerOfTwo(2*o.Halves) / (2 * halfWays)) // 16 is the least power
	p.sizes = sizesFor(o.Services)
	maps.Copy(p.sizes, map[string]uint32{
		proxybpf.ProxyXdpMapTgHalfopens:  buckets,
		proxybpf.ProxyXdpMapTgHalfFronts: buckets,
		proxybpf.ProxyXdpMapTgMacs:       ports,
		proxybpf.ProxyXdpMapTgWaiting4:   waitingPlaces(o.Flows),
		proxybpf.ProxyXdpMapTgWaiting6:   waitingPlaces(o.Flows),
	})
	if o.WhiteBitsV4 > 0 {
		words := whiteWords(o.WhiteBitsV4)
		p.sizes[proxybpf.ProxyXdpMapTgWhiteBits] = words
		p.sizes[proxybpf.ProxyXdpMapTgWhiteMarks] = whiteMarks(words)
	}
	p.sized(spec)
	if o.Instance != "" {
		dir := PinDir(o.BPFFS, o.Instance)
		p.takeOverTables(spec, dir, keptByProxy, func(name string, outer *ebpf.Map) bool { return p.sameInner(dir, name, outer) })
	}
	_, tables := p.maps[VarProxy]
	_, bits := p.maps[VarPresence]
	if _, taken := p.maps[proxybpf.ProxyXdpMapTgWhiteBits]; !taken && o.WhiteBitsV4 > 0 {
		if err := memoryFor(uint64(whiteWords(o.WhiteBitsV4)) * 8); err != nil {
			return err
		}
	}
	err = p.loadAll([]object{
		{parsed(spec), proxybpf.ProxyXdpProgTgProxyXdp, &p.xdp},
		{proxybpf.LoadProxyTc, proxybpf.ProxyTcProgTgProxyTc, &p.tc},
		{proxybpf.LoadProxyTwin, proxybpf.ProxyTwinProgTgProxyTwin, &p.twin},
	})
	if err != nil {
		return err
	}
	if err := p.maps[VarProxy].Lookup(uint32(0), &p.own); err != nil {
		return err
	}
	if tables && !bits {
		if err := p.allPresent(); err != nil {
			return err
		}
	}
	p.own.CacheMask = p.sizes[proxybpf.ProxyXdpMapTgHalfopens] - 1
	p.own.WhiteV4Len = uint8(o.WhiteBitsV4)
	p.own.Near, p.own.Twins = 1, 0
	p.own.MaxFlows, p.own.MaxWaiting = uint32(o.Flows), waitingPlaces(o.Flows)
	if o.WhiteBitsV4 > 0 {
		if p.white, err = mapWhite(p.maps[proxybpf.ProxyXdpMapTgWhiteBits], p.maps[proxybpf.ProxyXdpMapTgWhiteMarks]); err != nil {
			return err
		}
	}
	for name := range p.inner {
		if err := p.fillSlots(PinDir(o.BPFFS, o.Instance), name); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil
}

// sameInner reports whether the maps in the slots are of the kind we would put there.
// A changed size is no obstacle: it takes effect at the next swap.
func (p *Proxy) sameInner(dir, name string, outer *ebpf.Map) bool {
	want, isOuter := p.inner[name]
	if !isOuter {
		return true
	}
	m, err := openSlot(dir, name, outer, slotActive)
	if err != nil {
		return false
	}
	defer m.Close()
	return m.KeySize() == want.KeySize && m.ValueSize() == want.ValueSize
}

// fillSlots gives an outer map its first two inner maps, or opens the existing ones.
func (p *Proxy) fillSlots(dir, name string) error {
	var slots [2]*ebpf.Map
	for i, slot := range []uint32{slotActive, slotHistory} {
		m, err := openSlot(dir, name, p.maps[name], slot)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			if m, err = ebpf.NewMap(p.inner[name]); err == nil {
				err = p.maps[name].Put(slot, m)
			}
		}
		if err != nil {
			if m != nil {
				m.Close()
			}
			if i > 0 {
				slots[0].Close()
			}
			return err
		}
		slots[i] = m
	}
	p.slots[name] = slots
	return nil
}

// Close releases this process's handles.
func (p *Proxy) Close() {
	if p.white != nil {
		p.white.close()
		p.white = nil
	}
	p.closeSlots()
	if p.twin != nil {
		p.twin.Close()
	}
	p.Plane.Close()
}

// FlowsForNewcomers is how many of `flows` places newcomers may take, tg_share_newcomers of
// core/share.h: the others are for flows of the other generation.
func FlowsForNewcomers(flows int) int { return flows - flows/8 }

// FlowsUsed is how many flows the fuller family's active table has, as the packet path counts.
func (p *Proxy) FlowsUsed() (used int, err error) {
	for family := range uint32(2) {
		var n uint32
		if err := p.maps[proxybpf.ProxyXdpMapTgShares].Lookup((family*2+uint32(p.own.FlowsGen&1))*shareCells, &n); err != nil {
			return 0, fmt.Errorf("shares of the flow tables: %w", err)
		}
		used = max(used, int(int32(n)))
	}
	return used, nil
}

// Active returns the active map of a swap-out map, for tests and benchmarks; the
// caller closes it.
func (p *Proxy) Active(name string) (m *ebpf.Map, err error) {
	err = p.maps[name].Lookup(slotActive, &m)
	return m, err
}

// ProxySettings are those in force: at first those of the earlier process, if its
// tables were taken over.
func (p *Proxy) ProxySettings() ProxySettings { return p.own }

// SetProxy writes the proxy's settings. Generations and sizes are set by this package.
func (p *Proxy) SetProxy(s ProxySettings) error {
	s.FlowsGen, s.SourcesGen, s.CacheMask, s.WhiteV4Len = p.own.FlowsGen, p.own.SourcesGen, p.own.CacheMask, p.own.WhiteV4Len
	s.Near, s.FlowsTurn, s.Twins = p.own.Near, p.own.FlowsTurn, p.own.Twins
	s.MaxFlows, s.MaxWaiting = p.own.MaxFlows, p.own.MaxWaiting
	if err := p.maps[VarProxy].Put(uint32(0), s); err != nil {
		return fmt.Errorf("proxy settings: %w", err)
	}
	p.own = s
	return nil
}

// SetStrategy writes the proxy's entry for one service.
func (p *Proxy) SetStrategy(id uint32, s ProxyService) error {
	if err := SetEntry(p.maps[VarStrategies], id, s); err != nil {
		return fmt.Errorf("strategy table: %w", err)
	}
	return nil
}

// LearnServer records what a server offers, for tests and benchmarks; otherwise the
// packet path learns it.
func (p *Proxy) LearnServer(server netip.AddrPort, l Learned) error {
	key := ServerKey{Family: 6, PortBe: server.Port()<<8 | server.Port()>>8}
	if server.Addr().Is4() {
		key.Family = 4
	}
	for i, b := range server.Addr().AsSlice() {
		key.Addr.D[i/8] |= uint64(b) << (i % 8 * 8)
	}
	if err := p.maps[proxybpf.ProxyXdpMapTgServers].Put(key, l); err != nil {
		return err
	}
	hash := serverHash(&key, p.own.PresenceSalt)
	gives := 1<<63 | uint64(l.Ecn&1)<<26 | uint64(l.Timestamps&1)<<25 | uint64(l.Sack&1)<<24 | uint64(l.Wscale)<<16 | uint64(l.Mss)
	return SetEntry(p.maps[VarServersNear], uint32(hash>>52), [2]uint64{hash ^ gives, gives})
}

// serverHash is tg_server_hash of core/servers.h.
func serverHash(k *ServerKey, salt uint64) uint64 {
	h := (k.Addr.D[0]^salt)*mix1 + uint64(k.PortBe)
	if k.Family == 6 {
		h = ((h ^ h>>32) + k.Addr.D[1]) * mix3
	}
	return (h ^ h>>29) * mix2
}

// SetPorts sets the packet path's list of this box's ports: frames are sent only
// through these, and a router takes only frames addressed to them.
func (p *Proxy) SetPorts(interfaces []string) error {
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		index := uint32(dev.Index)
		if err := p.maps[proxybpf.ProxyXdpMapTgDevices].Put(index, index); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		var mac uint64
		for i, b := range dev.HardwareAddr {
			mac |= uint64(b) << (8 * i)
		}
		if len(dev.HardwareAddr) != 6 {
			return fmt.Errorf("interface %s: is no Ethernet device; the proxy needs one", name)
		}
		if err := p.maps[proxybpf.ProxyXdpMapTgMacs].Put(index, mac); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
	}
	return nil
}
