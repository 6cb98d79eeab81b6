// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	p4src "tidegate/p4"
)

// P4 sources as one text.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(p4src.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(path, "v1model/") && !strings.HasPrefix(path, "shared/") {
			return err
		}
		text, err := fs.ReadFile(p4src.Files, path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The controller's constants match the programs.
func TestSizesAreThePrograms(t *testing.T) {
	text := sources(t)
	for name, want := range map[string]int{
		"P4_SERVICES": maxServices + 1, "P4_TABLE_SOURCES": maxTableRows, "P4_TABLE_FLOWS": maxTableRows,
		"P4_TABLE_MACS": 2*macLimitMost + maxMACs, "SETUP_PLACES": setupPlaces, "FLOOD_GROUP": floodGroup,
		"TG_BLOOM_GENERATIONS": bloomGenerations, "TG_BLOOM_BITS": bloomBits, "TG_TAG_LEN": tagLen,
		"UNKNOWN_NONE": unknownNone, "UNKNOWN_METER": unknownMeter, "UNKNOWN_ALL": unknownAll,
	} {
		m := regexp.MustCompile(`(?m)^#define ` + name + ` +([0-9]+)\b`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("no %s in p4/", name)
		} else if got, _ := strconv.Atoi(m[1]); got != want {
			t.Errorf("%s is %d in p4/, and %d here", name, got, want)
		}
	}
	if n := strings.Count(text, "size = "+strconv.Itoa(maxPrefixes)+";"); n != 2 {
		t.Errorf("%d tables have room for %d, want both of services", n, maxPrefixes)
	}
	gate := regexp.MustCompile(`(?s)action set_gate\((.*?)\)`).FindStringSubmatch(text)
	if gate == nil || strings.Count(gate[1], "bit<") != gateParams {
		t.Errorf("set_gate has other parameters than %d: %v", gateParams, gate)
	}
	for name, want := range map[string]int{"white_digest_t": whiteSampleLen, "flow_digest_t": flowSampleLen, "mac_digest_t": macSampleLen} {
		m := regexp.MustCompile(`(?s)struct ` + name + ` \{(.*?)\n\}`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("no %s in p4/", name)
			continue
		}
		n := 0
		for _, field := range regexp.MustCompile(`bit<(\d+)>`).FindAllStringSubmatch(m[1], -1) {
			bits, _ := strconv.Atoi(field[1])
			n += (bits + 7) / 8
		}
		if n != want {
			t.Errorf("%s has %d bytes, %d here", name, n, want)
		}
	}
}
