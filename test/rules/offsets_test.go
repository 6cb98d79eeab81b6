// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Fields of headers have names (core/headers.h). A number after one of these pointers, which lead to a header's first
// byte, is an offset without one. The copy of an answer in words of eight bytes is exempt: a word is no field.
var (
	bareOffset = regexp.MustCompile(`\b(data|ip|tcp|eth|udp|icmp|frame|mac)( \+ [1-9][0-9]*\b|\[[1-9][0-9]*\])`)
	declaredAt = regexp.MustCompile(`\b(uint8_t|__u8|__u32|char)\b[^;=(]*\[[0-9]+\]`)
	wordCopied = regexp.MustCompile(`tg_store64\(ip \+ [0-9]+,|__builtin_prefetch\(`)
)

// bareOffsets returns the lines of C with such a number.
func bareOffsets(text string) (found []string) {
	for _, line := range strings.Split(text, "\n") {
		code, _, _ := strings.Cut(line, "/*")
		if strings.HasPrefix(strings.TrimSpace(code), "*") || declaredAt.MatchString(code) || wordCopied.MatchString(code) {
			continue
		}
		if bareOffset.MatchString(code) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// comparesWords has arrays of words named like headers.
const comparesWords = "bpf/lib/skb_bare.h"

func TestHeaderOffsetsHaveNames(t *testing.T) {
	files := 0
	for _, pattern := range []string{"core/*.h", "bpf/*.c", "bpf/lib/*.h", "dpdk/pipeline/*.[ch]", "dpdk/daemon/*.[ch]", "dpdk/tables/*.[ch]"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, path := range paths {
			name, _ := filepath.Rel(root, path)
			if strings.Contains(name, "lab_") || strings.Contains(name, "bench") || name == comparesWords { // the lab and the benchmarks imitate wires
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range bareOffsets(string(text)) {
				t.Errorf("%s: `%s`: name the offset, in core/headers.h", name, line)
			}
			files++
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

func TestHeaderOffsetRuleBites(t *testing.T) {
	for _, text := range []string{"x = tg_load32(ip + 12);", "\tif (data[6] & 1)", "type = tg_load16(data + 12); /* type */"} {
		if len(bareOffsets(text)) != 1 {
			t.Errorf("%s was not found", text)
		}
	}
	for _, text := range []string{"x = tg_load32(ip + TG_IPV4_SRC);", " * ip + 12 in a comment", "uint8_t mac[6];", "ip[0] >> 4"} {
		if len(bareOffsets(text)) != 0 {
			t.Errorf("%s was found", text)
		}
	}
}
