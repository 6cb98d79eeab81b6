// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// match says whether a packet fulfils a condition, as far as that can be known beforehand.
type match uint8

const (
	no      match = iota
	yes           // always
	maybe         // depends on what is not known here, and is alike for a SYN and for what follows
	differs       // depends on what is not alike
)

// and is both conditions.
func (m match) and(o match) match {
	if m == no || o == no {
		return no
	}
	return max(m, o)
}

func (m match) inverted(invert bool) match {
	switch {
	case invert && m == no:
		return yes
	case invert && m == yes:
		return no
	}
	return m
}

func matched(b bool) match {
	if b {
		return yes
	}
	return no
}

// octet is one byte of a packet or a register.
type octet struct {
	v       byte
	known   bool
	differs bool // not known, and not alike for a SYN and for what follows
}

// value is a run of octets.
type value []octet

func known(b ...byte) value {
	v := make(value, len(b))
	for i, c := range b {
		v[i] = octet{v: c, known: true}
	}
	return v
}

func unknown(size int) value { return make(value, size) }

func differing(size int) value {
	v := make(value, size)
	for i := range v {
		v[i].differs = true
	}
	return v
}

func known32(n uint32) value { return known(binary.NativeEndian.AppendUint32(nil, n)...) }

// bytes are the value if all of it is known.
func (v value) bytes() (b []byte, ok bool) {
	for _, o := range v {
		if !o.known {
			return nil, false
		}
		b = append(b, o.v)
	}
	return b, true
}

// someKnown reports whether a look-up of the value can be predicted at least in part.
func (v value) someKnown() bool {
	for _, o := range v {
		if o.known {
			return true
		}
	}
	return false
}

// unsure is maybe, or differs if any unknown octet does.
func (v value) unsure() match {
	for _, o := range v {
		if !o.known && o.differs {
			return differs
		}
	}
	return maybe
}

// equal says whether the value is this one under a mask; nil masks nothing.
func (v value) equal(to, mask []byte) match {
	if len(v) < len(to) {
		return maybe
	}
	m := yes
	for i, want := range to {
		bits := byte(0xff)
		if mask != nil {
			bits = mask[i]
		}
		switch o := v[i]; {
		case bits == 0:
		case o.known && (o.v^want)&bits != 0:
			return no
		case !o.known:
			m = max(m, value{o}.unsure())
		}
	}
	return m
}

// within says whether the value is between two others, which count as within.
func (v value) within(from, to []byte) match {
	if bytes.Equal(from, to) {
		return v.equal(from, nil)
	}
	b, ok := v.bytes()
	if !ok {
		return v.unsure()
	}
	return matched(bytes.Compare(b, from) >= 0 && bytes.Compare(b, to) <= 0)
}

// States of connection tracking, as nftables has them.
const (
	ctInvalid     = 1 << 0
	ctEstablished = 1 << 1
	ctRelated     = 1 << 2
	ctNew         = 1 << 3
	ctUntracked   = 1 << 6
)

// packet is one of those that rules are tried on: of an ordinary handshake, or what netfilter
// sees first of an adopted connection.
type packet struct {
	family family
	begins bool       // a SYN, or a SYN-ACK: what netfilter does not see of an adopted connection
	answer bool       // from the server; address and port are then its source
	addr   netip.Addr // of the server; invalid: not known
	port   uint16
	flags  byte
	device string // it comes in by; empty: not known
	index  uint32 // of the device
	state  uint32 // of connection tracking; 0: not known
	loose  bool   // what is not known of the state is alike
	local  match  // whether the server's address is one of this machine's

	ip, tcp value         // the headers, once they were asked for; not to be changed
	scratch *machineState // of the rule that is tried
}

const (
	tcpFIN, tcpSYN, tcpPSH, tcpACK, tcpECE, tcpCWR = 0x01, 0x02, 0x08, 0x10, 0x40, 0x80
)

// variants are the packets that a rule must treat alike.
func variants(f family, d Destination, device string, index uint32, local match, answer, loose bool) []*packet {
	base := packet{family: f, answer: answer, port: d.Port, device: device, index: index, local: local, loose: loose}
	if !d.Addr.IsUnspecified() {
		base.addr = d.Addr.Unmap()
	}
	first, later := []byte{tcpSYN, tcpSYN | tcpECE | tcpCWR}, []byte{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN}
	state := uint32(ctNew)
	if answer {
		first, state = []byte{tcpSYN | tcpACK, tcpSYN | tcpACK | tcpECE}, ctEstablished
		base.device, base.index = "", 0
	}
	var list []*packet
	for _, flags := range first {
		p := base
		p.flags, p.begins, p.state = flags, true, state
		list = append(list, &p)
	}
	for _, flags := range later {
		p := base
		p.flags, p.state = flags, state
		if !loose {
			p.state = ctInvalid
		}
		list = append(list, &p)
	}
	return list
}

// ctState is the state as nftables loads it.
func (p *packet) ctState() value {
	switch {
	case p.state != 0:
		return known32(p.state)
	case p.loose:
		return unknown(4)
	}
	return differing(4)
}

// inState says whether the state is one of a set, given as bits like those of nftables.
func (p *packet) inState(set uint32) match {
	if p.state == 0 {
		return p.ctState().unsure()
	}
	return matched(p.state&set != 0)
}

// address is one of the packet's two addresses.
func (p *packet) address(source bool) value {
	size := 4
	if p.family == ipv6 {
		size = 16
	}
	if source != p.answer || !p.addr.IsValid() {
		return unknown(size)
	}
	return known(p.addr.AsSlice()...)
}

// ports are source and destination port, as they stand in the packet.
func (p *packet) ports() value {
	port := known(binary.BigEndian.AppendUint16(nil, p.port)...)
	if p.answer {
		return append(port, unknown(2)...)
	}
	return append(unknown(2), port...)
}

// transport is the TCP header.
func (p *packet) transport() value {
	if p.tcp == nil {
		p.tcp = p.makeTransport()
	}
	return p.tcp
}

func (p *packet) makeTransport() value {
	v := append(p.ports(), differing(8)...) // sequence and acknowledgement numbers
	return append(append(append(v, differing(1)...), known(p.flags)...), differing(6)...)
}

// network is the header of IP, without options.
func (p *packet) network() value {
	if p.ip == nil {
		p.ip = p.makeNetwork()
	}
	return p.ip
}

func (p *packet) makeNetwork() value {
	if p.family == ipv4 {
		v := append(unknown(2), differing(4)...) // version, DSCP; length, identification
		v = append(append(v, unknown(3)...), known(unix.IPPROTO_TCP)...)
		v = append(v, differing(2)...) // checksum
		return append(append(v, p.address(true)...), p.address(false)...)
	}
	v := append(append(unknown(4), differing(2)...), unknown(2)...) // length; next header may be an extension
	return append(append(v, p.address(true)...), p.address(false)...)
}

// deviceName is a device's name as the kernel compares it.
func deviceName(name string) value {
	if name == "" {
		return unknown(unix.IFNAMSIZ)
	}
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return known(b...)
}

// knownPacket is a packet of which everything that can be known is known.
func knownPacket(f family, answer bool) *packet {
	addr := netip.AddrFrom4([4]byte{192, 0, 2, 1})
	if f == ipv6 {
		addr = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8})
	}
	return &packet{family: f, answer: answer, addr: addr, port: 1, device: "lo", index: 1, state: ctNew, loose: true}
}
