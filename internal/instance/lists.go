// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/sourcelist"
)

// Prefixes that were allowed or denied by hand (`tidegate deny`) are in two lists beside the state file, in force
// until they expire, are removed, or the machine reboots.

// MaxByHand is how many there may be: each change reads all lists again.
const MaxByHand = 1 << 16

func byHandPath(dir, instance string, v sourcelist.Verdict) string {
	return filepath.Join(dir, instance+"."+v.String())
}

func byHand(dir, instance string) sourcelist.Files {
	return sourcelist.Files{{Path: byHandPath(dir, instance, sourcelist.Allow), Verdict: sourcelist.Allow, Optional: true},
		{Path: byHandPath(dir, instance, sourcelist.Deny), Verdict: sourcelist.Deny, Optional: true}}
}

// SourceLists are all lists of an instance: those of the configuration, of its fleet, and those by hand.
func SourceLists(dir string, c *config.Config) (files sourcelist.Files) {
	if c.AllowList != "" {
		files = append(files, sourcelist.List{Path: c.AllowList, Verdict: sourcelist.Allow})
	}
	if c.DenyList != "" {
		files = append(files, sourcelist.List{Path: c.DenyList, Verdict: sourcelist.Deny})
	}
	files = append(files, fleetLists(dir, c)...)
	return append(files, byHand(dir, c.Instance)...)
}

// ReadByHand reads the entries made by hand, those that have expired too.
func ReadByHand(dir, instance string) ([]sourcelist.Entry, error) {
	all, err := byHand(dir, instance).Read()
	if err != nil {
		return nil, fmt.Errorf("made by hand: %w; remove the file to be without", err)
	}
	return all, nil
}

// WriteByHand replaces the entries made by hand. An empty list has no file.
func WriteByHand(dir, instance string, all []sourcelist.Entry) error {
	if len(all) > MaxByHand {
		return fmt.Errorf("%d entries made by hand, want at most %d: put them into a file, and name it `allow_list` or `deny_list`", len(all), MaxByHand)
	}
	for _, list := range byHand(dir, instance) {
		var text strings.Builder
		for i := range all {
			if all[i].Verdict == list.Verdict {
				text.WriteString(all[i].String() + "\n")
			}
		}
		if text.Len() == 0 {
			if err := os.Remove(list.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := replaceFile(list.Path, []byte(text.String())); err != nil {
			return err
		}
	}
	return nil
}

// WithEntry is the entries with this one in the place of any of its prefix.
func WithEntry(all []sourcelist.Entry, e sourcelist.Entry) []sourcelist.Entry {
	rest, _ := WithoutPrefix(all, e.Prefix())
	return append(rest, e)
}

// WithoutPrefix is the entries without that of a prefix, and whether there was one.
func WithoutPrefix(all []sourcelist.Entry, p netip.Prefix) (rest []sourcelist.Entry, there bool) {
	rest = slices.DeleteFunc(slices.Clone(all), func(e sourcelist.Entry) bool { return e.Prefix() == p })
	return rest, len(rest) < len(all)
}
