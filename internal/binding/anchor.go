// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/goccy/go-yaml"
)

// Anchor is a key that is trusted because the configuration says so, for the
// prefixes listed there: what a Regional Internet Registry is to its region.
type Anchor struct {
	Name     string
	Key      Key
	Prefixes []netip.Prefix
}

// Covers reports whether the anchor may bind p.
func (a *Anchor) Covers(p netip.Prefix) bool { return coveredBy(p, a.Prefixes) }

// maxAnchorFile bounds what is read of a file that may not be an anchor file.
const maxAnchorFile = 1 << 20

// ErrAnchors is the class of everything that can be wrong with an anchor file.
var ErrAnchors = errors.New("anchor file")

// LoadAnchors reads an anchor file.
func LoadAnchors(path string) ([]Anchor, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w %s cannot be read; name a YAML file with a list `anchors`", ErrAnchors, path)
	}
	if info.Size() > maxAnchorFile || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w %s is not a regular file of at most %d bytes", ErrAnchors, path, maxAnchorFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnchors, err)
	}
	list, err := ParseAnchors(text)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrAnchors, path, err)
	}
	return list, nil
}

// ParseAnchors reads YAML: a list `anchors` of {name, key, prefixes}.
func ParseAnchors(text []byte) ([]Anchor, error) {
	var file struct {
		Anchors []struct {
			Name     string   `yaml:"name"`
			Key      string   `yaml:"key"`
			Prefixes []string `yaml:"prefixes"`
		} `yaml:"anchors"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false))
	}
	if len(file.Anchors) == 0 {
		return nil, errors.New("no anchor; without one no record can be accepted: add a list `anchors` of {name, key, prefixes}")
	}
	seen := map[Key]bool{}
	var list []Anchor
	for i, f := range file.Anchors {
		a := Anchor{Name: f.Name}
		var err error
		if a.Key, err = ParseKey(f.Key); err != nil {
			return nil, fmt.Errorf("anchors[%d].key: %w", i, err)
		}
		if seen[a.Key] {
			return nil, fmt.Errorf("anchors[%d].key: stands there twice; put all its prefixes into one anchor", i)
		}
		seen[a.Key] = true
		for j, text := range f.Prefixes {
			p, err := netip.ParsePrefix(text)
			if err != nil || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("anchors[%d].prefixes[%d]: %q is not a prefix such as 192.0.2.0/24 or 2001:db8::/32", i, j, text)
			}
			a.Prefixes = append(a.Prefixes, p)
		}
		if len(a.Prefixes) == 0 {
			return nil, fmt.Errorf("anchors[%d].prefixes: none; an anchor binds only what stands here", i)
		}
		a.Prefixes = SortPrefixes(a.Prefixes)
		list = append(list, a)
	}
	return list, nil
}
