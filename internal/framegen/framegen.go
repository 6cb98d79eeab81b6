// SPDX-License-Identifier: Apache-2.0

// Package framegen builds odd frames: TCP segments to a service inside stacks of VLAN
// tags, IPv4 options, fragments and IPv6 extension headers, with option lists, lengths and
// checksums that are right or wrong. Each frame is intact except for a few faults, which it
// lists (Trait), so that a difference between two receivers can be traced to its cause.
//
// The same seed gives the same frames. The package sends nothing and must not know any
// gate: what a frame deserves is for a real kernel to say.
package framegen

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// Trait is a set of what is odd about a frame.
type Trait uint64

// What may be odd. Every host accepts a frame without traits.
const (
	VLAN            Trait                    = 1 << iota // one to three tags
	ForeignMAC                                           // to another host's address
	GroupMAC                                             // to a broadcast or multicast address
	GroupSourceMAC                                       // from such an address
	Trailer                                              // bytes after the IP packet
	Cut                                                  // the frame ends before the IP packet does
	OddSource                                            // an IP address that no client has
	OddDestination                                       // an IP address that is not the service's
	LowTTL                                               // a TTL or hop limit of 0 or 1
	IPOptions                                            // IPv4 options without effect
	SourceRoute                                          // loose or strict source routing
	IPChecksum                                           // wrong
	IPLength                                             // an inconsistent IPv4 header length or total length
	Fragment                                             // a first or a later fragment
	Extensions                                           // IPv6 extension headers, up to ShortExtensions bytes
	LongExtensions                                       // longer ones
	OddExtensions                                        // invalid or misplaced ones
	Flags                                                // SYN with other flags than ECE and CWR, or no SYN
	DataOffset                                           // an inconsistent or too small TCP header length
	Options                                              // an unusual list of TCP options
	Signed                                               // one well-formed TCP-MD5 or TCP-AO option
	BadlySigned                                          // TCP-MD5 or TCP-AO of another length, or more than one
	Checksum                                             // a wrong TCP checksum
	PartialChecksum                                      // only the pseudo-header summed, as a sender leaves it to the NIC
	Payload                                              // data in the SYN
	Port0                                                // source port 0
	UnroutedSource                                       // an IP address like a client's, but unreachable
	asked           = iota                               // traits before this one can be requested; the later ones result
	NoLength        = Trait(1 << (iota - 1))             // an IPv6 header that says 0 bytes follow, as a jumbogram's does
	traits          = iota - 1
)

var traitNames = [traits]string{"vlan", "foreign-mac", "group-mac", "group-source-mac", "trailer", "cut",
	"odd-source", "odd-destination", "low-ttl", "ip-options", "source-route", "ip-checksum", "ip-length", "fragment",
	"extensions", "long-extensions", "odd-extensions", "flags", "data-offset", "options", "signed", "badly-signed",
	"checksum", "partial-checksum", "payload", "port-0", "unrouted-source", "no-length"}

func (t Trait) String() string {
	var names []string
	for i, name := range traitNames {
		if t&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "plain"
	}
	return strings.Join(names, "+")
}

// ShortExtensions is how many bytes of IPv6 extension headers a frame may have before it
// gets the trait LongExtensions.
const ShortExtensions = 256

// Network is where the frames are sent: one link, one service.
type Network struct {
	SourceMAC, GateMAC [6]byte
	Service            [2]netip.Addr   // IPv4, IPv6
	Clients            [2]netip.Prefix // where the sources come from
	OnLink             [2]netip.Prefix // the receiver's own subnets
	Port               uint16
}

// Segment is the TCP segment that a frame carries. The zero Ports mean random ones.
type Segment struct {
	IPv6     bool
	Source   netip.Addr // zero: any of the clients
	SrcPort  uint16     // 0: any
	DstPort  uint16     // 0: the service's
	Seq, Ack uint32     // Seq: 0: any
	Flags    uint8
	Options  []byte // appended to the generator's own; nil: the generator chooses
}

