// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/vectors"
)

const (
	authProgram   = "../../p4/v1model/auth.p4"
	cookieProgram = "../../p4/v1model/cookie.p4"
	proxyVectors  = "../../vectors/proxy"
)

// strategyTagged is what the vectors call an edge that speaks the protocol tagged.
const strategyTagged = "tagged"

// proxyBench is a switch that runs auth.p4 or cookie.p4, and its controller.
type proxyBench struct {
	*bench
	controller *p4.Controller
	begun      time.Time
	installed  string
}

func newProxyBench(t *testing.T, program string) *proxyBench {
	b := &proxyBench{bench: newBench(t, program)}
	t.Cleanup(b.end)
	return b
}

func (b *proxyBench) end() {
	if b.controller != nil {
		_ = b.controller.Close()
		b.controller = nil
	}
}

// begin configures the switch; the clock is at the beginning of the epoch.
func (b *proxyBench) begin(program, whitelist string, secret keys.Secret, epoch uint64, services []vectors.Service, staleKeys string, noKey bool, salt uint64) error {
	installed := fmt.Sprint(program, whitelist, epoch, services, staleKeys, noKey)
	if b.controller != nil && installed == b.installed && time.Since(b.begun) < vectorFresh {
		return b.controller.Reset()
	}
	b.end()
	b.installed, b.begun = installed, time.Now()
	learn := p4.Duration(0)
	cfg := &p4.Config{Program: program, Whitelist: whitelist, Thrift: thriftAddr, Notifications: b.notifications,
		Epoch: p4.Duration(vectorEpoch), KeyHorizon: p4.Duration(time.Second), OnStaleKeys: config.StaleKeys(staleKeys),
		Window: p4.Duration(time.Hour), Learn: &learn, MACLimit: new(int), Inside: []string{"sw2"}}
	for _, s := range services {
		cfg.Services = append(cfg.Services, p4.Service{ID: uint8(s.ID), Name: fmt.Sprint(s.ID), Prefixes: s.Prefixes,
			Ports: []uint16{s.Port}, Mode: config.Mode(s.Mode), MSSv4: s.MSSv4, MSSv6: s.MSSv6, Window: s.Window,
			WScale: &s.WScale})
	}
	if program == strategyTagged {
		cfg.Program, cfg.Protocol, cfg.EdgeID, cfg.MTU = p4.ProgramEdge, p4.ProtocolTagged, 7, 1500
	}
	cfg.Complete()
	clock := keys.EpochStart(epoch, vectorEpoch).Sub(b.begun)
	var err error
	b.controller, err = p4.NewController(context.Background(), cfg, &secret, p4.Options{Salt: &salt,
		Now: func() time.Time { return time.Now().Add(clock) }})
	if err == nil && noKey {
		err = b.controller.ForgetKeys()
	}
	if err == nil {
		err = b.controller.Reset()
	}
	return err
}

// awaitEntries waits until the controller has made this many entries from digests.
func (b *proxyBench) awaitEntries(n int) error {
	for deadline := time.Now().Add(patience); b.controller.Entries() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d entries, want %d", b.controller.Entries(), n)
		}
		if err := b.controller.Tick(); err != nil {
			return err
		}
	}
	return nil
}

// switchVectors is vectors/proxy/switch.yaml.
type switchVectors struct {
	Secret  string          `yaml:"secret"`
	Epoch   uint64          `yaml:"epoch"`
	Salt    uint64          `yaml:"salt"`
	Service vectors.Service `yaml:"service"`
	Vectors []switchVector  `yaml:"vectors"`
}

type switchVector struct {
	Name     string            `yaml:"name"`
	Why      string            `yaml:"why"`
	Strategy string            `yaml:"strategy"`
	Steps    []switchStep      `yaml:"steps"`
	Counters map[string]uint64 `yaml:"counters"`
}

type switchStep struct {
	From    string        `yaml:"from"`
	In      vectors.Bytes `yaml:"in"`
	On      vectors.Bytes `yaml:"on"`
	Back    vectors.Bytes `yaml:"back"`
	Entries *int          `yaml:"entries"` // of the whitelist, or of connections, afterwards
}

