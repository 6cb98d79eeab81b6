// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/instance"
	harness "tidegate/test/world"
)

// SYNs with sources in one /24 are answered up to the limit; clients elsewhere notice nothing. The limit changes live.
func TestSynackLimit(t *testing.T) {
	const limit = 1000
	w := newWorld(t)
	w.echoServer(webPort)
	conf := w.webConfig(webPort)
	g := w.start(strings.Replace(conf, "services:", "synack_limit: 1000\nservices:", 1))
	began := time.Now()
	stop := w.synFlood(50_000)
	pings := 0
	w.await("30,000 SYNs", func() bool {
		if err := w.pingNew(true, webPort); err != nil {
			t.Fatalf("a client of another prefix: %v", err)
		}
		pings++
		return w.counters()["syn"] > 30_000
	})
	sent := stop()
	took := time.Since(began).Seconds()
	c := w.counters()
	// A bucket holds a tenth of a second, on each processor.
	if most := uint64(limit*(took+0.2)) + uint64(pings); c["cookie_sent"] > most || c["cookie_sent"] < most/8 {
		t.Errorf("%d of %d SYNs were answered in %.1f s, want at most %d: %v", c["cookie_sent"], sent, took, most, harness.NonZero(c))
	}
	if c["drop_reflected"] == 0 || c["syn"] != c["cookie_sent"]+c["drop_reflected"]+c["pass_neighbour"] {
		t.Errorf("%v", harness.NonZero(c))
	}
	g.Reload(conf, "msg=reloaded")
	before := w.counters()["drop_reflected"]
	for range 50 {
		if err := w.pingNew(false, webPort); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.counters()["drop_reflected"]; now != before {
		t.Errorf("%d SYNs were dropped without a limit", now-before)
	}
}

// A SYN counts once against the limit, although the fast path leaves it to the slow path because nobody knows where its answer
// would go: of a burst, as many SYNs get past the limit as an allowance holds, a tenth of a second's worth of one CPU's share.
func TestSynackLimitCountsOnce(t *testing.T) {
	const limit, burst = 10_000, 5_000
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort, "synack_limit: 10000"))
	least := uint64(limit / 10 / instance.OnlineCPUs())
	syns, before := harness.NewSYNs(t, w.ClientPort, w.ServerPort), w.counters()
	for i, ipv6 := range families() {
		for n := range uint16(burst) {
			syns.Send(stranger(ipv6, 1024+n), netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), linuxOptions(t))
		}
		w.await("the burst", func() bool { return w.counters()["syn"] >= uint64(i+1)*burst })
		now := w.counters()
		if passed := burst - (now["drop_reflected"] - before["drop_reflected"]); passed < least {
			t.Errorf("%s: %d SYNs of a burst got past the limit, want at least %d: %v", familyName(ipv6), passed, least, harness.NonZero(now))
		}
		before = now
	}
}

// linuxOptions are those of Linux: MSS 1460, SACK permitted, timestamps, window scale 7.
func linuxOptions(t *testing.T) []byte {
	t.Helper()
	options, err := hex.DecodeString("020405b40402080a000000010000000001030307")
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// 100,000 SYNs a second, forged from one /24 or one /48, cause no more SYN-ACKs on the wire than the limit, whether the fast path
// or the slow path answers them. Every client of another prefix is served by its first SYN.
func TestNeverAReflector(t *testing.T) {
	const limit, rate, each = 1000, 100_000, 150_000
	w := newWorld(t)
	w.echoServer(webPort)
	w.knowStranger()
	w.start(w.webConfig(webPort, "synack_limit: 1000"))
	for _, c := range []struct {
		name    string
		ipv6    bool
		options []byte
	}{
		{"IPv4, no options", false, nil},
		{"IPv6, as Linux", true, linuxOptions(t)},
	} {
		syns, before := harness.NewSYNs(t, w.ClientPort, w.ServerPort), w.counters()
		to, pings := netip.AddrPortFrom(w.ServerAddr(c.ipv6), webPort), uint64(0)
		began := time.Now()
		for sent := 0; sent < each; {
			for sent < min(each, int(time.Since(began).Seconds()*rate)) {
				syns.Send(stranger(c.ipv6, uint16(1024+sent%20_000)), to, c.options)
				sent++
			}
			if pings < uint64(time.Since(began).Seconds()*50) { // clients stay within their own prefix's limit
				if err := w.pingNew(!c.ipv6, webPort); err != nil {
					t.Fatalf("%s: client %d of another prefix: %v", c.name, pings, err)
				}
				pings++
			}
		}
		w.await("the last SYN", func() bool { return w.counters()["syn"]-before["syn"] >= each+pings })
		took := time.Since(began).Seconds()
		now := w.counters()
		answers := 0
		for port, n := range syns.Answered(200 * time.Millisecond) {
			if port < 1024+20_000 { // clients have higher ports
				answers += n
			}
		}
		t.Logf("%s: %d SYNs in %.2f s, %.0f a second: %d answers; %d other clients served", c.name, each, took, each/took, answers, pings)
		if most := int(limit * (took + 0.1)); answers == 0 || answers > most {
			t.Errorf("%s: %d SYNs forged from one prefix caused %d SYN-ACKs in %.2f s, want at most %d", c.name, each, answers, took, most)
		}
		if syn := now["syn"] - before["syn"]; syn != each+pings {
			t.Errorf("%s: %d SYNs came, want %d forged ones and one of each of %d clients", c.name, syn, each, pings)
		}
	}
}
