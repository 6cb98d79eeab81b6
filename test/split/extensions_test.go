// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Segments with long chains of IPv6 extension headers do not bypass the gates.

// newPair is an edge and a server with protocol plain or tagged, without an allowance.
func newPair(t *testing.T, tagged bool) *world {
	t.Helper()
	if tagged {
		return newTagged(t, []string{"unknown_rate: 0"}, nil)
	}
	w := newWorld(t, false)
	w.Edge.configure("always", "unknown_rate: 0", "learning: 0s")
	return w
}

// throughExtensions sends 400 segments of each kind after 1,008 bytes of destination
// options, and expects that none of them reaches the server's TCP.
func (w *world) throughExtensions(to *node) {
	t := w.t
	t.Helper()
	const n = 400
	for _, flags := range []load.TCPFlags{load.FlagSYN, load.FlagACK} {
		heard := w.netstat(w.place.Server, "InSegs")
		before := to.status().Global["drop_ext_chain"]
		frames := make([][]byte, n)
		for i := range frames {
			f := load.Frame{To: w.FloodPort.MAC, From: w.AttackerPort.MAC, Src: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::66"), uint16(1024+i)),
				Dst: w.address(true, port), Flags: flags, Seq: uint32(i), Ack: uint32(i), Window: 1000,
				Extension: unix.IPPROTO_DSTOPTS, Extensions: load.OptionsExtension(1008)}
			frames[i] = f.Bytes()
		}
		if err := load.SendFrames(w.AttackerPort, frames...); err != nil {
			t.Fatal(err)
		}
		w.await("the frames counted as dropped", func() bool { return to.status().Global["drop_ext_chain"]-before >= n })
		if got := w.netstat(w.place.Server, "InSegs") - heard; got != 0 {
			t.Errorf("%s: flags %#x: %d of %d reached the server's TCP", to.instance, flags, got, n)
		}
	}
}

func TestLongExtensionHeaders(t *testing.T) {
	if !rig.HaveIPv6() {
		t.Skip("this kernel has no IPv6")
	}
	for name, protocol := range map[string]string{"plain": "", "tagged": "tagged"} {
		t.Run(name, func(t *testing.T) {
			w := newPair(t, protocol == "tagged")
			w.serve(echo)
			w.startBoth()
			w.throughExtensions(w.Edge)
			if err := w.ping(true); err != nil {
				t.Error(err)
			}
		})
	}
	// Past the edge: the final ACK check, adopting and translating.
	for name, takeover := range map[string]string{"adopting": "adopt", "translating": "translate"} {
		t.Run("server "+name, func(t *testing.T) {
			w := newWorld(t, false)
			if takeover == "translate" {
				if err := w.YieldServer(); err != nil {
					t.Fatal(err)
				}
			}
			w.server.configure("always", "takeover: "+takeover)
			w.serve(echo)
			w.server.start()
			w.throughExtensions(w.server)
		})
	}
}

// A client with a few extension headers is served as any other.
func TestShortExtensionHeaders(t *testing.T) {
	if !rig.HaveIPv6() {
		t.Skip("this kernel has no IPv6")
	}
	for _, tagged := range []bool{false, true} {
		for _, size := range []int{96, 256} {
			t.Run(fmt.Sprintf("tagged=%v %d", tagged, size), func(t *testing.T) {
				w := newPair(t, tagged)
				w.serve(echo)
				w.startBoth()
				if err := harness.PingWithExtensions(w.place.Client, w.address(true, port), size, patience); err != nil {
					t.Errorf("%v; edge %v; server %v", err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
				}
			})
		}
	}
}
