// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Matches and targets of iptables, which the legacy tables hold and nftables too, in those of
// its rules that iptables-nft writes. The structures are those of linux/netfilter/xt_*.h.

// xtMatch tries one match on a packet.
type xtMatch func(p *packet, out *outcome, revision uint8, info []byte) bool

var xtMatches = map[string]xtMatch{
	"tcp": matchTCP, "multiport": matchMultiport, "conntrack": matchConntrack, "state": matchState,
	"addrtype": matchAddrtype, "comment": matchAlways, "nfacct": matchAlways,
	"udp": matchNever, "udplite": matchNever, "icmp": matchNever, "icmp6": matchNever, "sctp": matchNever, "dccp": matchNever,
	"ah": matchNever, "esp": matchNever, "mh": matchNever, "ipcomp": matchNever,
}

// xtAlike are matches that tell nothing that differs between a SYN and what follows.
var xtAlike = map[string]bool{"mark": true, "connmark": true, "connlabel": true, "set": true, "mac": true,
	"iprange": true, "pkttype": true, "rpfilter": true, "policy": true, "dscp": true, "tos": true, "ttl": true, "hl": true,
	"realm": true, "physdev": true, "time": true, "helper": true, "cpu": true, "devgroup": true, "cluster": true,
	"ipv6header": true, "rt": true, "frag": true, "hbh": true, "dst": true, "eui64": true, "srh": true}

// xtUnlike are matches that see something that differs.
var xtUnlike = map[string]string{"length": itsLength, "connbytes": itsLength, "u32": itsNumbers, "string": "its data",
	"bpf": itsNumbers, "osf": tcpOptions, "tcpmss": tcpOptions, "ecn": tcpFlags, "socket": itsSocket, "cgroup": itsSocket}

// xtLimits are matches that count packets or connections, or are random.
var xtLimits = map[string]bool{"limit": true, "hashlimit": true, "connlimit": true, "recent": true, "quota": true, "statistic": true,
	"rateest": true}

// testMatch adds a match to the outcome; false if the rule goes no further.
func testMatch(p *packet, out *outcome, name string, revision uint8, info []byte) bool {
	if f, there := xtMatches[name]; there {
		return f(p, out, revision, info)
	}
	if what, there := xtUnlike[name]; there {
		return out.require(differs, what)
	}
	switch {
	case xtAlike[name]:
		return out.require(maybe, "")
	case xtLimits[name]:
		out.limits = true
		return out.require(maybe, "")
	case name == "owner" && p.answer:
		return out.require(maybe, "")
	}
	out.obscure = firstOf(out.obscure, fmt.Sprintf("match %q", name))
	return out.require(maybe, "")
}

func matchAlways(_ *packet, _ *outcome, _ uint8, _ []byte) bool { return true }

func matchNever(_ *packet, out *outcome, _ uint8, _ []byte) bool { return out.require(no, "") }

func cutShort(out *outcome, name string) bool {
	out.obscure = firstOf(out.obscure, fmt.Sprintf("match %q of another revision", name))
	return out.require(maybe, "")
}

// portIn compares a port, which may not be known, with a range.
func portIn(v value, low, high uint16) match {
	if low == 0 && high == math.MaxUint16 {
		return yes
	}
	return v.within(binary.BigEndian.AppendUint16(nil, low), binary.BigEndian.AppendUint16(nil, high))
}

// matchTCP: struct xt_tcp.
func matchTCP(p *packet, out *outcome, revision uint8, info []byte) bool {
	if len(info) < 12 || revision != 0 {
		return cutShort(out, "tcp")
	}
	const invertSource, invertDestination, invertFlags = 1, 2, 4
	half := func(at int) uint16 { return binary.NativeEndian.Uint16(info[at:]) }
	option, mask, compare, invert := info[8], info[9], info[10], info[11]
	ports := p.ports()
	if !out.require(portIn(ports[:2], half(0), half(2)).inverted(invert&invertSource != 0), "") ||
		!out.require(portIn(ports[2:], half(4), half(6)).inverted(invert&invertDestination != 0), "") {
		return false
	}
	if (mask != 0 || compare != 0) && !out.require(matched((p.flags&mask == compare) != (invert&invertFlags != 0)), tcpFlags) {
		return false
	}
	return option == 0 || out.require(differs, tcpOptions)
}

// matchMultiport: struct xt_multiport_v1.
func matchMultiport(p *packet, out *outcome, revision uint8, info []byte) bool {
	const most = 15
	if revision != 1 || len(info) < 2+3*most+1 || int(info[1]) > most {
		return cutShort(out, "multiport")
	}
	const source, destination = 0, 1
	sides := []value{p.ports()[:2], p.ports()[2:]}
	switch info[0] {
	case source:
		sides = sides[:1]
	case destination:
		sides = sides[1:]
	}
	m := no
	for i := 0; i < int(info[1]); i++ {
		low := binary.NativeEndian.Uint16(info[2+2*i:])
		high := low
		if info[2+2*most+i] != 0 && i+1 < int(info[1]) { // the next one ends this range
			i++
			high = binary.NativeEndian.Uint16(info[2+2*i:])
		}
		for _, side := range sides {
			if is := portIn(side, low, high); is == yes || m == no {
				m = is
			}
		}
		if m == yes {
			break
		}
	}
	return out.require(m.inverted(info[2+3*most] != 0), "")
}

