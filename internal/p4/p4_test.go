// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"tidegate/internal/keys"
)

func value(key []byte) (v uint64) {
	for _, b := range key {
		v = v<<8 | uint64(b)
	}
	return v
}

// Every tick of an interval has exactly one prefix, and no other tick has one.
func TestPrefixesCoverExactly(t *testing.T) {
	for _, c := range [][2]uint64{{0, 1}, {0, 256}, {1, 2}, {7, 8}, {3, 1000}, {7811, 15624}, {1<<39 - 3, 1<<39 + 5}} {
		covered := map[uint64]int{}
		for _, p := range prefixes(c[0], c[1]) {
			for i := range uint64(1) << (tickBits - p.Len) {
				covered[value(p.Key)+i]++
			}
			if v := value(p.Key); v&(1<<(tickBits-p.Len)-1) != 0 {
				t.Errorf("%v: prefix %x/%d has bits behind it", c, p.Key, p.Len)
			}
		}
		for n := c[0]; n < c[1]; n++ {
			if covered[n] != 1 {
				t.Errorf("%v: tick %d is covered %d times", c, n, covered[n])
			}
		}
		if uint64(len(covered)) != c[1]-c[0] {
			t.Errorf("%v: %d ticks covered", c, len(covered))
		}
	}
	if n := len(prefixes(5, 5)); n != 0 {
		t.Errorf("an empty interval has %d prefixes", n)
	}
}

func TestTicks(t *testing.T) {
	for at, want := range map[time.Duration]uint64{0: 0, -time.Second: 0, time.Microsecond: 1,
		1024 * time.Microsecond: 1, 1025 * time.Microsecond: 2, 8 * time.Second: 7813} {
		if got := tickOf(at); got != want {
			t.Errorf("tickOf(%v) = %d, want %d", at, got, want)
		}
	}
}

// The first words of ChaCha20's key stream, from an implementation that shares no code
// with this one: vectors/reference.py, smart_key(bytes(range(32)), 218750000).
func TestSmartKey(t *testing.T) {
	var s keys.Secret
	for i := range s {
		s[i] = byte(i)
	}
	key := smartKey(&s, 218750000)
	raw := binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(key[0]))
	raw = binary.LittleEndian.AppendUint32(raw, binary.BigEndian.Uint32(key[1]))
	if want := []byte{0x3b, 0xd7, 0xb7, 0x65, 0x8e, 0x66, 0x5d, 0x7b}; !bytes.Equal(raw, want) {
		t.Errorf("key %x, want %x", raw, want)
	}
}

const goodConfig = `secret_file: s
inside: [sw2]
services:
  - {name: web, ports: [80]}
`

func TestFormerConfig(t *testing.T) {
	c, err := parseFormer([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Services[0]
	if s.ID != 1 || len(s.Prefixes) != 2 || s.MSSv4 != 1460 || *s.WScale != 7 || s.Mode != "always" ||
		*c.Learn != c.Window || *c.MACLimit != 0 || c.Instance != "default" || c.Program != ProgramEdge {
		t.Errorf("defaults: %+v", c)
	}
	if c, err := parseFormer([]byte("notifications: n\nmetrics: 127.0.0.1:9464\n" + goodConfig)); err != nil || *c.MACLimit != 1024 || c.Metrics.Port() != 9464 {
		t.Errorf("with notifications: %+v %v", c, err)
	}
	for name, change := range map[string][2]string{
		"unknown field":         {"secret_file", "secretfile"},
		"unknown program":       {"secret_file", "program: nat\nsecret_file"},
		"short epoch":           {"secret_file", "epoch: 10ms\nsecret_file"},
		"no inside":             {"inside: [sw2]\n", ""},
		"no services":           {"services:\n  - {name: web, ports: [80]}\n", ""},
		"no ports":              {"ports: [80]", "ports: []"},
		"bad mode":              {"ports: [80]", "ports: [80], mode: sometimes"},
		"bad wscale":            {"ports: [80]", "ports: [80], wscale: 16"},
		"no notifications":      {"secret_file", "program: auth-full\nsecret_file"},
		"no room for addresses": {"secret_file", "notifications: n\nmac_limit: 5000\nsecret_file"},
		"addresses unheard":     {"secret_file", "mac_limit: 10\nsecret_file"},
		"bad instance":          {"secret_file", "instance: a/b\nsecret_file"},
		"half a roll":           {"secret_file", "next_secret_file: n\nsecret_file"},
		"bad metrics":           {"secret_file", "metrics: here\nsecret_file"},
		"bad MAC":               {"secret_file", "macs: {\"02\": sw1}\nsecret_file"},
	} {
		text := strings.Replace(goodConfig, change[0], change[1], 1)
		if text == goodConfig {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := parseFormer([]byte(text)); err == nil || strings.Contains(err.Error(), "\n") && name != "unknown field" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A service keeps its number while others come and go; a newcomer gets an unused one.
func TestNumbersStay(t *testing.T) {
	configOf := func(names ...string) *Config {
		c := &Config{}
		for _, name := range names {
			c.Services = append(c.Services, Service{Name: name, Ports: []uint16{80}})
		}
		c.Complete()
		return c
	}
	old := configOf("a", "b", "c")
	next := configOf("d", "c", "a", "e")
	fresh := next.keepNumbers(old)
	if got := numbersOf(next); !bytes.Equal(got, []byte{4, 3, 1, 5}) || !bytes.Equal(fresh, []byte{4, 5}) {
		t.Errorf("numbers %v, new %v", got, fresh)
	}
	var many []string
	for i := range maxServices {
		many = append(many, string(rune('A'+i)))
	}
	full := configOf(many...)
	changed := configOf(append(many[1:], "new")...)
	if fresh := changed.keepNumbers(full); !bytes.Equal(fresh, []byte{1}) {
		t.Errorf("of a full list the newcomer takes %v, want the number that became free", fresh)
	}
}
