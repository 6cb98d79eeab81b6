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
	url = regexp.MustCompile(`(?i)\b(https?)://[^\s"',\]}]+`)
	// The command of an event hook may carry one, too.
	command = regexp.MustCompile(`(?m)^(\s*"?command"?\s*:\s*)\S.*$`)
	mac     = regexp.MustCompile(`\b([0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}):[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}\b`)
	// What can be an address, prefix or port aside; netip decides.
	candidate = regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*`)
)

// Text returns a text with these replaced.
func (r *Redactor) Text(s string) string {
	s = hexKey.ReplaceAllString(s, "KEY-LEFT-OUT")
	s = url.ReplaceAllString(s, "$1://LEFT-OUT")
	s = command.ReplaceAllString(s, "${1}LEFT-OUT")
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
