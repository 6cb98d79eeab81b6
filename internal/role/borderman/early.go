// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/ifp"
	"tidegate/internal/plane"
)

// earlyFor is how long XDP goes on using a key that the daemon does not renew.
const earlyFor = 3 * time.Second

// EarlySettings are the settings with which the XDP program creates nonces, as of now.
func EarlySettings(n *ifp.Nonces, listen netip.AddrPort, codepoint uint8) *plane.BorderSettings {
	s := &plane.BorderSettings{PortBe: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, listen.Port())),
		Tclass: codepoint << 2}
	parity, k0, k1 := n.Key()
	s.Parity, s.Key.K0, s.Key.K1 = uint32(parity), k0, k1
	b := listen.Addr().Unmap().AsSlice()
	if len(b) == 4 {
		s.Addr4.D[0] = uint64(binary.LittleEndian.Uint32(b))
	} else {
		s.Addr6.D = [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
	}
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	s.UntilNs = uint64(ts.Nano()) + uint64(earlyFor)
	return s
}