func loadSwitchVectors(t *testing.T) (v switchVectors, secret keys.Secret) {
	t.Helper()
	text, err := os.ReadFile(proxyVectors + "/switch.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(v.Secret)
	if err != nil || len(raw) != len(secret) {
		t.Fatalf("secret %q: %v", v.Secret, err)
	}
	copy(secret[:], raw)
	return v, secret
}

// replay sends a vector through the switch; every difference is a line.
func (b *proxyBench) replay(v *switchVector, entries bool) (differences []string, err error) {
	for i, s := range v.Steps {
		from, to := b.outside, b.inside
		if s.From == "server" {
			from, to = to, from
		}
		on, back, err := b.through(from, to, s.In)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		differences = append(differences, s.differences(i, on, back)...)
		if entries && s.Entries != nil {
			if err := b.awaitEntries(*s.Entries); err != nil {
				differences = append(differences, fmt.Sprintf("step %d: %v", i, err))
			}
		}
	}
	counts, err := b.controller.Counters()
	if err != nil {
		return nil, err
	}
	return append(differences, v.miscounted(counts["1"])...), nil
}

// differences are those of a step, the i-th, from what went on and came back.
func (s *switchStep) differences(i int, on, back [][]byte) (lines []string) {
	for _, side := range []struct {
		what string
		got  [][]byte
		want []byte
	}{{"went on", on, s.On}, {"came back", back, s.Back}} {
		switch {
		case len(side.want) == 0 && len(side.got) == 0:
		case len(side.got) != 1 || !bytes.Equal(side.got[0], side.want):
			lines = append(lines, fmt.Sprintf("step %d: %d frames %s\n  in %x\n got %x\nwant %x", i, len(side.got),
				side.what, []byte(s.In), side.got, side.want))
		}
	}
	return lines
}

func (v *switchVector) miscounted(got map[string]uint64) []string {
	if maps.Equal(got, v.Counters) || len(got)+len(v.Counters) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("counted %v, want %v", got, v.Counters)}
}

// replaySwitch replays the vectors of some strategies, whose whitelist is a table or a filter.
func (b *proxyBench) replaySwitch(t *testing.T, whitelist string, strategies ...string) {
	t.Helper()
	file, secret := loadSwitchVectors(t)
	passed := 0
	for _, strategy := range strategies {
		for i := range file.Vectors {
			v := &file.Vectors[i]
			if only := os.Getenv("TIDEGATE_VECTOR"); v.Strategy != strategy || only != "" && v.Name != only {
				continue
			}
			if err := b.begin(strategy, whitelist, secret, file.Epoch, []vectors.Service{file.Service}, "pass", false, file.Salt); err != nil {
				t.Fatal(err)
			}
			differences, err := b.replay(v, whitelist == "table")
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			if len(differences) != 0 {
				t.Errorf("%s (%s, %s):\n%s", v.Name, v.Why, whitelist, strings.Join(differences, "\n"))
				continue
			}
			passed++
		}
	}
	t.Logf("%d vectors, whitelist or connections: %s", passed, whitelist)
	if passed == 0 {
		t.Error("no vector was replayed")
	}
}

// TestAuthVectors replays the strategies auth-full and auth-cookie, the whitelist once
// as a table and once as a filter, byte for byte; then every SYN and every condemned
// frame of the edge's vectors, which auth-cookie answers as an edge does.
func TestAuthVectors(t *testing.T) {
	b := newProxyBench(t, authProgram)
	for _, whitelist := range []string{"table", "bloom"} {
		b.replaySwitch(t, whitelist, p4.ProgramAuthFull, p4.ProgramAuthCookie)
	}
	b.replaySYNs(t, p4.ProgramAuthCookie, func([]byte) {})
}

// TestCookieVectors replays the strategy cookie likewise.
func TestCookieVectors(t *testing.T) {
	b := newProxyBench(t, cookieProgram)
	b.replaySwitch(t, "table", p4.ProgramCookie)
	b.replaySYNs(t, p4.ProgramCookie, closeWindow)
}

// TestTaggedVectors replays what an edge of the protocol tagged makes of packets.
func TestTaggedVectors(t *testing.T) {
	newProxyBench(t, edgeProgram).replaySwitch(t, "table", strategyTagged)
}

// closeWindow makes of an edge's SYN-ACK the one of a proxy: with a window of zero.
func closeWindow(frame []byte) {
	at := 14
	for binary.BigEndian.Uint16(frame[at-2:]) != 0x0800 && binary.BigEndian.Uint16(frame[at-2:]) != 0x86dd {
		at += 4
	}
	if frame[at]>>4 == 4 {
		at += 20
	} else {
		at += 40
	}
	sum := uint32(^binary.BigEndian.Uint16(frame[at+16:])) + uint32(^binary.BigEndian.Uint16(frame[at+14:]))
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(frame[at+14:], 0)
	binary.BigEndian.PutUint16(frame[at+16:], ^uint16(sum))
}

