// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// reader walks the syntax tree of one file and gathers the mistakes in it. It
// reads the tree, not Go structs, so that each mistake has its line.
type reader struct {
	file string
	errs Errors

	warns Errors
	role  string // whose fields are read
	plane Plane  // likewise; empty of a role without planes

	values map[string]int64 // of fields that have been read (take)
}

func (r *reader) fail(line int, field, format string, args ...any) {
	if len(r.errs) < maxErrors {
		msg := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
		r.errs = append(r.errs, &Error{File: r.file, Line: line, Field: field, Msg: msg})
	}
}

// warn reports what is accepted but should be written differently.
func (r *reader) warn(line int, field, format string, args ...any) {
	r.warns = append(r.warns, &Error{File: r.file, Line: line, Field: field, Msg: fmt.Sprintf(format, args...)})
}

// field is one value of the file, with its position.
type field struct {
	path string
	line int
	node ast.Node
}

// root parses data and returns its one document, or false.
func (r *reader) root(data []byte) (field, bool) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		line, msg := 0, err.Error()
		var ye yaml.Error
		if errors.As(err, &ye) {
			msg = ye.GetMessage()
			if tk := ye.GetToken(); tk != nil {
				line = tk.Position.Line
			}
		}
		r.fail(line, "", "is not valid YAML: %s", msg)
		return field{}, false
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.CommentGroupType {
			docs = append(docs, d)
		}
	}
	switch len(docs) {
	case 0:
		r.fail(1, "", "is empty; write interfaces, secret_file and services")
		return field{}, false
	case 1:
		return field{node: docs[0].Body, line: lineOf(docs[0].Body)}, true
	}
	r.fail(lineOf(docs[1].Body), "", "holds a second YAML document; remove the `---` and what follows")
	return field{}, false
}

func lineOf(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key // the token of a block mapping is its first colon
	}
	if tk := n.GetToken(); tk != nil {
		return tk.Position.Line
	}
	return 0
}

// mapping returns the fields of a mapping. Unknown ones are mistakes.
func (r *reader) mapping(f field, known []string) (map[string]field, bool) {
	m, ok := f.node.(*ast.MappingNode)
	if !ok {
		r.fail(f.line, f.path, "is %s; write `field: value` lines here", kind(f.node))
		return nil, false
	}
	out := make(map[string]field, len(m.Values))
	for _, v := range m.Values {
		line := lineOf(v.Key)
		key, isString := v.Key.(*ast.StringNode)
		if !isString {
			r.fail(line, f.path, "%s is not a field name; use %s", v.Key.String(), wordList(known))
			continue
		}
		path := key.Value
		if f.path != "" {
			path = f.path + "." + path
		}
		name := key.Value
		if now := formerly(path); now != "" && slices.Contains(known, now) {
			r.warn(line, path, "is now called %s; the old name will go in a later version", now)
			name = now
		}
		if !slices.Contains(known, name) {
			fix := "use " + wordList(known)
			if near := nearest(key.Value, known); near != "" {
				fix = "did you mean " + near + "?"
			}
			r.fail(line, path, "unknown field; %s", fix)
			continue
		}
		if other, twice := out[name]; twice {
			r.fail(line, path, "is the same field as %s in line %d; remove one of them", other.path, other.line)
			continue
		}
		out[name] = field{path: path, line: max(line, lineOf(v.Value)), node: v.Value}
	}
	return out, true
}

// sequence returns the items of a list.
func (r *reader) sequence(f field) ([]field, bool) {
	seq, ok := f.node.(*ast.SequenceNode)
	if !ok {
		fix := "write a list"
		if text, isScalar := scalarText(f.node); isScalar {
			fix = fmt.Sprintf("write [%s]", text)
		}
		r.fail(f.line, f.path, "is %s where a list is expected; %s", kind(f.node), fix)
		return nil, false
	}
	items := make([]field, len(seq.Values))
	for i, n := range seq.Values {
		items[i] = field{path: fmt.Sprintf("%s[%d]", f.path, i), line: lineOf(n), node: n}
	}
	return items, true
}

// text returns a scalar as it is written in the file, quotes removed.
func (r *reader) text(f field, want string) (string, bool) {
	s, ok := scalarText(f.node)
	if !ok || s == "" {
		r.fail(f.line, f.path, "is %s; write %s", kind(f.node), want)
		return "", false
	}
	return s, true
}

func scalarText(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return v.GetToken().Value, true
	}
	return "", false
}

// kind names what was found where something else was expected.
func kind(n ast.Node) string {
	switch v := n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.StringNode:
		if v.Value == "" {
			return "empty"
		}
		return "a single value"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "a YAML anchor, alias or tag, which is not supported"
	case *ast.LiteralNode:
		return "a block of text"
	}
	return "a single value"
}

// word reads one of a few words.
func (r *reader) word(f field, words ...string) (string, bool) {
	s, ok := r.text(f, wordList(words))
	if !ok {
		return "", false
	}
	if !slices.Contains(words, s) {
		r.fail(f.line, f.path, "%q is not known; use %s", s, wordList(words))
		return "", false
	}
	return s, true
}

func (r *reader) duration(f field, lowest, highest time.Duration) (time.Duration, bool) {
	s, ok := r.text(f, "a duration such as 8s")
	if !ok {
		return 0, false
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		r.fail(f.line, f.path, "%s has no unit; write %ss if seconds are meant", s, s)
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		r.fail(f.line, f.path, "%q is not a duration; write it like 500ms, 8s, 10m or 2h", s)
		return 0, false
	}
	if d < lowest || d > highest {
		r.fail(f.line, f.path, "%s is out of range; use %s to %s", s, short(lowest), short(highest))
		return 0, false
	}
	return d, true
}

// short writes a duration without the zero units that Go appends.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// autoInt reads `auto` or a number.
func (r *reader) autoInt(f field, lowest, highest int) (AutoInt, bool) {
	want := fmt.Sprintf("auto or %d to %d", lowest, highest)
	s, ok := r.text(f, want)
	if !ok {
		return AutoInt{}, false
	}
	if s == "auto" {
		return AutoInt{Auto: true}, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.fail(f.line, f.path, "%q is not a number; use %s", s, want)
		return AutoInt{}, false
	}
	if n < int64(lowest) || n > int64(highest) {
		r.fail(f.line, f.path, "%s is out of range; use %s", s, want)
		return AutoInt{}, false
	}
	return AutoInt{Value: int(n)}, true
}
