// SPDX-License-Identifier: Apache-2.0

// Package listeners says which TCP listeners exist in the network namespace of the calling thread, and which
// of them can adopt a connection from a cookie. It only queries (inet_diag); it must never open, change or
// close a socket of another process, and it knows nothing of BPF.
package listeners

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// From linux/inet_diag.h and linux/sock_diag.h; x/sys/unix has none of them.
const (
	sockDiagByFamily = 20
	tcpListen        = 10 // enum in net/tcp_states.h

	diagInfo      = 2 // asking for it makes the kernel add ULP_INFO
	diagSkMemInfo = 7
	diagV6Only    = 11
	diagULPInfo   = 19
	ulpInfoName   = 1

	skMemInfoRcvBuf = 1 // index into the array of 32-bit words

	requestLen = 56 // struct inet_diag_req_v2
	messageLen = 72 // struct inet_diag_msg
)

// Listener is one TCP socket in state LISTEN.
type Listener struct {
	Addr    netip.Addr // unspecified when bound to every address
	Port    uint16
	V6Only  bool   // an IPv6 socket that takes no IPv4
	MPTCP   bool   // cannot be adopted: bpf_sk_assign_tcp_reqsk says EINVAL
	RcvBuf  int    // SO_RCVBUF in bytes as the kernel accounts it; 0 when not told
	Ifindex uint32 // of SO_BINDTODEVICE, or 0
	UID     uint32
	Inode   uint32
	Cookie  uint64 // SO_COOKIE

	// Above is the device that it is bound to, if that lies above the interface that packets come by: programs on the
	// interface do not find it, so that it cannot be adopted for.
	Above string

	Elsewhere bool // no socket: a rule of this machine takes what comes here, or a BPF program chooses the listener
}

// Unadoptable is what keeps the kernel from adopting connections for it; empty: nothing.
func (l Listener) Unadoptable() string {
	switch {
	case l.MPTCP:
		return "MPTCP listener"
	case l.Above != "":
		return "listener bound to " + l.Above + ", a device above the interface"
	}
	return ""
}

func (l Listener) String() string {
	return netip.AddrPortFrom(l.Addr, l.Port).String()
}

// Scan lists all TCP listeners of this network namespace, IPv4 and IPv6. MPTCP is only reported to
// CAP_NET_ADMIN.
func Scan() ([]Listener, error) { return scan(scanFamily) }

func scan(ask func(family uint8) ([]Listener, error)) ([]Listener, error) {
	var all []Listener
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		list, err := ask(family)
		if errors.Is(err, unix.ENOENT) && family == unix.AF_INET6 {
			continue // the family is not in this kernel
		}
		if errors.Is(err, unix.ENOENT) {
			return nil, errors.New("this kernel does not tell who listens (inet_diag): load its modules with `modprobe -a inet_diag tcp_diag`")
		}
		if err != nil {
			return nil, fmt.Errorf("inet_diag: %w", err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// request is struct inet_diag_req_v2 with an all-zero socket id.
type request struct{ family uint8 }

func (r request) Len() int { return requestLen }

func (r request) Serialize() []byte {
	b := make([]byte, requestLen)
	b[0] = r.family
	b[1] = unix.IPPROTO_TCP
	b[2] = 1<<(diagInfo-1) | 1<<(diagSkMemInfo-1)
	binary.NativeEndian.PutUint32(b[4:], 1<<tcpListen)
	return b
}

func scanFamily(family uint8) ([]Listener, error) {
	req := nl.NewNetlinkRequest(sockDiagByFamily, unix.NLM_F_DUMP)
	req.AddData(request{family})
	msgs, err := req.Execute(unix.NETLINK_INET_DIAG, sockDiagByFamily)
	if err != nil {
		return nil, err
	}
	list := make([]Listener, 0, len(msgs))
	for _, m := range msgs {
		l, err := parse(m)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// parse reads struct inet_diag_msg and its attributes:
//
//	0 family, state, timer, retrans   4 sport_be   6 dport_be   8 src[16]
//	24 dst[16]   40 if   44 cookie[2]   52 expires   56 rqueue   60 wqueue
//	64 uid   68 inode   72 attributes
func parse(m []byte) (Listener, error) {
	if len(m) < messageLen {
		return Listener{}, fmt.Errorf("message of %d bytes is too short", len(m))
	}
	l := Listener{
		Port:    binary.BigEndian.Uint16(m[4:]),
		Ifindex: binary.NativeEndian.Uint32(m[40:]),
		UID:     binary.NativeEndian.Uint32(m[64:]),
		Inode:   binary.NativeEndian.Uint32(m[68:]),
		Cookie:  uint64(binary.NativeEndian.Uint32(m[44:])) | uint64(binary.NativeEndian.Uint32(m[48:]))<<32,
	}
	if m[0] == unix.AF_INET6 {
		l.Addr = netip.AddrFrom16([16]byte(m[8:24]))
	} else {
		l.Addr = netip.AddrFrom4([4]byte(m[8:12]))
	}
	attrs, err := nl.ParseRouteAttr(m[messageLen:])
	if err != nil {
		return Listener{}, err
	}
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case diagSkMemInfo:
			if off := 4 * skMemInfoRcvBuf; len(a.Value) >= off+4 {
				l.RcvBuf = int(binary.NativeEndian.Uint32(a.Value[off:]))
			}
		case diagV6Only:
			l.V6Only = len(a.Value) > 0 && a.Value[0] != 0
		case diagULPInfo:
			l.MPTCP = ulpName(a.Value) == "mptcp"
		}
	}
	return l, nil
}

// ulpName returns the name of the upper-layer protocol of a socket. The
// subflow socket beneath an MPTCP listener has "mptcp" there.
func ulpName(nested []byte) string {
	attrs, err := nl.ParseRouteAttr(nested)
	if err != nil {
		return ""
	}
	for _, a := range attrs {
		if a.Attr.Type&^unix.NLA_F_NESTED == ulpInfoName {
			return strings.TrimRight(string(a.Value), "\x00")
		}
	}
	return ""
}
