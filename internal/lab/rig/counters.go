// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TCPExt reads a counter of the TcpExt line pair of the namespace's netstat.
func (n *Namespace) TCPExt(name string) (uint64, error) {
	var data []byte
	err := n.Do(func() (err error) {
		data, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	})
	if err != nil {
		return 0, err
	}
	return parseTCPExt(string(data), name)
}

func parseTCPExt(netstat, name string) (uint64, error) {
	var names []string
	for line := range strings.Lines(netstat) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "TcpExt:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, key := range names {
			if key == name && i < len(f) {
				return strconv.ParseUint(f[i], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("netstat has no TcpExt %s", name)
}

// WindowScale is the window scale that the namespace's TCP offers (tcp_select_initial_window):
// enough for the largest receive buffer.
func (n *Namespace) WindowScale() (int, error) {
	var tcp, core []byte
	err := n.Do(func() (err error) {
		if tcp, err = os.ReadFile("/proc/sys/net/ipv4/tcp_rmem"); err != nil {
			return err
		}
		core, err = os.ReadFile("/proc/sys/net/core/rmem_max")
		return err
	})
	if err != nil {
		return 0, err
	}
	return parseWindowScale(string(tcp), string(core))
}

func parseWindowScale(tcpRmem, rmemMax string) (int, error) {
	fields := append(strings.Fields(tcpRmem), strings.TrimSpace(rmemMax))
	if len(fields) != 4 {
		return 0, fmt.Errorf("tcp_rmem %q: want three numbers", tcpRmem)
	}
	space := uint64(0)
	for _, f := range fields[2:] {
		v, err := strconv.ParseUint(f, 10, 63)
		if err != nil {
			return 0, fmt.Errorf("receive buffer limits: %w", err)
		}
		space = max(space, v)
	}
	return min(max(bits.Len64(space)-1-15, 0), 14), nil
}

const (
	tcpSynRecv    = 3  // TCP_SYN_RECV, include/net/tcp_states.h
	inetDiagReqV2 = 56 // sizeof(struct inet_diag_req_v2)
)

// diagRequest is struct inet_diag_req_v2 with all but family, protocol and
// states left zero.
type diagRequest struct{ family uint8 }

func (r diagRequest) Len() int { return inetDiagReqV2 }

func (r diagRequest) Serialize() []byte {
	b := make([]byte, inetDiagReqV2)
	b[0], b[1] = r.family, unix.IPPROTO_TCP
	nl.NativeEndian().PutUint32(b[4:], 1<<tcpSynRecv)
	return b
}

// SynRecv counts the namespace's half-open connections of both families.
func (n *Namespace) SynRecv() (int, error) {
	count := 0
	err := n.Do(func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
			req.AddData(diagRequest{family})
			msgs, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
			if err != nil {
				return fmt.Errorf("inet_diag: %w", err)
			}
			count += len(msgs)
		}
		return nil
	})
	return count, err
}
