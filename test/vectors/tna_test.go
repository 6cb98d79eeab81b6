// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/keys"
	"tidegate/internal/vectors"
	"tidegate/test/tna"
)

const p4Dir = "../../p4"

// tnaVectors executes vectors on the edge of p4/tna. TestSmartEdge replays the same vectors on the XDP
// edge: what agrees with them here agrees byte by byte with it.
type tnaVectors struct {
	x           *tna.Executor
	frames, far int // frames executed, and those that recirculated as often as a cookie does
}

// group executes vectors that have the same settings; it returns the differences of each.
func (g *tnaVectors) group(group []*vectors.Vector) (map[*vectors.Vector][]string, error) {
	s := tnaSettings(group[0])
	var frames [][]byte
	for _, v := range group {
		for _, p := range v.Packets {
			frames = append(frames, p.In)
		}
	}
	unknown, err := g.x.Execute(s, false, false, frames)
	if err != nil {
		return nil, err
	}
	// What the filter would do: an ACK that is verified makes its flow known.
	var again [][]byte
	var at []int
	i := 0
	for _, v := range group {
		known := map[string]bool{}
		for _, p := range v.Packets {
			flow := string(flowOf(p.In))
			if known[flow] {
				again, at = append(again, p.In), append(at, i)
			}
			if unknown[i].Verdict == vectors.Pass && unknown[i].Recirculations > 0 {
				known[flow] = true
			}
			i++
		}
	}
	if len(again) > 0 {
		known, err := g.x.Execute(s, false, true, again)
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			unknown[i] = known[k]
		}
	}
	differences := map[*vectors.Vector][]string{}
	i = 0
	for _, v := range group {
		for k, p := range v.Packets {
			if unknown[i].Recirculations == g.x.Chip.Recirculations {
				g.far++
			}
			got, err := asOtherEdges(unknown[i].Result)
			if err != nil {
				return nil, fmt.Errorf("%s, packet %d: %w", v, k, err)
			}
			for _, d := range vectors.Differences(tnaWants(p), got) {
				differences[v] = append(differences[v], fmt.Sprintf("packet %d: %s", k, d))
			}
			i++
		}
	}
	g.frames += len(frames)
	return differences, nil
}

// tnaSettings are a vector's settings. A service that is off has no entry; there is no monitor.
func tnaSettings(v *vectors.Vector) *tna.Settings {
	s := &tna.Settings{Epoch: *v.Epoch, Hops: v.Hops, StaleDrop: v.StaleKeys == "drop"}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		key := secret.SmartKey(n)
		s.Keys = append(s.Keys, tna.Key{Epoch: n, Bytes: key[:]})
	}
	for _, service := range v.Services {
		if service.Mode != "always" {
			continue
		}
		prefixes := service.Prefixes
		if len(prefixes) == 0 {
			prefixes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		}
		for _, p := range prefixes {
			if p.Addr().Is4() {
				s.Services = append(s.Services, tna.Service{Prefix: p, Port: service.Port, MSS: service.MSSv4,
					Window: service.Window, WScale: service.WScale})
			}
		}
	}
	return s
}

// tnaWants is a vector's expectation; this edge forwards IPv6 unverified.
func tnaWants(p vectors.Packet) vectors.Result {
	if ip, six := ipOf(p.In); ip != nil && six {
		return vectors.Result{Verdict: vectors.Pass, Out: p.In}
	}
	want := vectors.Result{Verdict: p.Verdict, Out: p.Out}
	if p.Verdict != vectors.TX && len(p.Out) == 0 {
		want.Out = p.In
	}
	return want
}

// ipOf returns a frame from its IP header on.
func ipOf(frame []byte) (ip []byte, six bool) {
	for at := 12; at+2 <= len(frame); at += 4 {
		switch binary.BigEndian.Uint16(frame[at:]) {
		case 0x8100, 0x88a8, 0x9100:
			continue
		case 0x0800:
			return frame[at+2:], false
		case 0x86dd:
			return frame[at+2:], true
		}
		break
	}
	return nil, false
}

// flowOf returns the addresses and ports of TCP over IPv4 without options, or nothing.
func flowOf(frame []byte) []byte {
	ip, six := ipOf(frame)
	if six || len(ip) < 24 || ip[0] != 0x45 || ip[9] != 6 {
		return nil
	}
	return ip[12:24]
}

// asOtherEdges makes an answer what other edges send: without what is left of the SYN behind it, and without the four
// NOPs that stand for a window scale. The checksums must be right before.
func asOtherEdges(r vectors.Result) (vectors.Result, error) {
	ip, _ := ipOf(r.Out)
	if r.Verdict != vectors.TX {
		return r, nil
	}
	if len(ip) < 48 || ip[0] != 0x45 || binary.BigEndian.Uint16(ip[2:]) != 48 || ip[32]>>4 != 7 {
		return r, errors.New("an answer with other lengths than this edge's")
	}
	head, ip := len(r.Out)-len(ip), bytes.Clone(ip[:48])
	if checksum(ip[:20]) != 0 || tcpChecksum(ip) != 0 {
		return r, fmt.Errorf("an answer with wrong checksums: %x", ip)
	}
	if bytes.Equal(ip[44:], []byte{1, 1, 1, 1}) {
		ip = ip[:44]
		ip[3], ip[32] = 44, 6<<4
		copy(ip[10:12], []byte{0, 0})
		copy(ip[36:38], []byte{0, 0})
		binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
		binary.BigEndian.PutUint16(ip[36:], tcpChecksum(ip))
	}
	r.Out = slices.Concat(r.Out[:head], ip)
	return r, nil
}

// tcpChecksum is over a datagram without options.
func tcpChecksum(ip []byte) uint16 {
	pseudo := slices.Concat(ip[12:20], []byte{0, 6, 0, byte(len(ip) - 20)}, ip[20:])
	return checksum(pseudo)
}

// onTofino are vectors that differ in what the program does with them. All of vectors/edge would take hours:
// TIDEGATE_VECTOR chooses others, by the beginning of their names.
var onTofino = []string{
	"syns/linux-sack-ts-ws-v4", // answered
	"floods/flood-ack-v4",      // dropped after its hash
	"verified/valid-v4",        // forwarded after its hash, and then as a known flow
	"syns/linux-sack-ts-ws-v6", // forwarded unverified
}

func TestTofinoEdgeExecuted(t *testing.T) {
	g := &tnaVectors{x: tna.New(t, p4Dir, tna.Tofino1)}
	chosen := onTofino
	if named := os.Getenv("TIDEGATE_VECTOR"); named != "" {
		chosen = []string{named}
	}
	var groups [][]*vectors.Vector
	all := load(t, filepath.Join(dir, "edge"))
	for i := range all {
		v := &all[i]
		if !slices.ContainsFunc(chosen, func(name string) bool { return strings.HasPrefix(v.String(), name) }) {
			continue
		}
		at := slices.IndexFunc(groups, func(g []*vectors.Vector) bool {
			return reflect.DeepEqual(tnaSettings(g[0]), tnaSettings(v))
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], v)
	}
	passed := 0
	for _, group := range groups {
		differences, err := g.group(group)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range group {
			if d := differences[v]; len(d) > 0 {
				t.Errorf("%s (%s):\n%s", v, v.Why, strings.Join(d, "\n"))
				continue
			}
			passed++
			t.Logf("%s agrees with the XDP edge", v)
		}
	}
	t.Logf("%d vectors; %d frames, %d of them recirculated %d times", passed, g.frames, g.far, g.x.Chip.Recirculations)
	if passed == 0 {
		t.Error("no vector was executed")
	}
}
