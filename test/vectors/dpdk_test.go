// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/keys"
	"tidegate/internal/vectors"
)

// dpdkGate is the burst pipeline of dpdk/, played by dpdk/test/replay.c: a bridge
// whose services have the strategy auth-cookie, which answers SYNs as a host does.
type dpdkGate struct {
	*replayProgram
	burst int
	way   string // to hash, and "roomy" if buffers are as a card gives them
}

func newDPDKGate(t *testing.T, burst int, way string) *dpdkGate {
	t.Helper()
	if err := exec.Command("pkg-config", "--exists", "libdpdk").Run(); err != nil {
		t.Fatal("DPDK is missing: run tools/deps.sh dpdk")
	}
	if out, err := exec.Command("make", "-s", "-C", "../../dpdk", "replay").CombinedOutput(); err != nil {
		t.Fatalf("make -C dpdk replay: %v\n%s", err, out)
	}
	return startDPDKGate(t, burst, way)
}

// startDPDKGate is newDPDKGate when the program has been built.
func startDPDKGate(t *testing.T, burst int, way string) *dpdkGate {
	t.Helper()
	return &dpdkGate{startReplay(t, "../../build/dpdk/replay"), burst, way}
}

// What a vector's Verdict for a host is for a proxy, where it differs.
const strategyAuthCookie = 1

// worldOf are the commands that set clock, keys and services.
func (g *dpdkGate) worldOf(v *vectors.Vector) []string {
	commands := []string{fmt.Sprintf("reset %d %s", g.burst, g.way), fmt.Sprintf("epoch %d", *v.Epoch),
		"stale-keys " + v.StaleKeys}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		key := secret.EpochKey(n)
		commands = append(commands, fmt.Sprintf("key %d %x", n, key))
	}
	ports := map[uint16]uint32{}
	for _, s := range v.Services {
		commands = append(commands, fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d 0 0 %d", s.ID, s.MSSv4, s.MSSv6,
			s.Window, s.WScale, bit(s.SACK), bit(s.Timestamps), bit(s.ECN), modes[s.Mode], strategyAuthCookie, s.SignedCostUs()))
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
	return commands
}

// dpdkResult reads what became of a packet.
func dpdkResult(words []string) (r vectors.Result, err error) {
	r.Verdict = vectors.Verdict(words[0])
	if len(words) > 1 {
		r.Out, err = hex.DecodeString(words[1])
	}
	return r, err
}

// applies says whether a vector is about what a proxy does, too: a host has
// listeners and sockets to ask, a proxy has neither.
func applies(v *vectors.Vector) bool {
	if v.File == hostOnly {
		return false
	}
	for _, s := range v.Services {
		if s.Listener != "ok" {
			return false
		}
	}
	return v.Socket == vectors.SocketListener && v.Filter == vectors.FilterEmpty
}

// forProxy turns what a host must do into what auth-cookie must do: a client that would be
// adopted is whitelisted and reset, an old cookie is an invalid one. The tests of dpdk/
// check the reset byte by byte; here its length and flags are compared.
func forProxy(v vectors.Vector) vectors.Vector {
	v.Counters = maps.Clone(v.Counters)
	for id, counts := range v.Counters {
		counts = maps.Clone(counts)
		counts["cookie_invalid"] += counts["cookie_stale"]
		delete(counts, "cookie_stale")
		delete(counts, "ack_existing") // the next packet of a whitelisted source is forwarded uncounted
		counts["white_added"], counts["white_reset"] = counts["adopted"], counts["adopted"]
		counts["cookie_valid"] = counts["adopted"]
		delete(counts, "adopted")
		v.Counters[id] = counts
	}
	return v
}

func TestDPDKReplaysTheVectors(t *testing.T) {
	all := load(t, dir)
	newDPDKGate(t, 1, "")
	for _, c := range []struct {
		burst int
		way   string
	}{{1, ""}, {7, ""}, {64, ""}, {0, ""}, {0, "scalar"}, {0, "avx2"},
		{1, "best roomy"}, {7, "best roomy"}, {64, "best roomy"}, {0, "best roomy"}, {0, "scalar roomy"}} {
		t.Run(fmt.Sprintf("bursts of %d %s", c.burst, c.way), func(t *testing.T) {
			t.Parallel()
			g := startDPDKGate(t, c.burst, c.way)
			ran, adopted := 0, 0
			for i := range all {
				v := forProxy(all[i])
				if !applies(&v) {
					continue
				}
				ran++
				if v.Adopts() {
					adopted++
				}
				if d := g.replay(t, &v); len(d) != 0 {
					t.Errorf("%s: %s\n(%s)", &v, strings.Join(d, "\n"), v.Why)
				}
			}
			if ran < len(all)/2 || adopted == 0 {
				t.Errorf("%d of %d vectors were run, %d of them with a connection", ran, len(all), adopted)
			}
			short, err := g.ask("short")
			if err != nil || len(short) != 3 {
				t.Fatalf("short: %q, %v", short, err)
			}
			if roomy := strings.HasSuffix(c.way, "roomy"); roomy != (short[1] != "0") {
				t.Errorf("%s SYNs of the vectors went the fast path", short[1])
			}
			t.Logf("%d of %d vectors; %s SYNs went the fast path", ran, len(all), short[1])
		})
	}
}

// replay is vectors.Replay except for connections, which are answered with a RST.
func (g *dpdkGate) replay(t *testing.T, v *vectors.Vector) (differences []string) {
	t.Helper()
	commands := g.worldOf(v)
	first := len(commands)
	for _, p := range v.Packets {
		commands = append(commands, fmt.Sprintf("packet %x", p.In))
	}
	answers, err := g.askAll(append(commands, "counters"))
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	for i, p := range v.Packets {
		r, err := dpdkResult(answers[first+i])
		if err != nil {
			t.Fatalf("%s: packet %d: %v", v, i, err)
		}
		want := vectors.Result{Verdict: p.Verdict, Out: p.Out}
		switch {
		case p.Verdict == vectors.Pass:
			want.Out = p.In
		case p.Verdict == vectors.Adopt && r.Verdict == vectors.TX && isReset(r.Out):
			continue
		}
		for _, d := range vectors.Differences(want, r) {
			differences = append(differences, fmt.Sprintf("packet %d: %s", i, d))
		}
	}
	got, err := countersOf(answers[len(answers)-1])
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return append(differences, vectors.CounterDifferences(v.Counters, got)...)
}

// isReset reports an IPv4 or IPv6 segment without options whose only flag is RST.
func isReset(frame []byte) bool {
	for _, at := range []int{14, 18, 22} { // after no, one or two tags
		if len(frame) == at+20+20 || len(frame) == at+40+20 {
			if frame[len(frame)-7] == 4 {
				return true
			}
		}
	}
	return false
}

func TestDPDKRejectsTheCanaries(t *testing.T) {
	g := newDPDKGate(t, 7, "")
	ran := 0
	for _, v := range load(t, dir+"/canary") {
		p := forProxy(v)
		if !applies(&p) || slices.ContainsFunc(p.Packets, func(p vectors.Packet) bool { return p.Verdict == vectors.Adopt }) {
			continue
		}
		ran++
		if d := g.replay(t, &p); len(d) == 0 {
			t.Errorf("%s: accepted, though it is wrong: %s", &v, v.Why)
		}
	}
	if ran == 0 {
		t.Error("no canary was run")
	}
}
