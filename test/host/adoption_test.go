// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// What may stop the adoption of connections, for which listener, and for how long.

// outsider is an address behind the client's port for which no stack answers.
var outsider = netip.MustParseAddr("198.18.3.77")

// doubleTags are stacks of two tags, and one that the kernel does not recognize as a tag: in
// such a frame it finds no IP packet that it could adopt.
var doubleTags = map[string][]byte{
	"88a8+8100":       {0x88, 0xa8, 0, 7, 0x81, 0, 0, 8},
	"8100+8100":       {0x81, 0, 0, 5, 0x81, 0, 0, 5},
	"8100+8100 VID 0": {0x81, 0, 0, 0, 0x81, 0, 0, 5},
	"VID 0 twice":     {0x81, 0, 0, 0, 0x81, 0, 0xe0, 0},
	"9100+8100":       {0x91, 0, 0, 7, 0x81, 0, 0, 8},
	"9100":            {0x91, 0, 0, 7},
}

// outsiderFrame is a segment of an outsider, to the server's IPv4 address.
func (w *world) outsiderFrame(sport, port uint16, flags load.TCPFlags, seq, ack uint32, tags []byte) []byte {
	f := load.Frame{To: w.ServerPort.MAC, From: w.ClientPort.MAC, Src: netip.AddrPortFrom(outsider, sport),
		Dst: netip.AddrPortFrom(w.ServerAddr(false), port), Flags: flags, Seq: seq, Ack: ack, Window: 64000}
	if flags == load.FlagSYN {
		f.Options = []byte{2, 4, 5, 180}
	}
	return slices.Insert(f.Bytes(), 12, tags...)
}

// cookie sends a SYN from an outsider and reads the answer.
func (w *world) cookie(tap *load.Tap, port uint16) (syn, answer load.Segment, ok bool) {
	w.t.Helper()
	w.nextPort++
	syn = load.Segment{Src: netip.AddrPortFrom(outsider, 20000+w.nextPort), Dst: netip.AddrPortFrom(w.ServerAddr(false), port), Seq: 0x1000000 * uint32(w.nextPort)}
	if err := load.SendFrames(w.ClientPort, w.outsiderFrame(syn.Src.Port(), port, load.FlagSYN, syn.Seq, 0, nil)); err != nil {
		w.t.Fatal(err)
	}
	answer, ok = tap.Next(time.Now().Add(patience), func(s load.Segment) bool {
		return s.Src == syn.Dst && s.Dst == syn.Src && s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK
	})
	return syn, answer, ok
}

