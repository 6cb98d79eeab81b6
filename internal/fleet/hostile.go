// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"unicode"

	"tidegate/internal/config"
)

// Printable is what a terminal may be sent of a text by somebody else: a node may be in the wrong hands, and escape sequences, line
// breaks and marks of direction would show an operator what is not there. Each rune that is no graphic character or space becomes U+FFFD.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// clean makes every text of a report printable.
func (r *Report) clean() {
	for _, s := range []*string{&r.Node, &r.Version, &r.Role, &r.Error, &r.Key, &r.NextKey} {
		*s = Printable(*s)
	}
	for i := range r.Degraded {
		r.Degraded[i] = Printable(r.Degraded[i])
	}
	modes, attacks, offers := r.Modes, r.Attacks, r.Offers
	r.Modes, r.Attacks, r.Offers = nil, nil, nil
	for service, offer := range offers { // what no server offers is left out
		if offer.Validate() == nil {
			if r.Offers == nil {
				r.Offers = make(config.Offers, len(offers))
			}
			r.Offers[Printable(service)] = offer
		}
	}
	for service, mode := range modes {
		if r.Modes == nil {
			r.Modes = make(map[string]config.Mode, len(modes))
		}
		r.Modes[Printable(service)] = config.Mode(Printable(string(mode)))
	}
	for service, word := range attacks {
		if r.Attacks == nil {
			r.Attacks = make(map[string]string, len(attacks))
		}
		r.Attacks[Printable(service)] = Printable(word)
	}
}
