// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"tidegate/internal/lab/load"
)

// Translated connections outlive the daemon, whether it ends or is killed, in either XDP mode.
func TestTranslatedOutliveTheDaemon(t *testing.T) {
	for _, mode := range []string{"auto", "generic"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			w.nft(w.Server, obstacles[1].rules)
			config := w.webConfig(webPort, "takeover: translate", "xdp_mode: "+mode)
			g := w.start(config)
			var live []conn
			still := func(when string) {
				t.Helper()
				for _, ipv6 := range families() {
					live = append(live, w.mustDial(ipv6, webPort))
				}
				for _, c := range live {
					if err := c.ping(); err != nil {
						t.Fatalf("%s: %v", when, err)
					}
				}
			}
			still("at first")
			g.Kill()
			still("killed")
			g = w.start(config)
			still("started again")
			g.Stop()
			still("stopped")
			w.start(config)
			still("started once more")
			w.mustPingNew(3)
			if c := w.counters(); c["adopted"] != 0 || c["split_full"] != 0 {
				t.Errorf("adopted %d, no room %d", c["adopted"], c["split_full"])
			}
		})
	}
}

const floodRate = 20_000

// floodAt sends segments with these flags to a port, over IPv4, until the returned function is called.
func (w *world) floodAt(port uint16, flags load.TCPFlags) (end func()) {
	w.t.Helper()
	return w.floodTo(netip.AddrPortFrom(w.ServerAddr(false), port), flags)
}

// floodTo does the same to any address.
func (w *world) floodTo(target netip.AddrPort, flags load.TCPFlags) (end func()) {
	w.t.Helper()
	f, err := load.NewFlood(w.ClientPort, w.ServerPort, load.FloodOptions{Target: target, Flags: flags, CPU: -1})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := f.Run(ctx, floodRate)
		done <- err
	}()
	return sync.OnceFunc(func() {
		cancel()
		w.must(errors.Join(<-done, f.Close()))
	})
}

// Under a flood of SYNs and ACKs, clients reach a container and a local listener behind NAT, and the flood
// occupies no place in the table.
func TestTranslatedUnderFlood(t *testing.T) {
	const n, published = 10, 8088
	w := newWorld(t)
	w.container()
	w.echoServer(webPort)
	w.nft(w.Server, fmt.Sprintf(toContainer, published))
	for _, ipv6 := range families() {
		w.await("the container, "+familyName(ipv6), func() bool { return w.pingNew(ipv6, published) == nil })
	}
	w.start(w.topConfig("takeover: auto") + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: always\n  - name: container\n    ports: [%d]\n    mode: always\n    forwarded: yes\n", webPort, published))
	for _, flags := range []load.TCPFlags{load.FlagSYN, load.FlagACK} {
		came := func() uint64 { c := w.service("container").Counters; return c["syn"] + c["cookie_invalid"] }
		before := came()
		end := w.floodAt(published, flags)
		t.Cleanup(end)
		w.await("the flood", func() bool { return came() > before+floodRate/10 })
		w.served(n, webPort, published)
		end()
	}
	want := uint64(2 * n * len(families()))
	for _, name := range []string{"web", "container"} {
		if c := w.service(name).Counters; c["split_opened"] != want || c["split_ready"] != want || c["adopted"] != 0 {
			t.Errorf("%s: %d opened, %d ready of %d", name, c["split_opened"], c["split_ready"], want)
		}
	}
}