// Frame is one frame.
type Frame struct {
	Bytes  []byte // valid until the next call
	Traits Trait
	IPv6   bool
	Source netip.Addr
	Port   uint16 // the source's
	Seq    uint32 // distinguishes the frames of one batch
}

// Generator builds frames for one network.
type Generator struct {
	net Network
	r   *rand.Rand
	buf []byte
}

// New makes a generator. Two with the same seed and network build the same frames.
func New(n Network, seed uint64) *Generator {
	return &Generator{net: n, r: rand.New(rand.NewPCG(seed, 0x7469646567617465)), buf: make([]byte, 0, 4096)}
}

// oneIn is true once in n times.
func (g *Generator) oneIn(n int) bool { return g.r.IntN(n) == 0 }

// pick returns one of the list.
func pick[T any](g *Generator, list ...T) T { return list[g.r.IntN(len(list))] }

// SYNFrom builds the next frame, which nearly always carries a SYN to the service, from
// this port.
func (g *Generator) SYNFrom(port uint16) Frame {
	return g.Build(Segment{Flags: flagSYN, IPv6: g.oneIn(2), SrcPort: port}, g.faults()&^Port0)
}

// Plain builds a segment without faults.
func (g *Generator) Plain(s Segment) Frame { return g.Build(s, 0) }

// Enveloped builds a given segment in an odd link and IP envelope; the segment itself
// has at most a wrong checksum.
func (g *Generator) Enveloped(s Segment) Frame {
	return g.Build(s, g.faults()&^(Flags|DataOffset|Options|Signed|BadlySigned|Payload|Port0|OddSource|UnroutedSource|OddDestination))
}

// Odd builds a given segment with random faults.
func (g *Generator) Odd(s Segment) Frame { return g.Build(s, g.faults()) }

// faults draws the traits: mostly one or two, sometimes many.
func (g *Generator) faults() Trait {
	var t Trait
	n := pick(g, 0, 1, 1, 1, 2, 2, 3)
	if g.oneIn(50) {
		n = 6
	}
	for range n {
		t |= 1 << g.r.IntN(asked)
	}
	return t
}

// Build builds a frame with this segment; requested traits that do not apply to it
// (an IPv4 option in an IPv6 packet) are omitted, and Frame.Traits lists those it has.
func (g *Generator) Build(s Segment, want Trait) Frame {
	f := Frame{IPv6: s.IPv6, Source: s.Source, Port: s.SrcPort, Seq: s.Seq}
	if f.Port == 0 && want&Port0 == 0 {
		f.Port = uint16(1024 + g.r.IntN(60000))
	} else if s.SrcPort == 0 {
		f.Traits |= Port0
	}
	if f.Seq == 0 {
		f.Seq = g.r.Uint32()
	}
	if s.IPv6 {
		want &^= IPOptions | SourceRoute | IPChecksum
	} else {
		want &^= Extensions | LongExtensions | OddExtensions
	}
	dst := g.net.Service[family(s.IPv6)]
	if !f.Source.IsValid() {
		f.Source = g.address(g.net.Clients[family(s.IPv6)])
		if want&OddSource != 0 {
			f.Source, f.Traits = g.oddSource(s.IPv6, dst), f.Traits|OddSource
		} else if want&UnroutedSource != 0 {
			f.Source, f.Traits = g.unroutedSource(s.IPv6), f.Traits|UnroutedSource
		}
	}
	if want&OddDestination != 0 {
		dst, f.Traits = g.oddDestination(s.IPv6), f.Traits|OddDestination
	}
	tcp := g.tcp(&f, s, want, dst)
	g.buf = g.buf[:0]
	g.ethernet(&f, want)
	l3 := len(g.buf)
	if s.IPv6 {
		g.ipv6(&f, want, dst, tcp)
	} else {
		g.ipv4(&f, want, dst, tcp)
	}
	g.ends(&f, want, l3)
	f.Bytes = g.buf
	return f
}

