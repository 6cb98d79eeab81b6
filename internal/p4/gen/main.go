// SPDX-License-Identifier: Apache-2.0

// Command gen writes p4/shared/generated.p4: P4 cannot include C, so the numbers that
// it shares with the other planes are extracted from the headers of core/. It must
// never hold such a number itself.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// wanted are the macros and enumerators that P4 uses, by header.
var wanted = []struct {
	header string
	names  []string
}{
	{"packet.h", []string{"TG_VLAN_TAGS_MAX", "TG_VLAN_TAGS_WALKED", "TG_IPV4_HDR_LEN", "TG_IPV6_HDR_LEN", "TG_TCP_HDR_LEN", "TG_ETH_HDR_LEN",
		"TG_VLAN_TAG_LEN", "TG_IPV6_EXT_MAX", "TG_IPV6_EXT_BYTES_MAX", "TG_IPPROTO_HOPOPTS", "TG_IPPROTO_TCP", "TG_IPPROTO_ROUTING",
		"TG_IPPROTO_FRAGMENT", "TG_IPPROTO_DSTOPTS", "TG_TCP_FIN", "TG_TCP_SYN", "TG_TCP_RST", "TG_TCP_ACK"}},
	{"tcp_options.h", []string{"TG_TCPOPT_EOL", "TG_TCPOPT_NOP", "TG_TCPOPT_MSS", "TG_TCPOPT_WSCALE",
		"TG_WSCALE_MAX", "TG_WSCALE_NONE"}},
	{"synack.h", []string{"TG_SYNACK_TTL"}},
	{"service.h", []string{"TG_SERVICES_MAX"}},
	{"bloom.h", []string{"TG_BLOOM_PARTITIONS", "TG_BLOOM_GENERATIONS", "TG_BLOOM_BITS"}},
	{"cookie_smartcookie.h", []string{"TG_SMART_HASH_BITS", "TG_SMART_WSCALE_SHIFT", "TG_SMART_MSS_SHIFT",
		"TG_SMART_PARITY_SHIFT", "TG_SMART_V4_LEN", "TG_SMART_V6_LEN"}},
	{"tag.h", []string{"TG_TAG_LEN", "TG_TAG_OPTION", "TG_TAG_VERSION", "TG_TAG_SETUP", "TG_TAG_PROBE", "TG_CONFIRM_LEN",
		"TG_CONFIRM_PORT"}},
}

// ethertypes are in wire order in packet.h; P4 needs numbers.
var ethertypes = []string{"TG_ETHERTYPE_IPV4", "TG_ETHERTYPE_IPV6", "TG_ETHERTYPE_VLAN", "TG_ETHERTYPE_QINQ", "TG_ETHERTYPE_QINQ1"}

func main() {
	core := flag.String("core", "", "folder of the core's headers")
	out := flag.String("out", "", "P4 file to write")
	flag.Parse()
	text, err := generate(*core)
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(core string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("/* Code generated from the headers of core/ by internal/p4/gen; DO NOT EDIT. */\n" +
		"#ifndef TG_P4_GENERATED\n#define TG_P4_GENERATED\n")
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(core, name))
		return string(text), err
	}
	for _, w := range wanted {
		text, err := read(w.header)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n/* %s */\n", w.header)
		for _, name := range w.names {
			n, err := number(text, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.header, err)
			}
			fmt.Fprintf(&b, "#define %s %d\n", name, n)
		}
	}
	text, err := read("packet.h")
	if err != nil {
		return nil, err
	}
	for _, name := range ethertypes {
		m := regexp.MustCompile(`#define ` + name + ` \(\(tg_ethertype\)0x([0-9a-f]{4})\)`).FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("packet.h: no %s", name)
		}
		fmt.Fprintf(&b, "#define %s 0x%s%s\n", name, m[1][2:], m[1][:2])
	}
	if text, err = read("abi.def"); err == nil {
		err = abi(&b, text)
	}
	if err != nil {
		return nil, err
	}
	if text, err = read("mss.def"); err == nil {
		err = mssTable(&b, text)
	}
	if err != nil {
		return nil, err
	}
	if text, err = read("counters.def"); err == nil {
		err = counters(&b, text)
	}
	if err != nil {
		return nil, err
	}
	b.WriteString("\n#endif\n")
	return b.Bytes(), nil
}

// number finds `#define NAME 12`, or `NAME = 0x0c` in an enum.
func number(text, name string) (uint64, error) {
	m := regexp.MustCompile(`(?m)(?:^#define ` + name + `\s+|\b` + name + ` = )(0x[0-9a-f]+|[0-9]+)\b`).FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no number %s", name)
	}
	return strconv.ParseUint(m[1], 0, 32)
}

// mssTable takes the lines of mss.def, of which there are eight.
func mssTable(b *bytes.Buffer, text string) error {
	all := regexp.MustCompile(`(?m)^TG_MSS\((\d), (\d+), (\d+)\)$`).FindAllStringSubmatch(text, -1)
	if len(all) != 8 {
		return fmt.Errorf("mss.def: %d entries, want 8", len(all))
	}
	b.WriteString("\n/* mss.def: the smallest MSS of each index */\n")
	for i, m := range all {
		if m[1] != strconv.Itoa(i) {
			return errors.New("mss.def: out of order")
		}
		fmt.Fprintf(b, "#define TG_MSS_V4_%d %s\n#define TG_MSS_V6_%d %s\n", i, m[2], i, m[3])
	}
	return nil
}

// abiWanted are the groups of abi.def that P4 uses.
var abiWanted = regexp.MustCompile(`(?m)^TG_ABI_(MODE|STALE)\(([A-Z_]+), ([0-9]+),`)

func abi(b *bytes.Buffer, text string) error {
	all := abiWanted.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return errors.New("abi.def: no modes")
	}
	b.WriteString("\n/* abi.def */\n")
	for _, m := range all {
		fmt.Fprintf(b, "#define TG_%s_%s %s\n", m[1], m[2], m[3])
	}
	return nil
}

func counters(b *bytes.Buffer, text string) error {
	all := regexp.MustCompile(`(?m)^X\(\s*([a-z0-9_]+)\s*,`).FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return errors.New("counters.def: no counters")
	}
	b.WriteString("\n/* counters.def */\n")
	for i, m := range all {
		fmt.Fprintf(b, "#define COUNT_%s %d\n", strings.ToUpper(m[1]), i)
	}
	fmt.Fprintf(b, "#define COUNTERS %d\n", len(all))
	return nil
}