// replaySYNs replays vectors/edge/syns.yaml: verdicts and bytes, not counters, which a
// proxy in mode monitor counts otherwise.
func (b *proxyBench) replaySYNs(t *testing.T, program string, change func(answer []byte)) {
	t.Helper()
	all, err := vectors.Load(edgeVectors + "/syns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b vectors.Vector) int { return strings.Compare(settingsKey(&a), settingsKey(&b)) })
	packets, skipped := 0, 0
	for i := range all {
		v := &all[i]
		withoutStubs(v)
		if _, excused := unsupported[v.String()]; excused {
			skipped++
			t.Logf("%s left out: %s", v, unsupported[v.String()])
			continue
		}
		if only := os.Getenv("TIDEGATE_VECTOR"); only != "" && v.String() != only {
			continue
		}
		err := b.begin(program, "table", v.Secret, *v.Epoch, v.Services, v.StaleKeys, !slices.Contains(v.Keys, *v.Epoch), 1)
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range v.Packets {
			on, back, err := b.through(b.outside, b.inside, p.In)
			if err != nil {
				t.Fatalf("%s: %v", v, err)
			}
			want := map[vectors.Verdict][2]int{vectors.Pass: {1, 0}, vectors.TX: {0, 1}, vectors.Drop: {0, 0}}[p.Verdict]
			good := [2]int{len(on), len(back)} == want
			if good && p.Verdict == vectors.TX {
				answer := bytes.Clone(p.Out)
				change(answer)
				good = bytes.Equal(back[0], answer)
			}
			if good && p.Verdict == vectors.Pass {
				good = bytes.Equal(on[0], p.In)
			}
			if !good {
				t.Errorf("%s: packet %d, want %s\n   in %x\n   on %x\n back %x\n want %x", v, n, p.Verdict, []byte(p.In), on, back, []byte(p.Out))
			}
			packets++
		}
	}
	t.Logf("%s: %d packets of %d vectors of the edge, %d vectors left out", program, packets, len(all), skipped)
}

// translation is a vector of vectors/proxy/translate.yaml.
type translation struct {
	Name string `yaml:"name"`
	Flow struct {
		SeqDelta   uint32 `yaml:"seq_delta"`
		Timestamps bool   `yaml:"timestamps"`
		WindowUp   int8   `yaml:"window_up"`
		WindowDown int8   `yaml:"window_down"`
	} `yaml:"flow"`
	ToClient bool          `yaml:"to_client"`
	In       vectors.Bytes `yaml:"in"`
	Out      vectors.Bytes `yaml:"out"`
}

// notTranslated are the vectors that this plane does not pass, by the beginnings of
// their names. Connections of the layout smartcookie have neither timestamps nor SACK.
var notTranslated = map[string]string{
	"data-v": "timestamps", "ts-v": "timestamps", "ts-last-v": "timestamps", "ts-odd-v": "timestamps",
	"fin-v": "timestamps", "unknown-option-v": "timestamps", "rst-ts-v4-to-client": "timestamps",
	"rst-ts-v6-to-client": "timestamps",
	"sack-1-v":            "timestamps and SACK", "sack-2-v": "timestamps and SACK", "sack-3-v": "timestamps and SACK",
	"sack-4-v4-to-server": "SACK", "sack-4-v6-to-server": "SACK",
}

// TestCookieTranslates replays the golden vectors of translated segments.
func TestCookieTranslates(t *testing.T) {
	text, err := os.ReadFile(proxyVectors + "/translate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []translation `yaml:"vectors"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all, secret := loadSwitchVectors(t)
	b := newProxyBench(t, cookieProgram)
	passed := 0
	var left []string
	for i := range file.Vectors {
		v := &file.Vectors[i]
		if err := b.begin(p4.ProgramCookie, "table", secret, all.Epoch, []vectors.Service{all.Service}, "pass", false, 1); err != nil {
			t.Fatal(err)
		}
		for _, v6 := range []bool{false, true} {
			client, server := [16]byte{12: 192, 13: 0, 14: 2, 15: 1}, [16]byte{12: 198, 13: 51, 14: 100, 15: 7}
			if v6 {
				client = [16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, 15: 1}
				server = [16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 2, 15: 7}
			}
			if err := b.controller.PutFlow(v6, client, server, 40000, 80, v.Flow.SeqDelta, v.Flow.WindowDown, v.Flow.WindowUp, 500); err != nil {
				t.Fatal(err)
			}
		}
		from, to := b.outside, b.inside
		if v.ToClient {
			from, to = to, from
		}
		on, back, err := b.through(from, to, v.In)
		if err != nil {
			t.Fatal(err)
		}
		good := len(back) == 0 && len(on) == 1 && bytes.Equal(on[0], v.Out)
		excuse := ""
		for begin, why := range notTranslated {
			if strings.HasPrefix(v.Name, begin) {
				excuse = why
			}
		}
		switch {
		case excuse != "" && good:
			t.Errorf("%s is listed as unsupported (%s), but passes", v.Name, excuse)
		case excuse != "":
			left = append(left, v.Name)
		case !good:
			t.Errorf("%s:\n  in %x\n got %x\nwant %x", v.Name, []byte(v.In), on, []byte(v.Out))
		default:
			passed++
		}
	}
	t.Logf("%d vectors of %d; left out: %s", passed, len(file.Vectors), strings.Join(left, " "))
}
