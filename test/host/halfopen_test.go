// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/plane"
)

// lossy connects to a server that greets its clients, while the first packet that matches is
// lost, and returns when the client's side saw SYN-ACKs before the greeting.
func (w *world) lossy(hook, match string) (synacks []time.Duration) {
	w.t.Helper()
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		w.t.Fatal(err)
	}
	defer tap.Close()
	w.lose(hook, match)
	defer w.nft(w.Client, "delete table inet loss\n")
	begun := time.Now()
	greeted := make(chan error, 1)
	go func() {
		c, err := w.dial(false, webPort)
		if err == nil {
			_, err = c.Read(make([]byte, 64))
			c.Close()
		}
		greeted <- err
	}()
	tap.Next(time.Now().Add(patience), func(s load.Segment) bool {
		if s.Src.Port() != webPort {
			return false
		}
		// The client's SYN and the server's SYN-ACK are retransmitted at the same time, after a
		// second: two of them then count as one.
		at := time.Since(begun)
		if s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK && (len(synacks) == 0 || at-synacks[len(synacks)-1] > 400*time.Millisecond) {
			synacks = append(synacks, at)
		}
		return len(s.Payload) > 0
	})
	if err := <-greeted; err != nil {
		w.t.Errorf("lost %s: the client has not been greeted: %v", match, err)
	}
	return synacks
}

// Handshakes with a loss recover as without the gate, where the server speaks first: with as many
// SYN-ACKs, at the same intervals.
func TestHalfOpenHealsAsWithoutTheGate(t *testing.T) {
	w := newWorld(t)
	w.listenOn(webPort, unix.IPPROTO_TCP, 16).serve(func(c conn) {
		defer c.Close()
		_, _ = c.Write([]byte("220 ready\r\n"))
	})
	losses := [][2]string{{"output", "tcp flags == ack"}, {"input", "tcp flags & (syn | ack) == (syn | ack)"}}
	var bare [][]time.Duration
	for _, loss := range losses {
		bare = append(bare, w.lossy(loss[0], loss[1]))
	}
	w.start(w.webConfig(webPort, "half_open_rate: 100"))
	for i, loss := range losses {
		got := w.lossy(loss[0], loss[1])
		if len(got) != len(bare[i]) || len(got) < 2 {
			t.Fatalf("%s lost: SYN-ACKs at %v, without the gate at %v", loss[1], got, bare[i])
		}
		for n := 1; n < len(got); n++ {
			if apart, want := got[n]-got[n-1], bare[i][n]-bare[i][n-1]; apart < want/2 || apart > 2*want {
				t.Errorf("%s lost: SYN-ACKs at %v, without the gate at %v", loss[1], got, bare[i])
			}
		}
	}
	if c := w.counters(); c["pass_half_open"] != 2 || c["pass_listener"] != 0 || c["cookie_sent"] != 0 {
		t.Errorf("%d SYNs were left to the kernel, %d because nobody listens, %d got cookies; want 2, 0, 0", c["pass_half_open"], c["pass_listener"], c["cookie_sent"])
	}
}

// knowOutsider makes the outsider's route and neighbour known to the server.
func (w *world) knowOutsider() {
	w.t.Helper()
	w.must(w.Server.Do(exec.Command("ip", "neigh", "replace", outsider.String(), "lladdr", w.ClientPort.MAC.String(),
		"dev", w.ServerPort.Name, "nud", "permanent").Run))
}

// Beyond the rate SYNs are answered with cookies, without any state.
func TestHalfOpenRateBounds(t *testing.T) {
	const syns = 300
	w := newWorld(t)
	w.knowOutsider()
	w.echoServer(webPort)
	w.start(w.webConfig(webPort, "half_open_rate: 5"))
	var frames [][]byte
	for n := range uint16(syns) {
		frames = append(frames, w.outsiderFrame(30000+n, webPort, load.FlagSYN, uint32(n), 0, nil))
	}
	begun := time.Now()
	if err := load.SendFrames(w.ClientPort, frames...); err != nil {
		t.Fatal(err)
	}
	w.await("all SYNs to be counted", func() bool { return w.counters()["syn"] >= syns })
	most := 5 + uint64(5*time.Since(begun)/time.Second) // a second's burst, plus what has accrued since
	c := w.counters()
	// The last of the burst gets a cookie if the fast path, whose clock is as old as the last jiffy, finds it too early by that.
	if kept := c["pass_half_open"]; kept < 4 || kept > most || c["cookie_sent"] != syns-kept {
		t.Errorf("%d SYNs were left to the kernel, 4 to %d expected, and %d got cookies", kept, most, c["cookie_sent"])
	}
	if n := w.halfOpen(); uint64(n) > most {
		t.Errorf("the kernel holds %d requests", n)
	}
	w.mustPingNew(3)
}

// A SYN that got a cookie is retransmitted and left to the kernel. The client uses the cookie; the
// kernel's own request must not prevent that.
func TestCookieMeetsTheKernelsRequest(t *testing.T) {
	for _, mode := range []plane.XDPMode{plane.XDPNative, plane.XDPGeneric} {
		t.Run(string(mode), func(t *testing.T) { cookieMeetsTheKernelsRequest(t, mode) })
	}
}

func cookieMeetsTheKernelsRequest(t *testing.T, mode plane.XDPMode) {
	w := newWorld(t)
	w.knowOutsider()
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	w.start(w.webConfig(webPort, "half_open_rate: 1", "xdp_mode: "+string(mode)))
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	w.cookie(tap, webPort) // the kernel's: the rate is used up for a second
	syn, answer, ok := w.cookie(tap, webPort)
	if c := w.counters(); !ok || c["cookie_sent"] != 1 || c["pass_half_open"] != 1 {
		t.Fatalf("answered: %t; %d SYNs were left to the kernel, %d got cookies", ok, c["pass_half_open"], c["cookie_sent"])
	}
	w.await("the same SYN to be left to the kernel", func() bool {
		if err := load.SendFrames(w.ClientPort, w.outsiderFrame(syn.Src.Port(), webPort, load.FlagSYN, syn.Seq, 0, nil)); err != nil {
			t.Fatal(err)
		}
		return w.counters()["pass_half_open"] == 2
	})
	if err := load.SendFrames(w.ClientPort, w.outsiderFrame(syn.Src.Port(), webPort, load.FlagACK, syn.Seq+1, answer.Seq+1, nil)); err != nil {
		t.Fatal(err)
	}
	w.await("the connection", func() bool { return w.counters()["adopted"] == 1 })
	c, err := l.accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