// halfOpen counts the half-open connections of the server's kernel.
func (w *world) halfOpen() int {
	w.t.Helper()
	n := 0
	err := w.Server.Do(func() error {
		for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			rows, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for row := range strings.Lines(string(rows)) {
				if f := strings.Fields(row); len(f) > 3 && f[3] == "03" { // TCP_SYN_RECV
					n++
				}
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// An ACK with a valid cookie in a frame that the kernel cannot adopt says nothing about the
// listener: it changes nothing for any client.
func TestFrameThatCannotBeAdopted(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	g := w.start(w.webConfig(webPort))
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	n, unread := uint64(0), uint64(0)
	for name, tags := range doubleTags {
		for range 4 {
			syn, answer, ok := w.cookie(tap, webPort)
			if !ok {
				t.Fatalf("%s: no cookie came", name)
			}
			n++
			if err := load.SendFrames(w.ClientPort, w.outsiderFrame(syn.Src.Port(), webPort, load.FlagACK, syn.Seq+1, answer.Seq+1, tags)); err != nil {
				t.Fatal(err)
			}
		}
		// Of a tag that is none to the kernel, generic XDP's copy has nothing before it by which the gate could find the IP packet.
		if harness.GenericXDP && strings.HasPrefix(name, "9100") {
			unread += 4
		}
		w.await(name+": the frames are counted", func() bool { return w.counters()["ack_frame"] == n-unread })
		if got := w.service("web").Listener; got != "ok" {
			t.Errorf("%s: status calls the listener %q", name, got)
		}
	}
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopt_failed": 0, "adopted": uint64(2 * len(families())), "pass_listener": 0,
		"cookie_sent": n + uint64(2*len(families()))})
	if lines := g.Log("level=WARN"); len(lines) > 0 {
		t.Errorf("warned of what is nothing: %q", lines)
	}
}

// What cannot be adopted is not answered either, and it does not bypass the gate: the
// kernel has no such device, and a flood of such frames leaves no state in it.
func TestSYNsThatCannotBeAdopted(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	w.start(w.webConfig(webPort))
	sent := uint64(0)
	for name, tags := range doubleTags {
		var syns [][]byte
		for i := range 1000 {
			syns = append(syns, w.outsiderFrame(uint16(10000+i), webPort, load.FlagSYN, uint32(i)<<20, 0, tags))
		}
		if err := load.SendFrames(w.ClientPort, syns...); err != nil {
			t.Fatal(err)
		}
		sent += 1000
		w.await(name+": all SYNs have come", func() bool { return w.counters()["syn"] == sent })
		if n := w.halfOpen(); n != 0 {
			t.Errorf("%s: the kernel holds %d requests", name, n)
		}
	}
	c := w.counters()
	if c["cookie_sent"] != 0 || c["pass_stack"]+c["drop_stack"] != sent {
		t.Errorf("counters: %v", c)
	}
	if c["drop_stack"] == 0 {
		t.Errorf("no SYN of a flood was dropped: %v", c)
	}
}

// An MPTCP listener that exists for a moment between two plain ones: the kernel's
// refusal is not attributed to the next listener.
func TestMPTCPListenerForAMoment(t *testing.T) {
	w := newWorld(t)
	l := w.echoServer(webPort)
	w.echoServer(webPort + 1)
	g := w.start(w.topConfig(adopting) + "services:\n  - name: web\n    ports: [80-81]\n    mode: always\n")
	w.mustPingNew(1)
	g.Halt()
	l.close()
	moment := w.listenOn(webPort, unix.IPPROTO_MPTCP, 16)
	moment.serve(echo)
	if err := w.pingNew(false, webPort); err == nil {
		t.Error("a cookie was adopted by an MPTCP listener")
	}
	moment.close()
	w.echoServer(webPort)
	g.Signal(unix.SIGCONT)
	w.awaitListener("web", "ok")
	// Watched for as long as it took to attribute a refusal wrongly.
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		if got := w.service("web").Listener; got != "ok" {
			t.Fatalf("status calls the listener %q", got)
		}
	}
	before := w.counters()
	w.mustPingNew(1)
	if c := w.counters(); c["adopted"] != before["adopted"]+uint64(len(families())) || c["pass_listener"] != before["pass_listener"] {
		t.Errorf("protection has not come back: %v", c)
	}
}

// An MPTCP listener loses only its own protection, and status says which listener and why.
func TestMPTCPListenerBesideAnother(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	mptcp := w.listenOn(webPort+1, unix.IPPROTO_MPTCP, 16)
	mptcp.serve(echo)
	g := w.start(w.topConfig(adopting) + "services:\n  - name: web\n    ports: [80-81]\n    mode: always\n")
	g.AwaitLog("level=WARN", "MPTCP", ":81", "multipathtcp=0")
	w.mustPingNew(2)
	n := uint64(len(families()))
	w.wantCounters(map[string]uint64{"adopted": 2 * n, "cookie_sent": 2 * n, "pass_listener": 0})
	for _, ipv6 := range families() {
		if err := w.pingNew(ipv6, webPort+1); err != nil {
			t.Errorf("%s, MPTCP: %v", familyName(ipv6), err)
		}
	}
	w.wantCounters(map[string]uint64{"adopted": 2 * n, "cookie_sent": 2 * n, "pass_listener": n, "adopt_failed": 0})
	s := w.service("web")
	if s.Listener != "degraded" || len(s.Degraded) == 0 || s.Degraded[0].Reason != "mptcp" || s.Degraded[0].Listener.Port() != webPort+1 {
		t.Errorf("status: %q, %+v", s.Listener, s.Degraded)
	}
	mptcp.close()
	w.echoServer(webPort + 1)
	g.AwaitLog("level=INFO", "protected again", ":81")
	w.awaitListener("web", "ok")
}

// An unexplained refusal counts only when several clients in a row have met it,
// for the one listener, and for a while: then adoption is retried. (No daemon runs
// that would see the sysctl that causes it.)
func TestUnexplainedRefusals(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.echoServer(webPort + 1)
	w.start(w.topConfig(adopting) + "services:\n  - name: web\n    ports: [80-81]\n    mode: always\n").Kill()
	refuse := func(on bool) {
		t.Helper()
		w.sysctl(w.Server, "net.ipv4.tcp_sack", map[bool]string{true: "0", false: "1"}[on])
	}
	meet := func(n int) {
		t.Helper()
		for range n {
			if err := w.pingNew(false, webPort); err == nil {
				t.Fatal("adopted what the kernel refuses")
			}
		}
	}
	state := func(want string) {
		t.Helper()
		if s := w.service("web"); s.Listener != want {
			t.Errorf("status: %q, %+v; want %q", s.Listener, s.Degraded, want)
		}
	}
	refuse(true)
	meet(plane.RefusalsProve - 1)
	state("ok")
	refuse(false) // one success, and the count starts over
	if err := w.pingNew(false, webPort); err != nil {
		t.Fatal(err)
	}
	refuse(true)
	meet(plane.RefusalsProve)
	if err := w.pingNew(false, webPort); err != nil {
		t.Errorf("in the pause: %v", err)
	}
	state("degraded")
	refuse(false)
	if err := w.pingNew(false, webPort+1); err != nil {
		t.Errorf("the other listener: %v", err)
	}
	w.wantCounters(map[string]uint64{"adopt_failed": 2*plane.RefusalsProve - 1, "adopted": 2, "pass_listener": 1})
	w.await("adoption is retried", func() bool {
		if err := w.pingNew(false, webPort); err != nil {
			t.Fatal(err)
		}
		return w.counters()["adopted"] == 3
	})
	state("ok")
}
