// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// knowStranger makes the stranger's neighbour entry known to the server's kernel.
func (w *world) knowStranger() {
	w.t.Helper()
	for _, ipv6 := range families() {
		w.must(w.Server.Do(exec.Command("ip", "neigh", "replace", stranger(ipv6, 0).Addr().String(),
			"lladdr", w.ClientPort.MAC.String(), "dev", w.ServerPort.Name).Run))
	}
}

// The gate treats each form as this kernel does without the gate: both
// are silent, or both answer. Only well-formed signatures
// are answered by the gate although a kernel with TCP-MD5 does not.
func TestSignedAsTheKernelHasIt(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	syns := harness.NewSYNs(t, w.ClientPort, w.ServerPort)
	forms := harness.SignedForms()
	send := func(first uint16) map[uint16]int {
		for _, ipv6 := range families() {
			for i, form := range forms {
				at := first + uint16(i)
				if ipv6 {
					at += 1000
				}
				syns.Send(stranger(ipv6, at), netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), form.Options)
			}
		}
		return syns.Answered(300 * time.Millisecond)
	}
	send(10000)
	kernel := harness.ReachedStack(t, w.Server, webPort)
	w.start(w.webConfig(webPort))
	gate := send(20000)
	if after := harness.ReachedStack(t, w.Server, webPort); after.Sum() > kernel.Sum() {
		t.Errorf("%d SYNs more came to the kernel", after.Sum()-kernel.Sum())
	}
	for _, ipv6 := range families() {
		first := uint16(0)
		if ipv6 {
			first = 1000
		}
		hasAO := !kernel.From[10000+first+14] // ao-16: a kernel with TCP-AO checks more, and may drop more
		for i, form := range forms {
			bare, gated := kernel.From[10000+first+uint16(i)], gate[20000+first+uint16(i)] == 1
			if gated != (form.Kind != harness.Malformed) {
				t.Errorf("%s, %s: answered by the gate: %v", familyName(ipv6), form.Name, gated)
			}
			if bare && !gated || gated && !bare && form.Kind == harness.Unsigned && !hasAO {
				t.Errorf("%s, %s: answered by the kernel %v, by the gate %v", familyName(ipv6), form.Name, bare, gated)
			}
		}
	}
}

func (w *world) signedFlood() harness.SignedFlood {
	return harness.SignedFlood{SYNs: harness.NewSYNs(w.t, w.ClientPort, w.ServerPort), From: stranger, Server: w.Server,
		To:       func(ipv6 bool) netip.AddrPort { return netip.AddrPortFrom(w.ServerAddr(ipv6), webPort) },
		Counters: w.counters}
}

// No SYN reaches the server's TCP because of an option that it carries.
func TestSignedFlood(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	w.start(w.webConfig(webPort))
	w.signedFlood().NothingPasses(t, 60, false)
}

func TestSignedDropped(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	w.start(w.webConfig(webPort) + "    signed: drop\n")
	w.signedFlood().NothingPasses(t, 20, true)
}

func TestSignedAllowance(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	w.start(w.webConfig(webPort) + "    signed: pass\n    signed_rate: 50\n")
	w.signedFlood().PassesWithin(t, 1000, 50, instance.OnlineCPUs())
}

// A peer with a TCP-MD5 key connects with `signed: pass`, and only then: the gate's
// answer has no signature, and the peer keeps retransmitting.
func TestSignedPeer(t *testing.T) {
	for setting, connects := range map[string]bool{"pass": true, "answer": false, "drop": false} {
		t.Run(setting, func(t *testing.T) {
			w := newWorld(t)
			l := w.echoServer(webPort)
			client := w.ClientAddr(false)
			if rig.HaveIPv6() { // its socket serves both families
				client = netip.AddrFrom16(client.As16())
			}
			w.must(harness.MD5Key(l.fd, client))
			w.start(w.webConfig(webPort) + "    signed: " + setting + "\n")
			c, err := dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(false), webPort), setup: func(fd int) error {
				tv := unix.NsecToTimeval(int64(1500 * time.Millisecond)) // one SYN more than the first
				return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv), harness.MD5Key(fd, w.ServerAddr(false)))
			}}.dial()
			if connects != (err == nil) {
				t.Fatalf("connect: %v", err)
			}
			if err == nil {
				defer c.Close()
				w.must(c.ping())
				w.wantCounters(map[string]uint64{"pass_signed": 1})
			} else if n := w.counters(); n["signed_answered"]+n["drop_signed"] == 0 || n["pass_signed"] != 0 {
				t.Errorf("%d answered, %d dropped, %d passed", n["signed_answered"], n["drop_signed"], n["pass_signed"])
			}
		})
	}
}
