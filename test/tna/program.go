// SPDX-License-Identifier: Apache-2.0

// Package tna executes the edge of p4/tna: p4testgen (of p4lang/p4c), a symbolic executor with
// a model of Tofino's two pipelines, is given frames and tables that leave one path each, so that it says
// what the program makes of each frame. A recirculated frame is its next input.
//
// The model lacks some of a switch; program.go replaces that in a copy of the program, and
// the list of its replacements is the list of what is not executed.
package tna

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Service is an entry of the table of services.
type Service struct {
	Prefix      netip.Prefix
	Port        uint16
	MSS, Window uint16
	WScale      uint8
}

// Key is an epoch's key, as internal/keys.SmartKey returns it.
type Key struct {
	Epoch uint64
	Bytes []byte
}

// Settings are what the controller would load, at one moment.
type Settings struct {
	Epoch     uint64 // now
	Keys      []Key  // of this epoch and the previous one; others are not used
	Services  []Service
	Hops      uint8
	StaleDrop bool
}

// The ports of the executed switch.
const (
	outside       = 1
	inside        = 2
	recirculation = 68
)

// change is one replacement: `times` occurrences of `what`.
type change struct {
	file, what, by string
	times          int
}

// lacking are what p4testgen does not model, and what replaces it.
func lacking() []change {
	const valid = "hdr.tcp.isValid()"
	return []change{
		// It takes every field of an invalid header for unknown; the program computes the hash in such
		// headers, and leaves them invalid when they must not be sent.
		{"parser.p4", "        hdr.note.setValid();\n", "        hdr.note.setValid();\n        hdr.s.setValid();\n        hdr.words.setValid();\n", 1},
		{"parser.p4", "        pkt.extract(hdr.note);\n        pkt.extract(hdr.s);\n        pkt.extract(hdr.ethernet);\n",
			"        pkt.extract(hdr.note);\n        pkt.extract(hdr.s);\n        hdr.words.setValid();\n        pkt.extract(hdr.ethernet);\n", 1},
		{"judge.p4", "        hdr.s.setInvalid();\n", "        hdr.s.setInvalid();\n        hdr.words.setInvalid();\n", 2},
		{"judge.p4", "    action leave() {\n        counts.count();\n", "    action leave() {\n        counts.count();\n        hdr.s.setInvalid();\n        hdr.words.setInvalid();\n", 1},
		{"judge.p4", "hdr.tcp.flags: ternary;", "(" + valid + " ? hdr.tcp.flags : 8w0): ternary @name(\"flags\");", 2},
		{"judge.p4", "hdr.ipv4.mf: ternary;", "(hdr.ipv4.isValid() ? hdr.ipv4.mf : 1w0): ternary @name(\"mf\");", 1},
		{"settings.p4", "hdr.tcp.flags[4:4]: ternary", "(" + valid + " ? hdr.tcp.flags[4:4] : 1w0): ternary", 1},
		{"settings.p4", "hdr.tcp.ack: ternary;", "(" + valid + " ? hdr.tcp.ack : 32w0): ternary @name(\"number\");", 1},
		{"answer.p4", "hdr.offered_wscale.shift: ternary;", "(hdr.offered_wscale.isValid() ? hdr.offered_wscale.shift : 8w0): ternary @name(\"shift\");", 1},
		// It does not know a parser's counter.
		{"parser.p4", "    ParserCounter() left;\n", "    bit<8> left;\n", 1},
		{"parser.p4", "left.decrement(4);", "left = left - 4;", 1},
		{"parser.p4", "left.decrement(3);", "left = left - 3;", 1},
		{"options.p4", "left.set(8w4 * words);", "left = 8w4 * words;", 1},
		{"options.p4", "left.decrement(n);", "left = left - n;", 1},
		{"options.p4", "left.is_zero()", "left == 0", 1},
		// It has no clock.
		{"edge.p4", "prsr.global_tstamp[47:20]", "28w0", 1},
		// It knows no frame that leaves by several ports.
		{"forward.p4", "const default_action = to_all();", fmt.Sprintf("const default_action = to_port(%d);", inside), 1},
		// Its registers are of one packet, and their first values unknown.
		{"filter.p4", "known = read.execute(POSITION);", "known = KNOWN;", 1},
		{"filter.p4", "write.execute(POSITION);", "", 1},
	}
}

