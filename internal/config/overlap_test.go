// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// file builds a configuration from "prefixes | ports" per service.
func file(services ...string) string {
	var b strings.Builder
	b.WriteString("interfaces: [e]\nsecret_file: s\nservices:\n")
	for i, s := range services {
		prefixes, ports, _ := strings.Cut(s, "|")
		fmt.Fprintf(&b, "  - {name: s%d, ports: [%s]", i, ports)
		if prefixes != "" {
			fmt.Fprintf(&b, ", prefixes: [%s]", prefixes)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		name     string
		services []string
		want     string // "" when allowed
	}{
		{"same prefix, same port", []string{"192.0.2.0/24|80", "192.0.2.0/24|80"},
			"f.yaml:5: services[1].ports: 192.0.2.0/24 port 80 is claimed by s0 of line 4 too"},
		{"both everywhere", []string{"|80", "|80"}, "0.0.0.0/0 port 80 is claimed by s0"},
		{"ranges that meet", []string{"192.0.2.0/24|80-90", "192.0.2.0/24|90-99"}, "port 90 is claimed"},
		{"a range around another", []string{"|1-65535", "|443"}, "port 443 is claimed"},
		{"hidden behind a narrow range", []string{"|1-1000", "|2000", "|500"}, "f.yaml:6: services[2].ports: 0.0.0.0/0 port 500 is claimed by s0 of line 4"},
		{"one of several prefixes", []string{`192.0.2.0/24, "2001:db8::/32"|80`, `"2001:db8::/32"|80`}, "2001:db8::/32 port 80"},
		{"nested prefixes", []string{"192.0.2.0/24|80", "192.0.2.7/32|80", "|80"}, ""},
		{"other port", []string{"192.0.2.0/24|80", "192.0.2.0/24|81"}, ""},
		{"neighbour ranges", []string{"|80-89", "|90-99"}, ""},
		{"other prefix", []string{"192.0.2.0/24|80", "198.51.100.0/24|80"}, ""},
		{"other family", []string{"0.0.0.0/0|80", `"::/0"|80`}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.want != "" {
				wantOneMistake(t, file(tc.services...), tc.want)
			} else if _, err := Parse("f.yaml", []byte(file(tc.services...))); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every port of every prefix has an entry in a table of the packet path.
func TestPrefixEntries(t *testing.T) {
	half := "192.0.2.0/28, 192.0.2.16/28, 192.0.2.32/28, 192.0.2.48/28, 192.0.2.64/28, 192.0.2.80/28, 192.0.2.96/28, 192.0.2.112/28|1-65535"
	other := strings.ReplaceAll(half, "192.0.2.", "198.51.100.")
	for _, good := range [][]string{{half, other}, {"|1-65535", half}} {
		if _, err := Parse("f.yaml", []byte(file(good...))); err != nil {
			t.Error(err)
		}
	}
	wantOneMistake(t, file(half, other, "203.0.113.0/24|1-65535"),
		"f.yaml:6: services[2].ports: prefixes times ports of all services up to here are 1114095 and may be 1048576")
}

func TestDuplicateNames(t *testing.T) {
	y := strings.ReplaceAll(file("|1", "|2"), "s1", "s0")
	wantOneMistake(t, y, "f.yaml:5: services[1].name: s0 is the name of the service of line 4 too; choose another")
}

func TestPrefixLengths(t *testing.T) {
	var v4, v6 []string
	for i := range MaxPrefixLengths {
		v4 = append(v4, fmt.Sprintf("10.0.0.0/%d", 8+i))
		v6 = append(v6, fmt.Sprintf(`"fd00::/%d"`, 8+i))
	}
	ok := file(strings.Join(append(v4, v6...), ", ") + "|80")
	if _, err := Parse("f.yaml", []byte(ok)); err != nil {
		t.Errorf("%d lengths per family: %v", MaxPrefixLengths, err)
	}
	wantOneMistake(t, file(strings.Join(v4, ", ")+"|80", "10.0.0.0/24|80"),
		"f.yaml:5: services[1].prefixes: 10.0.0.0/24 would be the 9th prefix length of IPv4; use one of /8 /9")
	wantOneMistake(t, file(strings.Join(v6, ", ")+"|80", `"fd00::/64"|80`), "9th prefix length of IPv6")
}

func TestManyServices(t *testing.T) {
	build := func(n int) []byte {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("10.%d.%d.%d/32|80", i>>16, i>>8&255, i&255)
		}
		return []byte(file(list...))
	}
	begin := time.Now()
	c, err := Parse("f.yaml", build(MaxServices))
	if err != nil || len(c.Services) != MaxServices {
		t.Fatalf("%d services: %v", MaxServices, err)
	}
	t.Logf("%d services in %v", MaxServices, time.Since(begin).Round(time.Millisecond))
	wantOneMistake(t, string(build(MaxServices+1)), "10001 services are too many; use at most 10000")
}
