// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/ifp"
	"tidegate/internal/plane"
)

// earlyFor is how long XDP goes on using a key that the daemon does not renew.
const earlyFor = 3 * time.Second

// answerEarly has XDP answer first requests on the interfaces of the configuration, until the result is closed.
func (m *Manager) answerEarly(cfg *config.Config) (*plane.Border, error) {
	early, err := plane.LoadBorder()
	if err != nil {
		return nil, err
	}
	if m.Addr().Addr().IsUnspecified() {
		m.opt.Log.Warn("XDP answers no first requests: it answers at one address, and `listen` names none; name it there, or leave `interfaces` out")
	}
	set := func() error { return early.Set(EarlySettings(m.opt.Nonces, m.Addr(), cfg.Border.Codepoint)) }
	if err := errors.Join(set(), early.Attach(cfg.Border.Interfaces, plane.XDPMode(cfg.XDPMode))); err != nil {
		early.Close()
		return nil, err
	}
	m.ticked.Store(&earlyHook{call: func() {
		_ = set()
		changed, err := early.FollowFarEnds()
		if len(changed) > 0 {
			m.opt.Log.Warn("generic XDP answers first requests: the far end of the veth has lost its program, and what native XDP sends would be lost there", "interfaces", changed)
		}
		if err != nil {
			m.opt.Log.Warn("XDP answers no first requests: the daemon does", "error", err)
		}
	}, counters: func(to map[string]uint64) {
		if c, err := early.Counters(); err == nil {
			to["nonce_sent_by_xdp"], to["not_sent_by_xdp"] = c["ifp_nonce_sent"], c["ifp_drop"]
		}
	}})
	return early, nil
}

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
	s.UntilNs = uint64(plane.MonotonicNs()) + uint64(earlyFor)
	return s
}
