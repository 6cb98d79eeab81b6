// SPDX-License-Identifier: Apache-2.0

// Package vectors reads the golden vectors (vectors/*.yaml, described in
// vectors/README.md) and compares a plane's behaviour with the expected
// one. It must not depend on any plane: a plane implements Gate.
package vectors

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Verdict is what happens to a packet.
type Verdict string

// The verdicts.
const (
	Pass  Verdict = "pass"
	Drop  Verdict = "drop"
	TX    Verdict = "tx"
	Adopt Verdict = "adopt"
)

// States of the socket filter, and results of a socket look-up.
const (
	FilterEmpty = "empty"
	FilterMaybe = "maybe"

	SocketListener    = "listener"
	SocketNone        = "none"
	SocketEstablished = "established"
	SocketTimeWait    = "time-wait"
)

// Layouts of cookies.
const (
	LayoutTidegate    = "tidegate"
	LayoutSmartcookie = "smartcookie"
)

// KeyRingSlots is the size of the ring of keys that vectors assume.
const KeyRingSlots = 16

// Service is one protected service.
type Service struct {
	ID         uint32         `yaml:"id"`
	Port       uint16         `yaml:"port"`
	Prefixes   []netip.Prefix `yaml:"prefixes"`
	Mode       string         `yaml:"mode"`
	Listener   string         `yaml:"listener"`
	MSSv4      uint16         `yaml:"mss_v4"`
	MSSv6      uint16         `yaml:"mss_v6"`
	Window     uint16         `yaml:"window"`
	WScale     uint8          `yaml:"wscale"`
	SACK       bool           `yaml:"sack"`
	Timestamps bool           `yaml:"timestamps"`
	ECN        bool           `yaml:"ecn"`
	Signed     string         `yaml:"signed"` // default: answer
}

// SignedCostUs makes as many signed SYNs of one vector pass as the service allows: one
// for pass, in a runner that takes less than ten seconds between two packets.
func (s *Service) SignedCostUs() uint32 {
	return map[string]uint32{"pass": 10_000_000, "drop": 0xffff_ffff}[s.Signed]
}

// Agreed is the kernel's input for an adopted connection.
type Agreed struct {
	MSS        uint16 `yaml:"mss"`
	WScale     uint8  `yaml:"wscale"`
	RcvWScale  uint8  `yaml:"rcv_wscale"`
	SACK       bool   `yaml:"sack"`
	Timestamps bool   `yaml:"timestamps"`
	ECN        bool   `yaml:"ecn"`
}

// Bytes is a frame; in YAML a list of hexadecimal pieces.
type Bytes []byte

// UnmarshalYAML joins the pieces.
func (b *Bytes) UnmarshalYAML(decode func(any) error) error {
	var pieces []string
	if err := decode(&pieces); err != nil {
		return err
	}
	data, err := hex.DecodeString(strings.ReplaceAll(strings.Join(pieces, ""), " ", ""))
	*b = data
	return err
}

// Packet is one frame of a vector, and its treatment.
type Packet struct {
	Verdict Verdict `yaml:"verdict"`
	In      Bytes   `yaml:"in"`
	Out     Bytes   `yaml:"out"`
	Agreed  *Agreed `yaml:"agreed"`
}

// Counters are counts by service number and counter name.
type Counters map[uint32]map[string]uint64

// Vector is one case. What a file leaves out is filled from its defaults.
type Vector struct {
	Name      string    `yaml:"name"`
	Why       string    `yaml:"why"`
	Epoch     *uint64   `yaml:"epoch"`
	Keys      []uint64  `yaml:"keys"`
	StaleKeys string    `yaml:"stale_keys"`
	Filter    string    `yaml:"filter"`
	Socket    string    `yaml:"socket"`
	Hops      uint8     `yaml:"hops"` // an edge's; 0: TTLs stay unchanged
	Services  []Service `yaml:"services"`
	Packets   []Packet  `yaml:"packets"`
	Counters  Counters  `yaml:"counters"`

	File   string   `yaml:"-"` // base name without .yaml
	Layout string   `yaml:"-"`
	Secret [32]byte `yaml:"-"`
}