func family(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

// ends adds a trailer or cuts the frame.
func (g *Generator) ends(f *Frame, want Trait, l3 int) {
	switch {
	case want&Trailer != 0:
		f.Traits |= Trailer
		for range 1 + g.r.IntN(40) {
			g.buf = append(g.buf, byte(g.r.Uint32()))
		}
	case want&Cut != 0:
		f.Traits |= Cut
		g.buf = g.buf[:l3+g.r.IntN(len(g.buf)-l3)]
	}
}

// ethernet writes the link header with its tags. The ethertype is the IP version's.
func (g *Generator) ethernet(f *Frame, want Trait) {
	dst, src := g.net.GateMAC, g.net.SourceMAC
	switch {
	case want&ForeignMAC != 0:
		f.Traits |= ForeignMAC
		dst = [6]byte{0x02, 0x74, byte(g.r.Uint32()), byte(g.r.Uint32()), byte(g.r.Uint32()), byte(g.r.Uint32())}
	case want&GroupMAC != 0:
		f.Traits |= GroupMAC
		dst = pick(g, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, [6]byte{0x01, 0, 0x5e, 0, 0, 1}, [6]byte{0x33, 0x33, 0, 0, 0, 1})
	}
	if want&GroupSourceMAC != 0 {
		f.Traits |= GroupSourceMAC
		src = pick(g, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, [6]byte{0x01, 0, 0x5e, 0, 0, 9})
	}
	g.buf = append(append(g.buf, dst[:]...), src[:]...)
	if want&VLAN != 0 {
		f.Traits |= VLAN
		for range pick(g, 1, 1, 2, 2, 3) {
			g.buf = binary.BigEndian.AppendUint16(g.buf, pick[uint16](g, 0x8100, 0x8100, 0x88a8, 0x9100))
			g.buf = binary.BigEndian.AppendUint16(g.buf, pick(g, 0, 5, uint16(g.r.Uint32())))
		}
	}
	if f.IPv6 {
		g.buf = append(g.buf, 0x86, 0xdd)
	} else {
		g.buf = append(g.buf, 0x08, 0x00)
	}
}

// address is a random one of the prefix, without its first and last.
func (g *Generator) address(p netip.Prefix) netip.Addr {
	host := 1 + g.r.Uint32N(1<<min(16, p.Addr().BitLen()-p.Bits())-2)
	b := p.Masked().Addr().AsSlice()
	n := len(b)
	binary.BigEndian.PutUint32(b[n-4:], binary.BigEndian.Uint32(b[n-4:])|host)
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (g *Generator) oddSource(ipv6 bool, dst netip.Addr) netip.Addr {
	if ipv6 {
		return pick(g, netip.MustParseAddr("::"), netip.MustParseAddr("::1"), netip.MustParseAddr("ff02::1"),
			netip.MustParseAddr("::ffff:192.0.2.1"), dst)
	}
	return pick(g, netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("0.1.2.3"), netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("255.255.255.255"), dst)
}

// unroutedSource returns an address that only a routing table distinguishes from a client's: of another
// scope, not assigned, or the broadcast address of the link.
func (g *Generator) unroutedSource(ipv6 bool) netip.Addr {
	if ipv6 {
		return pick(g, netip.MustParseAddr("fe80::9"), netip.MustParseAddr("::192.0.2.1"))
	}
	return pick(g, netip.MustParseAddr("240.0.0.1"), g.broadcast())
}

// broadcast is the last address of the IPv4 link.
func (g *Generator) broadcast() netip.Addr {
	last := g.net.OnLink[0].Masked().Addr().As4()
	binary.BigEndian.PutUint32(last[:], binary.BigEndian.Uint32(last[:])|1<<(32-g.net.OnLink[0].Bits())-1)
	return netip.AddrFrom4(last)
}

func (g *Generator) oddDestination(ipv6 bool) netip.Addr {
	link := g.net.OnLink[family(ipv6)]
	if ipv6 {
		return pick(g, netip.MustParseAddr("::1"), netip.MustParseAddr("ff02::1"), netip.MustParseAddr("::"),
			netip.MustParseAddr("2001:db8::9"), link.Masked().Addr(), g.address(link))
	}
	return pick(g, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("255.255.255.255"),
		netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("0.0.0.0"), g.broadcast(), link.Masked().Addr())
}
