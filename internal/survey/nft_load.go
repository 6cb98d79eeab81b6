// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// nftLoads are expressions that fill a register. False: it writes, and is a statement.
var nftLoads = map[string]func(*machineState, fields) bool{
	"payload": loadPayload, "meta": loadMeta, "ct": loadCT, "exthdr": loadOption,
	"bitwise": loadBitwise, "byteorder": loadByteorder,
	"fib":    loadFIB,
	"rt":     loadsAlike(unix.NFTA_RT_DREG, 16),
	"hash":   loadsAlike(unix.NFTA_HASH_DREG, 4),
	"xfrm":   loadsAlike(1, 16),              // NFTA_XFRM_DREG
	"tunnel": loadsAlike(2, 4),               // NFTA_TUNNEL_DREG
	"socket": loadsUnlike(2, 16, itsSocket),  // NFTA_SOCKET_DREG
	"osf":    loadsUnlike(1, 16, tcpOptions), // NFTA_OSF_DREG
}

func loadsAlike(dreg uint16, size int) func(*machineState, fields) bool {
	return func(s *machineState, f fields) bool {
		s.set(f.number(dreg), unknown(size), "")
		return true
	}
}

func loadsUnlike(dreg uint16, size int, what string) func(*machineState, fields) bool {
	return func(s *machineState, f fields) bool {
		s.set(f.number(dreg), differing(size), what)
		return true
	}
}

// loadFIB: whether a server's address is local is known.
func loadFIB(s *machineState, f fields) bool {
	v := unknown(16)
	server := uint32(unix.NFTA_FIB_F_DADDR)
	if s.p.answer {
		server = unix.NFTA_FIB_F_SADDR
	}
	if f.number(unix.NFTA_FIB_RESULT) == unix.NFT_FIB_RESULT_ADDRTYPE && f.number(unix.NFTA_FIB_FLAGS) == server && s.p.local == yes {
		v = known32(unix.RTN_LOCAL)
	}
	s.set(f.number(unix.NFTA_FIB_DREG), v, "")
	return true
}

func loadPayload(s *machineState, f fields) bool {
	dreg, reads := f.find(unix.NFTA_PAYLOAD_DREG)
	if !reads {
		return false
	}
	offset, size := int(f.number(unix.NFTA_PAYLOAD_OFFSET)), int(f.number(unix.NFTA_PAYLOAD_LEN))
	var header value
	label := ""
	switch f.number(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_LL_HEADER:
		header = unknown(offset + size)
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		header = s.p.network()
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		header = s.p.transport()
		if offset+size > 4 {
			label = itsNumbers
		}
		if offset <= tcpFlagsAt && offset+size > tcpFlagsAt {
			label = tcpFlags
		}
	}
	header = header[:len(header):len(header)] // what is appended must not stand in the packet
	for len(header) < offset+size {
		header = append(header, octet{differs: true}) // options and data
		label = firstOf(label, tcpOptions)
	}
	s.set(numberOf(dreg), header[offset:offset+size], label)
	return true
}

const tcpFlagsAt = 13 // in the TCP header

// Keys of meta that the package unix does not have, from linux/netfilter/nf_tables.h.
const (
	metaTimeNs = 30
	metaSDIF   = 33
	metaBroute = 35
)

