// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/internal/sourcelist"
)

// List puts a prefix into one of the lists, where it replaces what was said of the same prefix in either.
func (d *Desired) List(v sourcelist.Verdict, p netip.Prefix, until *time.Time, comment string) {
	d.Unlist(p)
	line := p.String()
	if until != nil {
		line += " until " + until.UTC().Format(time.RFC3339)
	}
	if comment != "" {
		line += " # " + comment
	}
	if v == sourcelist.Allow {
		d.Allow = append(d.Allow, line)
	} else {
		d.Deny = append(d.Deny, line)
	}
}

// Unlist removes a prefix from both lists. It returns false if it was in neither.
func (d *Desired) Unlist(p netip.Prefix) (found bool) {
	drop := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			words := strings.Fields(line)
			if len(words) == 0 {
				return false
			}
			q, err := ParsePrefix(words[0])
			found = found || err == nil && q == p
			return err == nil && q == p
		})
	}
	d.Allow, d.Deny = drop(d.Allow), drop(d.Deny)
	return found
}

// ParsePrefix reads a prefix or an address.
func ParsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return a.Prefix(a.BitLen())
	}
	return netip.ParsePrefix(s)
}
