// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// maxErrors bounds how many mistakes are reported at once.
const maxErrors = 20

// Error is one mistake in a configuration.
type Error struct {
	File  string
	Line  int
	Field string // "services[0].ports", or "" when no field is to blame
	Msg   string // what is wrong and how to fix it
}

func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	return where + ": " + e.Msg
}

// Errors is every mistake found, in the order of the file.
type Errors []*Error

func (es Errors) Error() string { return strings.Join(es.Lines(), "\n") }

// Lines returns one line for each mistake.
func (es Errors) Lines() []string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return lines
}

// Unwrap lets errors.As find the single mistakes.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// nearest returns the known word that unknown was probably meant to be, or "".
func nearest(unknown string, known []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
	}
	best, bestDist := "", 3
	for _, k := range known {
		d := distance(plain(unknown), plain(k))
		if d < bestDist && d < len(k)-1 {
			best, bestDist = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short ASCII words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// wordList writes "a, b or c".
func wordList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
