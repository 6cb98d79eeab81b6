// SPDX-License-Identifier: Apache-2.0

package bugreport

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Redactor replaces what identifies anybody, each item by the same stand-in everywhere, so that a report
// still shows what belongs together.
type Redactor struct {
	// Addresses stay as they are.
	Addresses bool
	// Host is this machine's name.
	Host string

	seen map[netip.Addr]string
}

var (
	// 64 hexadecimal digits may be a secret; public keys have the same form, and are removed, too.
	hexKey = regexp.MustCompile(`\b[0-9a-fA-F]{64}\b`)
	// What follows the host of a URL, and a user before it, may be a token.
	url = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*)://[^\s"',\]}]+`)
	// The arguments of an event hook may be one, too: in YAML and JSON, and as the log names the hook.
	command = regexp.MustCompile(`\bcommand["']?[ \t]*:[ \t]*`)
	named   = regexp.MustCompile(`\bcommand /[^"\n]*`)
	items   = regexp.MustCompile(`^(?:&\S+[ \t]*)?\n(?:[ \t]*-[ \t][^\n]*(?:\n|$)|[ \t]*(?:#[^\n]*)?\n)+`)
	mac     = regexp.MustCompile(`\b([0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}):[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}\b`)
	// What can be an address, prefix or port aside; netip decides.
	candidate = regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*`)
)

// Text returns a text with these replaced.
func (r *Redactor) Text(s string) string {
	s = hexKey.ReplaceAllString(s, "KEY-LEFT-OUT")
	s = url.ReplaceAllString(s, "$1://LEFT-OUT")
	s = named.ReplaceAllString(withoutCommands(s), "command LEFT-OUT")
	if r.Host != "" {
		s = regexp.MustCompile(`\b`+regexp.QuoteMeta(r.Host)+`\b`).ReplaceAllString(s, "this-host")
	}
	if r.Addresses {
		return s
	}
	s = mac.ReplaceAllString(s, "$1:xx:xx:xx")
	return candidate.ReplaceAllStringFunc(s, func(text string) string {
		a, err := netip.ParseAddr(text)
		rest := ""
		if err != nil { // a colon that follows an address is not part of it
			a, err = netip.ParseAddr(strings.TrimSuffix(text, ":"))
			rest = ":"
		}
		if err != nil || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
			return text
		}
		return r.stand(a) + rest
	})
}

// withoutCommands replaces the value of each key `command`, whatever form it has.
func withoutCommands(s string) string {
	var b strings.Builder
	for {
		at := command.FindStringIndex(s)
		if at == nil {
			return b.String() + s
		}
		b.WriteString(s[:at[1]] + "LEFT-OUT")
		s = s[at[1]:]
		end := strings.IndexByte(s+"\n", '\n')
		if list := items.FindString(s); list != "" { // one item a line
			b.WriteString("\n")
			s = s[len(list):]
		} else if open := strings.IndexByte(s[:end], '['); open >= 0 {
			s = s[closing(s, open):]
		} else {
			s = s[end:]
		}
	}
}

// closing returns where the list that begins at a bracket has ended. Brackets in quotes do not count; one that is
// never closed ends with the text.
func closing(s string, open int) int {
	quote := byte(0)
	for i := open + 1; i < len(s); i++ {
		switch c := s[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ']':
			return i + 1
		}
	}
	return len(s)
}

// stand returns the stand-in for an address: it shows the address's family and kind.
func (r *Redactor) stand(a netip.Addr) string {
	if r.seen == nil {
		r.seen = map[netip.Addr]string{}
	}
	if s, ok := r.seen[a]; ok {
		return s
	}
	kind := "ip6"
	if a.Is4() {
		kind = "ip4"
	}
	switch {
	case a.IsLinkLocalUnicast():
		kind += "-link-local"
	case a.IsPrivate():
		kind += "-private"
	}
	s := fmt.Sprintf("%s-%d", kind, len(r.seen)+1)
	r.seen[a] = s
	return s
}