// sums are the checksums, which the model takes for unknown: the same fields, added by the program.
var sums = []struct {
	file     string
	at       *regexp.Regexp
	function string
}{
	{"deparser.p4", regexp.MustCompile(`ipv4_sum\.update\(\{([^}]*)\}\)`), "sum_of_144"},
	{"deparser.p4", regexp.MustCompile(`tcp_sum\.update\(\{([^}]*)\}\)`), "sum_of_304"},
}

const ipv4Verified = `        ipv4_sum.add(hdr.ipv4);
        m.bad_sum = (bit<1>)ipv4_sum.verify();
`

const ipv4Computed = `        m.bad_sum = sum_of_160(hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn ++ hdr.ipv4.total_len ++
            hdr.ipv4.ident ++ hdr.ipv4.reserved ++ hdr.ipv4.df ++ hdr.ipv4.mf ++ hdr.ipv4.frag_off ++ hdr.ipv4.ttl ++
            hdr.ipv4.proto ++ hdr.ipv4.checksum ++ hdr.ipv4.src ++ hdr.ipv4.dst) == 0 ? 1w0 : 1w1;
`

// sumFunction is RFC 1071 over a number of some width.
func sumFunction(bits int) string {
	var words []string
	for low := 0; low < bits; low += 16 {
		words = append(words, fmt.Sprintf("(bit<32>)x[%d:%d]", low+15, low))
	}
	return fmt.Sprintf(`
bit<16> sum_of_%d(in bit<%d> x) {
    bit<32> sum = %s;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return ~sum[15:0];
}
`, bits, bits, strings.Join(words, " + "))
}

// source is a copy of p4/ in which everything that would be loaded is a constant.
type source struct {
	dir string
	err error
}

// variant is what differs from pass to pass.
type variant struct {
	recirculated bool
	last         bool // the pass that reads a SYN's options
	fromServer   bool
	known        bool // the filter knows all flows, otherwise none
}

// writeProgram copies p4/ to dir and replaces what the model lacks. The frames, all of one
// length, are the only ones that the parser lets in.
func writeProgram(p4, dir string, s *Settings, pass variant, frames [][]byte) (edge string, err error) {
	for _, sub := range []string{"shared", "tna"} {
		if err := copyTree(filepath.Join(p4, sub), filepath.Join(dir, sub)); err != nil {
			return "", err
		}
	}
	c := &source{dir: filepath.Join(dir, "tna")}
	for _, l := range lacking() {
		c.replace(l)
	}
	if !pass.last { // p4testgen unrolls these loops, which takes it most of its time
		c.replace(change{"parser.p4", "            (TG_LAP_LAST, KIND_SYN): options;\n", "", 1})
	}
	c.replace(change{"parser.p4", ipv4Verified, ipv4Computed, 1})
	for _, sum := range sums {
		c.rewrite(sum.file, func(text string) string {
			return sum.at.ReplaceAllStringFunc(text, func(call string) string {
				fields := sum.at.FindStringSubmatch(call)[1]
				return sum.function + "(" + strings.ReplaceAll(fields, ",", " ++") + ")"
			})
		})
	}
	c.replace(change{"types.p4", "struct egress_metadata_t { }\n", "struct egress_metadata_t { }\n#define KNOWN " + bit(pass.known) +
		"\n" + sumFunction(144) + sumFunction(160) + sumFunction(304), 1})
	c.ports(pass, frames)
	c.tables(s)
	return filepath.Join(c.dir, "edge.p4"), c.err
}

// ports gives the port its metadata, and selects the frames.
func (c *source) ports(pass variant, frames [][]byte) {
	port := outside
	switch {
	case pass.recirculated:
		port = recirculation
	case pass.fromServer:
		port = inside
	}
	var b strings.Builder
	fmt.Fprintf(&b, `        pkt.advance(PORT_METADATA_SIZE);
        testgen_assume(ig.ingress_port == %d);
        m.port.inside = %s;
        m.port.recirculates = %s;
        transition select(pkt.lookahead<bit<%d>>()) {
`, port, bit(pass.fromServer), bit(pass.recirculated), 8*len(frames[0]))
	for _, f := range frames {
		fmt.Fprintf(&b, "            0x%s: chosen;\n", hex.EncodeToString(f))
	}
	b.WriteString("        }\n    }\n\n    state chosen {\n")
	c.replace(change{"parser.p4", "        m.port = port_metadata_unpack<port_t>(pkt);\n", b.String(), 1})
	c.replace(change{"edge.p4", "#include \"parser.p4\"\n", "#include <testgen.p4>\n#include \"parser.p4\"\n", 1})
}

