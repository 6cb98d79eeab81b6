// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml/ast"
)

// Value is a scalar, as it stands in a configuration: a number, a word or a duration. The fields that it is for say what it means (reader.take).
type Value string

// UnmarshalYAML reads a scalar.
func (v *Value) UnmarshalYAML(n ast.Node) error {
	text, ok := scalarText(n)
	if !ok {
		return fmt.Errorf("%s where a number or a word is expected", kind(n))
	}
	*v = Value(text)
	return nil
}

// UnmarshalJSON reads a number, a text or a truth value.
func (v *Value) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*v = Value(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("%.20s where a number or a word is expected", text)
	}
	*v = Value(n)
	return nil
}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14})$`)

// MarshalJSON writes a whole number as one, as earlier versions did, and everything else as text.
func (v Value) MarshalJSON() ([]byte, error) {
	if wholeNumber.MatchString(string(v)) {
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// node is the value as the parser of a file would have it.
func (v Value) node() ast.Node { return &ast.StringNode{Value: string(v)} }
