// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// page is a document: its networks and its fences in their order.
type page struct {
	networks []string
	fences   []fence
}

// fence is a block of code.
type fence struct {
	line  int
	lang  string
	words map[string]string // what follows the language: on=MACHINE, file=PATH; a bare word is its own value
	text  string
}

// patience is how long the commands may take.
func (f *fence) patience() (time.Duration, error) {
	word, ok := f.words["patience"]
	if !ok {
		return limit, nil
	}
	d, err := time.ParseDuration(word)
	if err == nil && d <= limit {
		err = fmt.Errorf("every fence has %v", limit)
	}
	if err != nil {
		return 0, fmt.Errorf("line %d: patience=%s: %w", f.line, word, err)
	}
	return d, nil
}

// parse reads a page's front matter and fences.
func parse(markdown string) (p page, err error) {
	lines := strings.Split(markdown, "\n")
	var open *fence
	front := len(lines) > 0 && lines[0] == "---"
	for i, line := range lines {
		if front && i > 0 {
			if name, value, ok := strings.Cut(line, ":"); ok && name == "network" {
				p.networks = strings.Fields(value)
			}
			front = line != "---"
			continue
		}
		ticks := strings.HasPrefix(line, "```")
		switch {
		case open == nil && ticks:
			open = &fence{line: i + 1, words: map[string]string{}}
			for n, word := range strings.Fields(line[3:]) {
				name, value, ok := strings.Cut(word, "=")
				if !ok {
					value = name
				}
				if n == 0 {
					open.lang = name
				} else {
					open.words[name] = value
				}
			}
		case open != nil && ticks:
			p.fences = append(p.fences, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		return p, fmt.Errorf("line %d: the fence does not end", open.line)
	}
	return p, nil
}

// missing returns the first line of want that does not follow in got after the previous ones.
func missing(got, want string) string {
	rest := strings.Split(got, "\n")
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "" || line == "…" {
			continue
		}
		var pattern strings.Builder
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				pattern.WriteString(".*")
			}
			words := strings.Fields(part)
			for j, w := range words {
				if j > 0 {
					pattern.WriteString(`\s+`)
				}
				pattern.WriteString(regexp.QuoteMeta(w))
			}
			if strings.HasSuffix(part, " ") {
				pattern.WriteString(`\s*`)
			}
		}
		re := regexp.MustCompile(pattern.String())
		found := -1
		for i, have := range rest {
			if re.MatchString(have) {
				found = i
				break
			}
		}
		if found < 0 {
			return line
		}
		rest = rest[found+1:]
	}
	return ""
}
