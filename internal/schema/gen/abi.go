// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"strings"
)

// number is one line of core/abi.def.
type number struct{ group, name, value, word, help string }

var abiLine = regexp.MustCompile(`^TG_ABI_([A-Z_]+)\(([A-Z_]+), ([0-9]+), "([^"\\]*)", "([^"\\]+)"\)$`)

// parseABI parses the list's lines. Anything else, except for preprocessor lines, is an error.
func parseABI(text string) ([]number, error) {
	text = comment.ReplaceAllStringFunc(text, func(c string) string {
		return strings.Repeat("\n", strings.Count(c, "\n")) // keep line numbers
	})
	var list []number
	seen := map[string]bool{}
	for i, raw := range strings.Split(text, "\n") {
		raw = strings.TrimSpace(raw)
		if raw == "" || raw[0] == '#' {
			continue
		}
		m := abiLine.FindStringSubmatch(raw)
		if m == nil {
			return nil, fmt.Errorf("line %d: want TG_ABI_GROUP(NAME, number, \"word\", \"help\"), have %q", i+1, raw)
		}
		n := number{m[1], m[2], m[3], m[4], m[5]}
		for _, key := range []string{n.group + "." + n.name, n.group + "=" + n.value, n.group + " " + n.word} {
			if seen[key] && !strings.HasSuffix(key, " ") {
				return nil, fmt.Errorf("line %d: %s is there twice", i+1, key)
			}
			seen[key] = true
		}
		list = append(list, n)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no numbers")
	}
	return list, nil
}

// initialisms are words that Go writes in capitals.
var initialisms = map[string]string{"OK": "OK", "MPTCP": "MPTCP", "TTL": "TTL", "MSS": "MSS", "WSCALE": "WScale"}

// camel turns AUTH_TTL into AuthTTL.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		if s, ok := initialisms[part]; ok {
			b.WriteString(s)
		} else {
			b.WriteString(part[:1] + strings.ToLower(part[1:]))
		}
	}
	return b.String()
}

func generateABI(def, out string) error {
	text, err := os.ReadFile(def)
	if err != nil {
		return err
	}
	list, err := parseABI(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", def, err)
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from core/abi.def by internal/schema/gen; DO NOT EDIT.\n\npackage schema\n")
	for start := 0; start < len(list); {
		group, words := list[start].group, false
		end := start
		for ; end < len(list) && list[end].group == group; end++ {
			words = words || list[end].word != ""
		}
		fmt.Fprintf(&b, "\n// TG_%s_... of core/abi.def.\nconst (\n", group)
		for _, n := range list[start:end] {
			fmt.Fprintf(&b, "\t%s%s = %s // %s\n", camel(group), camel(n.name), n.value, n.help)
		}
		b.WriteString(")\n")
		if words {
			fmt.Fprintf(&b, "\n// %sWords are its words in the configuration, in the order of core/abi.def.\nfunc %sWords() []string {\n\treturn []string{", camel(group), camel(group))
			for _, n := range list[start:end] {
				if n.word != "" {
					fmt.Fprintf(&b, "%q, ", n.word)
				}
			}
			b.WriteString("}\n}\n")
			fmt.Fprintf(&b, "\n// %sNumber is the number of a word of the configuration, which has to be one of them.\nfunc %sNumber(word string) uint8 {\n\tswitch word {\n", camel(group), camel(group))
			for _, n := range list[start:end] {
				fmt.Fprintf(&b, "\tcase %q:\n\t\treturn %s%s\n", n.word, camel(group), camel(n.name))
			}
			fmt.Fprintf(&b, "\t}\n\tpanic(\"core/abi.def has no %s \" + word)\n}\n", strings.ToLower(strings.ReplaceAll(group, "_", " ")))
		}
		start = end
	}
	source, err := format.Source(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(out, source, 0o644)
}