func loadMeta(s *machineState, f fields) bool {
	dreg, reads := f.find(unix.NFTA_META_DREG)
	if !reads {
		return false
	}
	v, label := unknown(16), ""
	switch key := f.number(unix.NFTA_META_KEY); key {
	case unix.NFT_META_LEN:
		v, label = differing(4), itsLength
	case unix.NFT_META_PROTOCOL:
		ethertype := uint16(unix.ETH_P_IP)
		if s.p.family == ipv6 {
			ethertype = unix.ETH_P_IPV6
		}
		v = known(binary.BigEndian.AppendUint16(nil, ethertype)...)
	case unix.NFT_META_NFPROTO:
		v = known(byte(s.p.family))
	case unix.NFT_META_L4PROTO:
		v = known(unix.IPPROTO_TCP)
	case unix.NFT_META_IIFNAME:
		v = deviceName(s.p.device)
	case unix.NFT_META_IIF:
		if v = unknown(4); s.p.index != 0 {
			v = known32(s.p.index)
		}
	case unix.NFT_META_SKUID, unix.NFT_META_SKGID, unix.NFT_META_CGROUP:
		v, label = differing(4), itsSocket
		if s.p.answer {
			v, label = unknown(4), ""
		}
	case unix.NFT_META_PRANDOM:
		v = unknown(4)
		s.out.limits = true
	default:
		if key > metaBroute {
			s.out.obscure = firstOf(s.out.obscure, "meta")
		}
	}
	s.set(numberOf(dreg), v, label)
	return true
}

func loadCT(s *machineState, f fields) bool {
	dreg, reads := f.find(unix.NFTA_CT_DREG)
	if !reads {
		return false
	}
	v, label := unknown(16), ""
	switch f.number(unix.NFTA_CT_KEY) {
	case unix.NFT_CT_STATE:
		v, label = s.p.ctState(), stateOfConnection
	case unix.NFT_CT_PKTS, unix.NFT_CT_BYTES, unix.NFT_CT_AVGPKT:
		v, label = differing(8), itsLength
	case unix.NFT_CT_EXPIRATION:
		v, label = differing(4), stateOfConnection
	case unix.NFT_CT_PROTOCOL:
		v = known(unix.IPPROTO_TCP)
	}
	s.set(numberOf(dreg), v, label)
	return true
}

// From linux/netfilter/nf_tables.h.
const (
	exthdrDREG, exthdrOp, exthdrTCP = 1, 6, 1
)

func loadOption(s *machineState, f fields) bool {
	dreg, reads := f.find(exthdrDREG)
	if !reads {
		return false
	}
	v, label := unknown(16), ""
	if f.number(exthdrOp) == exthdrTCP {
		v, label = differing(16), tcpOptions
	}
	s.set(numberOf(dreg), v, label)
	return true
}

const bitwiseOp = 6 // NFTA_BITWISE_OP; 0: mask and xor

func loadBitwise(s *machineState, f fields) bool {
	size := int(f.number(unix.NFTA_BITWISE_LEN))
	v, label := s.get(f.number(unix.NFTA_BITWISE_SREG), size)
	mask := fieldsOf(f.get(unix.NFTA_BITWISE_MASK)).get(unix.NFTA_DATA_VALUE)
	xor := fieldsOf(f.get(unix.NFTA_BITWISE_XOR)).get(unix.NFTA_DATA_VALUE)
	result := make(value, len(v))
	for i, o := range v {
		switch {
		case f.number(bitwiseOp) != 0 || i >= len(mask) || i >= len(xor):
			result[i] = octet{differs: v.unsure() == differs || label != ""} // shifts: nobody tells flags by them
		case o.known || mask[i] == 0:
			result[i] = octet{v: o.v&mask[i] ^ xor[i], known: true}
		default:
			result[i] = o
		}
	}
	s.set(f.number(unix.NFTA_BITWISE_DREG), result, label)
	return true
}

func loadByteorder(s *machineState, f fields) bool {
	size, each := int(f.number(unix.NFTA_BYTEORDER_LEN)), int(f.number(unix.NFTA_BYTEORDER_SIZE))
	v, label := s.get(f.number(unix.NFTA_BYTEORDER_SREG), size)
	result := make(value, 0, len(v))
	for each > 0 && len(v) >= each {
		for i := range each {
			result = append(result, v[each-1-i])
		}
		v = v[each:]
	}
	s.set(f.number(unix.NFTA_BYTEORDER_DREG), result, label)
	return true
}
