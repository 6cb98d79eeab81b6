// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `format: 1
about: "a"
secret: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
defaults:
  epoch: 7
  keys: [6, 7]
  services:
    - {id: 1, port: 80, prefixes: ["10.0.0.0/8"], mode: "always", listener: "ok", mss_v4: 1460, mss_v6: 1440, window: 65535, wscale: 7, sack: true, timestamps: true, ecn: true}
vectors:
  - name: one
    why: "w"
    packets:
      - verdict: tx
        in: ["02", "00ff"]
        out: ["aa bb"]
    counters: {1: {syn: 1}}
  - name: two
    why: "w"
    epoch: 0
    keys: []
    services: []
    packets:
      - verdict: pass
        in: ["02"]
    counters: {}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	vs, err := Load(write(t, good))
	if err != nil {
		t.Fatal(err)
	}
	one, two := vs[0], vs[1]
	if *one.Epoch != 7 || len(one.Keys) != 2 || len(one.Services) != 1 || one.Filter != FilterEmpty ||
		one.Socket != SocketListener || one.StaleKeys != "pass" || one.Secret[31] != 0x1f || one.String() != "x/one" {
		t.Errorf("defaults: %+v", one)
	}
	if string(one.Packets[0].In) != "\x02\x00\xff" || string(one.Packets[0].Out) != "\xaa\xbb" {
		t.Errorf("bytes: %x %x", one.Packets[0].In, one.Packets[0].Out)
	}
	if *two.Epoch != 0 || len(two.Keys) != 0 || len(two.Services) != 0 {
		t.Errorf("zero and empty are not absent: %+v", two)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"unknown field":   {"why: \"w\"", "why: \"w\"\n    wy: 1"},
		"unknown verdict": {"verdict: tx", "verdict: reply"},
		"tx without out":  {"        out: [\"aa bb\"]\n", ""},
		"pass with out":   {"verdict: tx", "verdict: pass"},
		"odd hex":         {"\"02\", \"00ff\"", "\"020\""},
		"not hex":         {"00ff", "00fg"},
		"no packet bytes": {"in: [\"02\", \"00ff\"]", "in: []"},
		"format":          {"format: 1", "format: 2"},
		"short secret":    {"1e1f", "1e"},
		"unknown filter":  {"epoch: 0", "epoch: 0\n    filter: full"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := Load(write(t, text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := LoadDir(t.TempDir()); err == nil {
		t.Error("an empty folder is no success")
	}
}

// fixed is a gate that always gives the same result.
type fixed struct {
	r Result
	c Counters
}

func (f fixed) Prepare(*Vector) error         { return nil }
func (f fixed) Packet([]byte) (Result, error) { return f.r, nil }
func (f fixed) Counters() (Counters, error)   { return f.c, nil }

func TestReplayFindsEveryDifference(t *testing.T) {
	agreed := Agreed{MSS: 1460}
	v := &Vector{Packets: []Packet{{Verdict: Adopt, In: Bytes{1, 2}, Agreed: &agreed}},
		Counters: Counters{1: {"syn": 1}}}
	right := fixed{Result{Adopt, []byte{1, 2}, &Agreed{MSS: 1460}}, Counters{1: {"syn": 1, "adopted": 0}, 2: {}}}
	if d, err := Replay(right, v); err != nil || len(d) != 0 {
		t.Fatalf("%v %v", d, err)
	}
	for name, g := range map[string]fixed{
		"verdict":         {Result{Pass, []byte{1, 2}, nil}, right.c},
		"bytes":           {Result{Adopt, []byte{1, 3}, &agreed}, right.c},
		"length":          {Result{Adopt, []byte{1, 2, 0}, &agreed}, right.c},
		"no agreement":    {Result{Adopt, []byte{1, 2}, nil}, right.c},
		"other agreement": {Result{Adopt, []byte{1, 2}, &Agreed{MSS: 1459}}, right.c},
		"count":           {right.r, Counters{1: {"syn": 2}}},
		"no count":        {right.r, Counters{}},
		"extra count":     {right.r, Counters{1: {"syn": 1, "adopted": 1}}},
		"other service":   {right.r, Counters{1: {"syn": 1}, 2: {"syn": 1}}},
	} {
		if d, err := Replay(g, v); err != nil || len(d) != 1 {
			t.Errorf("%s: %q %v, want one difference", name, d, err)
		}
	}
}
