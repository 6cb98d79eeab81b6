// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"

	"tidegate/internal/keys"
	"tidegate/internal/vectors"
)

// nativeGate is core/ itself, run by core/test/replay.c in a process of its own.
type nativeGate struct{ *replayProgram }

func newNativeGate(t *testing.T) *nativeGate {
	t.Helper()
	if out, err := exec.Command("make", "-s", "-C", "../../core", "replay").CombinedOutput(); err != nil {
		t.Fatalf("make -C core replay: %v\n%s", err, out)
	}
	return &nativeGate{startReplay(t, "../../build/core/replay")}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

var (
	modes     = map[string]int{"off": 0, "monitor": 1, "always": 2}
	listeners = map[string]int{"ok": 0, "none": 1, "mptcp": 2, "refused": 3}
	sockets   = map[string]int{vectors.SocketNone: 0, vectors.SocketListener: 1,
		vectors.SocketEstablished: 2, vectors.SocketTimeWait: 3}
)

func (g *nativeGate) Prepare(v *vectors.Vector) error {
	commands := []string{"reset", fmt.Sprintf("world %d %d %d %d", *v.Epoch, bit(v.StaleKeys == "drop"),
		bit(v.Filter == vectors.FilterMaybe), sockets[v.Socket])}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		key := secret.EpochKey(n)
		commands = append(commands, fmt.Sprintf("key %d %x", n, key))
	}
	ports := map[uint16]uint32{}
	for _, s := range v.Services {
		mode, ok1 := modes[s.Mode]
		listener, ok2 := listeners[s.Listener]
		if !ok1 || !ok2 {
			return fmt.Errorf("service %d: mode %q, listener %q", s.ID, s.Mode, s.Listener)
		}
		commands = append(commands, fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d %d", s.ID, s.MSSv4, s.MSSv6,
			s.Window, s.WScale, bit(s.SACK), bit(s.Timestamps), bit(s.ECN), mode, listener, s.SignedCostUs()))
		if len(s.Prefixes) == 0 {
			ports[s.Port] |= s.ID
		}
		for _, p := range s.Prefixes {
			ports[s.Port] |= 0x80000000
			commands = append(commands, prefixCommand(s, p))
		}
	}
	for port, entry := range ports {
		commands = append(commands, fmt.Sprintf("port %d %d", port, entry))
	}
	return g.obey(commands...)
}

func prefixCommand(s vectors.Service, p netip.Prefix) string {
	var raw [16]byte
	copy(raw[:], p.Masked().Addr().AsSlice())
	family := 6
	if p.Addr().Is4() {
		family = 4
	}
	return fmt.Sprintf("prefix %d %d %x %d %d", family, p.Bits(), raw, s.Port, s.ID)
}

func (g *nativeGate) Packet(in []byte) (vectors.Result, error) {
	words, err := g.ask("packet %x", in)
	if err != nil {
		return vectors.Result{}, err
	}
	r := vectors.Result{Verdict: vectors.Verdict(words[0])}
	if len(words) > 1 {
		if r.Out, err = hex.DecodeString(words[1]); err != nil {
			return r, err
		}
	}
	if r.Verdict == vectors.Adopt {
		var n [6]uint16
		for i := range n {
			x, err := strconv.ParseUint(words[2+i], 10, 16)
			if err != nil {
				return r, err
			}
			n[i] = uint16(x)
		}
		r.Agreed = &vectors.Agreed{MSS: n[0], WScale: uint8(n[1]), RcvWScale: uint8(n[2]),
			SACK: n[3] == 1, Timestamps: n[4] == 1, ECN: n[5] == 1}
	}
	return r, nil
}