// tables makes constants of what the controller loads.
func (c *source) tables(s *Settings) {
	gate := fmt.Sprintf("const default_action = set_gate(1, %s, 0, 0, 0, %d, %d);", bit(s.StaleDrop), s.Hops, recirculation)
	c.replace(change{"settings.p4", "        actions = { set_gate; NoAction; }\n        default_action = NoAction();\n",
		"        actions = { set_gate; NoAction; }\n        " + gate + "\n", 1})
	c.replace(entries("settings.p4", "        actions = { set_key; NoAction; }\n", s.keyEntries()))
	c.replace(entries("settings.p4", "        actions = { set_service; NoAction; }\n", s.serviceEntries()))
	if s.Hops > 0 {
		c.replace(entries("judge.p4", "        actions = { too_few; NoAction; }\n", []string{fmt.Sprintf("0..%d: too_few();", s.Hops-1)}))
	}
}

func entries(file, after string, list []string) change {
	by := after
	if len(list) > 0 {
		by += "        const entries = {\n            " + strings.Join(list, "\n            ") + "\n        }\n"
	}
	return change{file, after, by, 1}
}

// keyEntries are the entries of one prefix of ticks, as docs/p4.md has them.
func (s *Settings) keyEntries() (list []string) {
	var current string
	for _, k := range s.Keys {
		if k.Epoch != s.Epoch && k.Epoch+1 != s.Epoch {
			continue
		}
		k0, k1 := binary.LittleEndian.Uint32(k.Bytes), binary.LittleEndian.Uint32(k.Bytes[4:])
		p := uint32(k.Epoch & 1)
		action := fmt.Sprintf("set_key(0x%08x, 0x%08x, 0x%08x, 0x%08x, %d);", k0, k1, k0^0x6c796765, k1^0x74656462, p)
		list = slices.Insert(list, 0, fmt.Sprintf("(_, 1, 0x%08x): %s", (1-p)<<31, action))
		list = append(list, fmt.Sprintf("(_, 1, 0x%08x &&& 0x80000000): %s", p<<31, action))
		if k.Epoch == s.Epoch {
			current = fmt.Sprintf("(_, 0, _): %s", action)
		}
	}
	if current != "" {
		list = append(list, current)
	}
	return list
}

// serviceEntries begin with the longest prefixes.
func (s *Settings) serviceEntries() (list []string) {
	services := slices.Clone(s.Services)
	slices.SortStableFunc(services, func(a, b Service) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	for _, v := range services {
		address := v.Prefix.Masked().Addr().As4()
		mask := ^uint32(0) << (32 - v.Prefix.Bits())
		list = append(list, fmt.Sprintf("(%d, 0x%08x &&& 0x%08x): set_service(%d, %d, %d, 1);",
			v.Port, binary.BigEndian.Uint32(address[:]), mask, v.MSS, v.Window, v.WScale))
	}
	return list
}

// empty are the tables without entries, which p4testgen would otherwise invent.
func (s *Settings) empty() []string {
	list := []string{"EdgeIngress.forward.macs", "EdgeEgress.addresses.port_macs"}
	for name, none := range map[string]bool{"EdgeIngress.keys.epochs": len(s.keyEntries()) == 0,
		"EdgeIngress.services.services": len(s.Services) == 0, "EdgeIngress.hops.hops": s.Hops == 0} {
		if none {
			list = append(list, name)
		}
	}
	return list
}

func bit(set bool) string {
	if set {
		return "1w1"
	}
	return "1w0"
}

func (c *source) replace(r change) {
	c.rewrite(r.file, func(text string) string {
		if n := strings.Count(text, r.what); n != r.times && c.err == nil {
			c.err = fmt.Errorf("p4/tna/%s has %d times what test/tna replaces, expected %d: %q", r.file, n, r.times, r.what)
		}
		return strings.ReplaceAll(text, r.what, r.by)
	})
}

func (c *source) rewrite(file string, by func(string) string) {
	if c.err != nil {
		return
	}
	path := filepath.Join(c.dir, file)
	text, err := os.ReadFile(path)
	if err == nil {
		if changed := by(string(text)); changed != string(text) || c.err != nil {
			err = os.WriteFile(path, []byte(changed), 0o644)
		} else {
			err = fmt.Errorf("p4/tna/%s has nothing of what test/tna replaces there", file)
		}
	}
	if c.err == nil {
		c.err = err
	}
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
}