// ctBits turns what iptables calls a state into what nftables does.
func ctBits(mask uint32, untracked uint32) uint32 {
	bits := mask & (ctInvalid | ctEstablished | ctRelated | ctNew)
	if mask&untracked != 0 {
		bits |= ctUntracked
	}
	return bits
}

// matchState: struct xt_state_info.
func matchState(p *packet, out *outcome, _ uint8, info []byte) bool {
	if len(info) < 4 {
		return cutShort(out, "state")
	}
	return out.require(p.inState(ctBits(binary.NativeEndian.Uint32(info), 1<<6)), stateOfConnection)
}

// matchConntrack: struct xt_conntrack_mtinfo1 to 3.
func matchConntrack(p *packet, out *outcome, revision uint8, info []byte) bool {
	const (
		flagsAt                          = 128 + 8 + 2 + 8
		state, proto, status, expiration = 1, 2, 0x40, 0x80
		stateUntracked                   = 1 << 8
		stateNAT                         = 1<<6 | 1<<7 // source or destination translated
	)
	if revision < 1 || revision > 3 || len(info) < flagsAt+8 {
		return cutShort(out, "conntrack")
	}
	half := func(at int) uint16 { return binary.NativeEndian.Uint16(info[at:]) }
	asks, invert := half(flagsAt), half(flagsAt+2)
	states := uint32(half(flagsAt + 4))
	if revision == 1 {
		states = uint32(info[flagsAt+4]) // too narrow for the state untracked
	}
	if asks&state != 0 {
		m := p.inState(ctBits(states, stateUntracked))
		if m == no && states&stateNAT != 0 {
			m = maybe
		}
		if !out.require(m.inverted(invert&state != 0), stateOfConnection) {
			return false
		}
	}
	if asks&proto != 0 && !out.require(matched((half(flagsAt-10) == unix.IPPROTO_TCP) != (invert&proto != 0)), "") {
		return false
	}
	if asks&expiration != 0 && !out.require(differs, stateOfConnection) {
		return false
	}
	return asks&^(state|proto|expiration) == 0 || out.require(maybe, "")
}

// matchAddrtype: struct xt_addrtype_info_v1. Whether a server's address is local is known.
func matchAddrtype(p *packet, out *outcome, revision uint8, info []byte) bool {
	const invertSource, invertDestination, local = 1, 2, 1 << unix.RTN_LOCAL
	if len(info) < 8 || revision != 1 {
		return cutShort(out, "addrtype")
	}
	source, destination := binary.NativeEndian.Uint16(info), binary.NativeEndian.Uint16(info[2:])
	flags := binary.NativeEndian.Uint32(info[4:])
	one := func(types uint16, invert, server bool) bool {
		m := maybe
		if server && p.local != maybe && flags&^(invertSource|invertDestination) == 0 {
			m = matched(types&local != 0)
			if p.local == no {
				m = maybe.and(matched(types&^local != 0))
			}
		}
		return types == 0 || out.require(m.inverted(invert), "")
	}
	return one(source, flags&invertSource != 0, p.answer) && one(destination, flags&invertDestination != 0, !p.answer)
}

// xtTargets are targets by their effects; 0 is none.
var xtTargets = map[string]acts{
	"LOG": 0, "NFLOG": 0, "ULOG": 0, "TRACE": 0, "AUDIT": 0, "LED": 0, "CHECKSUM": 0, "RATEEST": 0,
	"REJECT": actDrop, "DNAT": actDNAT, "REDIRECT": actDNAT, "NETMAP": actDNAT, "DNPT": actDNAT,
	"SNAT": actOther, "MASQUERADE": actOther, "SNPT": actOther,
	"TPROXY": actTProxy, "NFQUEUE": actQueue, "SYNPROXY": actSYNProxy, "NOTRACK": actNotrack,
	"MARK": actOther, "CONNMARK": actOther, "CLASSIFY": actOther, "DSCP": actOther, "TOS": actOther, "TTL": actOther, "HL": actOther,
	"ECN": actOther, "TCPMSS": actOther, "TCPOPTSTRIP": actOther, "SET": actOther, "SECMARK": actOther, "CONNSECMARK": actOther,
	"HMARK": actOther, "IDLETIMER": actOther, "TEE": actOther, "CT": actOther,
}

const ctNotrack = 1 // XT_CT_NOTRACK, of struct xt_ct_target_info

// doTarget adds a target to the outcome.
func doTarget(out *outcome, name string, info []byte) {
	a, there := xtTargets[name]
	if !there {
		out.obscure = firstOf(out.obscure, fmt.Sprintf("target %q", name))
	}
	if name == "CT" && len(info) >= 2 && binary.NativeEndian.Uint16(info)&ctNotrack != 0 {
		a = actNotrack
	}
	if a == actDrop {
		out.verdict(actDrop, "")
	}
	out.acts |= a
}
