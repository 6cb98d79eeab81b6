// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Two routers on two interfaces: SYNs come by one, answers leave by the other.

// twoRouters gives the server a second cable, by which its default routes lead.
func (w *world) twoRouters() {
	w.t.Helper()
	w.secondCable()
	w.addFarClient("tg-client")
	w.defaultVia(netip.MustParseAddr("198.18.4.2"), netip.MustParseAddr("fd7d:7467:6::2"), "")
	w.deaf("tg-client")
	for _, name := range []string{"all", "tg-server", "tg-server2"} {
		w.sysctl(w.Server, "net.ipv4.conf."+name+".rp_filter", "0")
	}
}

// bothInterfaces protects both ends of the server.
func bothInterfaces(config string) string {
	return strings.Replace(config, "[tg-server]", "[tg-server, tg-server2]", 1)
}

// serverWithoutEdge is a translating server whose SYNs no edge answers, both ends of it protected.
func (w *world) serverWithoutEdge(lines ...string) string {
	return bothInterfaces(w.webConfig(webPort, append([]string{"role: server"}, lines...)...))
}

// A flood that has exhausted the allowance does not lock clients out: what answers them leaves by the kernel's route, too.
func TestAnswersAcrossUnderFlood(t *testing.T) {
	for name, c := range map[string]struct {
		config  func(w *world) string
		prepare func(w *world)
		counter string // rises with each connection
	}{
		"adopted":      {config: func(w *world) string { return w.webConfig(webPort) }, counter: "adopted"},
		"generic XDP":  {config: func(w *world) string { return w.webConfig(webPort, "xdp_mode: generic") }, counter: "adopted"},
		"adopted only": {config: func(w *world) string { return w.webConfig(webPort, adopting) }, counter: "adopted"},
		"translated": {config: func(w *world) string { return bothInterfaces(w.webConfig(webPort, "takeover: translate")) },
			counter: "split_ready"},
		"partial checksums": {config: func(w *world) string { return w.webConfig(webPort) }, counter: "adopted",
			prepare: func(w *world) { w.must(w.ClientPort.EnableTxChecksum()) }},
		"partial checksums, generic XDP": {config: func(w *world) string { return w.webConfig(webPort, "xdp_mode: generic") }, counter: "adopted",
			prepare: func(w *world) { w.must(w.ClientPort.EnableTxChecksum()) }},
		"server":              {config: func(w *world) string { return w.serverWithoutEdge("takeover: translate") }, counter: "split_ready"},
		"server, generic XDP": {config: func(w *world) string { return w.serverWithoutEdge("takeover: translate", "xdp_mode: generic") }, counter: "split_ready"},
		"server, auto":        {config: func(w *world) string { return w.serverWithoutEdge("takeover: auto") }, counter: "adopted"},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 20
			w := newWorld(t)
			w.echoServer(webPort)
			w.twoRouters()
			if c.prepare != nil {
				c.prepare(w)
			}
			w.start(c.config(w))
			w.wantServed("before the flood", 1)
			for _, ipv6 := range families() {
				before := w.counters()
				end := w.floodTo(netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), load.FlagSYN)
				t.Cleanup(end)
				w.await("the flood", func() bool { return w.counters()["reply_across"] > before["reply_across"]+floodRate/20 })
				for i := range n {
					if err := w.pingNew(ipv6, webPort); err != nil {
						t.Errorf("%s: connection %d under the flood: %v", familyName(ipv6), i, err)
						break
					}
				}
				end()
				after := w.counters()
				// Those within the allowance, and the flood's own, are the kernel's: how many, depends on the flood's rate.
				if after[c.counter] == before[c.counter] {
					t.Errorf("%s: none of %d connections %s", familyName(ipv6), n, c.counter)
				}
				if after["reply_unsure"] != before["reply_unsure"] {
					t.Errorf("%s: %d SYNs answered to where they came from", familyName(ipv6), after["reply_unsure"]-before["reply_unsure"])
				}
			}
		})
	}
}

// What is translated must be answered by an interface of ours, or the client would meet the stack's own numbers.
func TestTranslatedNotAcross(t *testing.T) {
	for _, role := range []string{"host", "server"} {
		t.Run(role, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			w.twoRouters()
			w.start(w.webConfig(webPort, "role: "+role, "takeover: translate"))
			w.flood(1000, netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd7d:7467:9::/64"))
			if c := w.counters(); c["reply_across"] != 0 || c["reply_unsure"] == 0 {
				t.Errorf("%d answers left by an interface that is not protected, %d went to where the SYNs came from", c["reply_across"], c["reply_unsure"])
			}
			if role == "host" { // the server leaves no SYN to the kernel, whose answers these clients would get
				w.wantServed("after the flood", 3)
			}
		})
	}
}

