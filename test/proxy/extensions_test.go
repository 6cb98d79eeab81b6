// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Clients with IPv6 extension headers are served as the bare server serves them; chains
// beyond the limit do not bypass the box.
func TestExtensionHeaders(t *testing.T) {
	if !rig.HaveIPv6() {
		t.Skip("this kernel has no IPv6")
	}
	for _, strategy := range []string{"cookie", "cache", "auth-cookie"} {
		for _, bridge := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s bridge=%v", strategy, bridge), func(t *testing.T) {
				w := newWorld(t, bridge)
				w.serve(echo)
				w.start(w.config(strategy))
				for _, size := range []int{8, 96, 256} {
					try := func() error {
						return harness.PingWithExtensions(w.Client, w.ServiceAddr(true, port), size, patience)
					}
					err := try()
					if err != nil && strategy == "auth-cookie" {
						err = try() // the first connection of a source is reset: so it is shown to exist
					}
					if err != nil {
						t.Errorf("%d bytes of extension headers: %v", size, err)
					}
				}
				w.longExtensionHeaders()
			})
		}
	}
}

func (w *world) longExtensionHeaders() {
	t := w.t
	t.Helper()
	const n = 400
	inner := func() uint64 {
		p, err := w.ServerPort.RxPackets()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	to := w.LegitPort.MAC
	if w.Bridge {
		to = w.ServerPort.MAC
	}
	for _, flags := range []load.TCPFlags{load.FlagSYN, load.FlagACK} {
		before, arrived := w.status().Global["drop_ext_chain"], inner()
		frames := make([][]byte, n)
		for i := range frames {
			f := load.Frame{To: to, From: w.ClientPort.MAC, Src: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::66"), uint16(1024+i)),
				Dst: w.ServiceAddr(true, port), Flags: flags, Seq: uint32(i), Ack: uint32(i), Window: 1000,
				Extension: unix.IPPROTO_DSTOPTS, Extensions: load.OptionsExtension(1008)}
			frames[i] = f.Bytes()
		}
		if err := load.SendFrames(w.ClientPort, frames...); err != nil {
			t.Fatal(err)
		}
		w.await("the frames counted as dropped", func() bool { return w.status().Global["drop_ext_chain"]-before >= n })
		if passed := inner() - arrived; passed > 20 {
			t.Errorf("flags %#x: %d frames came to the server after %d long chains", flags, passed, n)
		}
	}
}
