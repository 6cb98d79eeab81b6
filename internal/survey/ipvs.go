// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// virtualServer is a TCP service of IPVS, which takes connections away before a local socket sees them.
type virtualServer struct {
	addr   netip.Addr // invalid: chosen by a firewall's mark
	port   uint16     // 0: all
	direct bool       // a real server answers clients past this machine (direct routing, tunnels)
}

const ipvsTable = "/proc/thread-self/net/ip_vs"

// readVirtual reads the services of IPVS in this network namespace.
func readVirtual() ([]virtualServer, error) {
	text, err := os.ReadFile(ipvsTable)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseVirtual(string(text))
}

// parseVirtual reads the kernel's table: lines of services, each followed by its real servers, which begin with an arrow. Numbers are hexadecimal.
func parseVirtual(text string) (list []virtualServer, err error) {
	counts := false // the service in hand is TCP's
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2 || f[0] == "IP" || f[0] == "Prot" || f[1] == "RemoteAddress:Port":
		case f[0] == "->":
			if counts && len(f) >= 3 && (f[2] == "Route" || f[2] == "Tunnel") {
				list[len(list)-1].direct = true
			}
		case f[0] == "FWM":
			counts, list = true, append(list, virtualServer{})
		case f[0] != "TCP":
			counts = false
		default:
			at, err := parseVirtualPlace(f[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", ipvsTable, strings.TrimSpace(line), err)
			}
			counts, list = true, append(list, virtualServer{addr: at.Addr(), port: at.Port()})
		}
	}
	return list, nil
}

var errVirtual = errors.New("no address and port of IPVS")

func parseVirtualPlace(text string) (at netip.AddrPort, err error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return at, errVirtual
	}
	port, err := strconv.ParseUint(text[colon+1:], 16, 16)
	if err != nil {
		return at, errVirtual
	}
	var a netip.Addr
	if inner, is6 := strings.CutPrefix(text[:colon], "["); is6 {
		a, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	} else {
		var b []byte
		if b, err = hex.DecodeString(text[:colon]); err == nil && len(b) == 4 {
			a = netip.AddrFrom4([4]byte(b))
		}
	}
	if err != nil || !a.IsValid() {
		return at, errVirtual
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

// judgeVirtual finds the services that may take the destination.
func (m *Machine) judgeVirtual(d Destination) (found []Finding) {
	const show = "ipvsadm -Ln"
	for _, v := range m.virtual {
		takes := !v.addr.IsValid() || (v.port == 0 || v.port == d.Port) &&
			(v.addr == d.Addr.Unmap() || d.Addr.IsUnspecified() && familyOf(v.addr) == familyOf(d.Addr))
		switch {
		case !takes:
		case v.direct:
			found = append(found, Finding{DirectServer, fmt.Sprintf("IPVS gives %s to real servers that answer clients past this machine (direct routing or tunnel): protect it on them, or by an edge", v), show})
		default:
			found = append(found, Finding{VirtualServer, fmt.Sprintf("IPVS gives %s to a real server", v), show})
		}
	}
	return found
}

func (v virtualServer) String() string {
	if !v.addr.IsValid() {
		return "what a firewall has marked"
	}
	return netip.AddrPortFrom(v.addr, v.port).String()
}