type file struct {
	Format   int    `yaml:"format"`
	About    string `yaml:"about"`
	Layout   string `yaml:"layout"`
	Secret   string `yaml:"secret"`
	Defaults struct {
		Epoch    uint64    `yaml:"epoch"`
		Keys     []uint64  `yaml:"keys"`
		Services []Service `yaml:"services"`
	} `yaml:"defaults"`
	Vectors []Vector `yaml:"vectors"`
}

// LoadDir reads every *.yaml in a folder, in the order of their names.
func LoadDir(dir string) ([]Vector, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []Vector
	for _, name := range names {
		vs, err := Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, vs...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no vectors in %s", dir)
	}
	return all, nil
}

// Load reads one file.
func Load(path string) ([]Vector, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := yaml.NewDecoder(bytes.NewReader(raw), yaml.Strict()).Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Format != 1 {
		return nil, fmt.Errorf("%s: format %d, want 1", path, f.Format)
	}
	secret, err := hex.DecodeString(f.Secret)
	if err != nil || len(secret) != 32 {
		return nil, fmt.Errorf("%s: secret: want 64 hexadecimal digits", path)
	}
	for i := range f.Vectors {
		v := &f.Vectors[i]
		v.File = strings.TrimSuffix(filepath.Base(path), ".yaml")
		v.Layout = orElse(f.Layout, LayoutTidegate)
		copy(v.Secret[:], secret)
		if v.Epoch == nil {
			v.Epoch = &f.Defaults.Epoch
		}
		if v.Keys == nil {
			v.Keys = f.Defaults.Keys
		}
		if v.Services == nil {
			v.Services = f.Defaults.Services
		}
		v.StaleKeys = orElse(v.StaleKeys, "pass")
		v.Filter = orElse(v.Filter, FilterEmpty)
		v.Socket = orElse(v.Socket, SocketListener)
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, v.Name, err)
		}
	}
	return f.Vectors, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// check rejects vectors that would test nothing.
func (v *Vector) check() error {
	if v.Name == "" || v.Why == "" || len(v.Packets) == 0 {
		return fmt.Errorf("name, why and packets are needed")
	}
	if !slices.Contains([]string{"pass", "drop"}, v.StaleKeys) ||
		!slices.Contains([]string{FilterEmpty, FilterMaybe}, v.Filter) ||
		!slices.Contains([]string{SocketListener, SocketNone, SocketEstablished, SocketTimeWait}, v.Socket) {
		return fmt.Errorf("stale_keys, filter or socket: unknown word")
	}
	for _, s := range v.Services {
		if !slices.Contains([]string{"", "answer", "pass", "drop"}, s.Signed) {
			return fmt.Errorf("service %d: signed: unknown word %q", s.ID, s.Signed)
		}
	}
	for i, p := range v.Packets {
		switch {
		case len(p.In) == 0:
			return fmt.Errorf("packet %d: no bytes", i)
		case !slices.Contains([]Verdict{Pass, Drop, TX, Adopt}, p.Verdict):
			return fmt.Errorf("packet %d: unknown verdict %q", i, p.Verdict)
		case (p.Verdict == TX) != (len(p.Out) != 0) && (p.Verdict != Pass || v.Hops == 0):
			return fmt.Errorf("packet %d: out belongs to tx, and to what passes an edge with hops", i)
		case (p.Verdict == Adopt) != (p.Agreed != nil):
			return fmt.Errorf("packet %d: agreed belongs to adopt, and only to it", i)
		}
	}
	return nil
}

// Adopts reports whether some packet makes a connection.
func (v *Vector) Adopts() bool {
	return slices.ContainsFunc(v.Packets, func(p Packet) bool { return p.Verdict == Adopt })
}

// String returns the canonical name for messages and subtests.
func (v *Vector) String() string { return v.File + "/" + v.Name }
