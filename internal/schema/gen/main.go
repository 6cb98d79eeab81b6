// SPDX-License-Identifier: Apache-2.0

// Command gen writes internal/schema/counters.go and docs/counters.md from
// core/counters.def, and internal/schema/abi.go from core/abi.def. It must never renumber:
// the order of the counters' lines, and the numbers of the others, are ABI.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"strings"
)

type counter struct{ name, help string }

func main() {
	def := flag.String("def", "", "the list of counters")
	abi := flag.String("abi", "", "instead, the list of numbers: -go alone is written")
	goOut := flag.String("go", "", "Go file to write")
	mdOut := flag.String("md", "", "Markdown file to write")
	flag.Parse()
	var err error
	if *abi != "" {
		err = generateABI(*abi, *goOut)
	} else {
		err = generate(*def, *goOut, *mdOut)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(def, goOut, mdOut string) error {
	text, err := os.ReadFile(def)
	if err != nil {
		return err
	}
	list, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", def, err)
	}
	source, err := goSource(list)
	if err != nil {
		return err
	}
	if err := os.WriteFile(goOut, source, 0o644); err != nil {
		return err
	}
	return os.WriteFile(mdOut, markdown(list), 0o644)
}

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	line    = regexp.MustCompile(`^X\(\s*([a-z][a-z0-9_]*)\s*,\s*"([^"\\]+)"\s*\)$`)
)

// parse parses X(name, "help") lines. Anything else is an error:
// a skipped counter would shift all that follow.
func parse(text string) ([]counter, error) {
	text = comment.ReplaceAllStringFunc(text, func(c string) string {
		return strings.Repeat("\n", strings.Count(c, "\n")) // keep line numbers
	})
	var list []counter
	seen := map[string]bool{}
	for i, raw := range strings.Split(text, "\n") {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		m := line.FindStringSubmatch(raw)
		if m == nil {
			return nil, fmt.Errorf("line %d: want X(name, \"help\"), have %q", i+1, raw)
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("line %d: %s is listed twice", i+1, m[1])
		}
		seen[m[1]] = true
		list = append(list, counter{m[1], m[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no counters")
	}
	return list, nil
}

// constant turns drop_ext_chain into CounterDropExtChain.
func constant(name string) string {
	var b strings.Builder
	b.WriteString("Counter")
	for _, part := range strings.Split(name, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

func goSource(list []counter) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated from core/counters.def by internal/schema/gen; DO NOT EDIT.\n\npackage schema\n\n")
	b.WriteString("// The counters, numbered as in the maps of the packet paths.\nconst (\n")
	for i, c := range list {
		fmt.Fprintf(&b, "\t// %s: %s.\n\t%s Counter = %d\n", constant(c.name), c.help, constant(c.name), i)
	}
	fmt.Fprintf(&b, "\n\t// NumCounters is how many counters there are.\n\tNumCounters = %d\n)\n\n", len(list))
	b.WriteString("var counters = [NumCounters]struct{ name, help string }{\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\t{%q, %q},\n", c.name, c.help)
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

func markdown(list []counter) []byte {
	var b bytes.Buffer
	b.WriteString("<!-- Generated from core/counters.def by internal/schema/gen; do not edit. -->\n# Counters\n\n")
	b.WriteString("Kept for each service, and once more for packets of no service.\n`tidegate status --json` uses these names.\n\n")
	b.WriteString("| no. | name | what one count means |\n|---|---|---|\n")
	for i, c := range list {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", i, c.name, strings.ReplaceAll(c.help, "|", `\|`))
	}
	return b.Bytes()
}