// A SYN that is repeated while its connection is in set-up is answered once more. What leaves by the other interface is then not
// the stack's answer, from which the translation would begin.
func TestAcrossIsNotTheStacksAnswer(t *testing.T) {
	for name, config := range map[string]func(w *world) string{
		"server": func(w *world) string { return w.serverWithoutEdge("takeover: translate") },
		"host":   func(w *world) string { return bothInterfaces(w.webConfig(webPort, "takeover: translate")) },
		"host, generic XDP": func(w *world) string {
			return bothInterfaces(w.webConfig(webPort, "takeover: translate", "xdp_mode: generic"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			w.twoRouters()
			w.start(config(w))
			w.nft(w.Server, "table ip slow { chain input { type filter hook input priority 0; tcp dport 80 drop; }; }") // the stack never answers
			f := &load.Frame{To: w.ServerPort.MAC, From: w.ClientPort.MAC, Src: netip.MustParseAddrPort("198.51.100.9:4000"),
				Dst: netip.AddrPortFrom(w.ServerAddr(false), webPort), Flags: load.FlagSYN, Seq: 7, Window: 64240, Options: []byte{2, 4, 5, 180}}
			// A host leaves the first SYNs of each second to the kernel, for each processor: others go ahead of this one.
			var frames [][]byte
			for i := range 500 {
				ahead := w.syn(false, uint16(2000+i))
				ahead.Src = netip.AddrPortFrom(netip.MustParseAddr("203.0.113.9"), ahead.Src.Port())
				if frames = append(frames, ahead.Bytes()); i%50 == 49 {
					frames = append(frames, f.Bytes())
				}
			}
			answered := func() (answer load.Segment) {
				t.Helper()
				tap, err := load.NewTap(&rig.Port{NS: w.Client, Index: w.linkIn(w.Client, "tg-client2").Index})
				w.must(err)
				defer tap.Close()
				w.await("an answer to the SYN", func() (ok bool) {
					w.must(load.SendFrames(w.ClientPort, frames...))
					answer, ok = tap.Next(time.Now().Add(100*time.Millisecond), func(s load.Segment) bool {
						return s.Dst == f.Src && s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK
					})
					return ok
				})
				return answer
			}
			cookie := answered().Seq
			ack := *f
			ack.Flags, ack.Seq, ack.Ack, ack.Options = load.FlagACK, f.Seq+1, cookie+1, nil
			w.must(load.SendFrames(w.ClientPort, ack.Bytes()))
			w.await("the connection", func() bool { return w.counters()["split_opened"] == 1 })
			before := w.counters()["reply_across"]
			answered()
			if c := w.counters(); c["split_ready"] != 0 || c["reply_across"] == before {
				t.Errorf("our own answer was taken for the stack's: %v", c)
			}
		})
	}
}

// Only our own answers are sent on: nobody can have the machine send SYN-ACKs of theirs.
func TestForgedAnswersStay(t *testing.T) {
	const n = 500
	w := newWorld(t)
	w.echoServer(webPort)
	w.twoRouters()
	w.start(w.webConfig(webPort))
	second := w.link("tg-server2")
	before := second.Statistics.TxPackets
	var frames [][]byte
	for i := range n {
		f := w.syn(false, uint16(2000+i))
		f.Flags |= load.FlagACK
		f.Src, f.Dst = netip.AddrPortFrom(w.ServerAddr(false), webPort), netip.AddrPortFrom(farClient4, uint16(2000+i))
		raw := f.Bytes()
		copy(raw[:8], []byte{2, byte(i), 3, byte(i), 5, byte(i), 7, 8})
		binary.NativeEndian.PutUint32(raw[8:], uint32(second.Index))
		frames = append(frames, raw)
	}
	w.must(load.SendFrames(w.ClientPort, frames...))
	w.wantServed("behind them", 1)
	if sent := w.link("tg-server2").Statistics.TxPackets - before; sent > n/2 {
		t.Errorf("%d frames left by the second interface", sent)
	}
}

// link is a device of the server.
func (w *world) link(name string) *netlink.LinkAttrs { return w.linkIn(w.Server, name) }

func (w *world) linkIn(n *rig.Namespace, name string) (attrs *netlink.LinkAttrs) {
	w.t.Helper()
	w.must(n.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err == nil {
			attrs = l.Attrs()
		}
		return err
	}))
	return attrs
}
