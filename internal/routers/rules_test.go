// SPDX-License-Identifier: Apache-2.0

package routers

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var someRules = Rules{Own: prefixes("203.0.113.0/24", "2001:db8::/48"), Here: prefixes("10.9.0.5/32"), Never: prefixes("198.51.100.0/25", "203.0.113.53/32"),
	Routed: prefixes("192.0.2.1/32", "192.0.2.254/32")}

func route(kind Kind, p, to string) Route {
	r := Route{Kind: kind}
	if p != "" {
		r.Prefix = netip.MustParsePrefix(p)
	}
	if to != "" {
		r.To = netip.MustParsePrefix(to)
	}
	return r
}

func TestRules(t *testing.T) {
	for _, r := range []Route{
		route(Source, "198.51.100.128/32", ""), route(Source, "198.51.100.128/25", ""), route(Source, "100.64.0.0/24", ""), route(Source, "2001:db9::7/128", ""),
		route(Flow, "198.51.100.128/32", "203.0.113.1/32"), route(Flow, "2001:db9::7/128", "2001:db8::1/128"),
		route(Destination, "203.0.113.7/32", ""), route(Destination, "2001:db8::7/128", ""), route(Destination, "203.0.113.128/25", ""),
	} {
		if err := someRules.Check(r); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	for want, list := range map[string][]Route{
		"which is ours":            {route(Source, "203.0.113.7/32", ""), route(Flow, "203.0.113.7/32", "203.0.113.1/32"), route(Source, "2001:db8::/64", "")},
		"an address of this":       {route(Source, "10.9.0.5/32", ""), route(Source, "10.9.0.0/24", "")},
		"bgp.never":                {route(Source, "198.51.100.7/32", ""), route(Source, "198.51.100.0/24", ""), route(Destination, "203.0.113.0/24", ""), route(Destination, "203.0.113.53/32", "")},
		"BGP would end":            {route(Source, "192.0.2.254/32", ""), route(Source, "192.0.2.0/24", "")},
		"wider than":               {route(Source, "198.50.0.0/16", ""), route(Source, "2001:db9::/32", ""), route(Flow, "8.0.0.0/7", "203.0.113.1/32")},
		"none of bgp.own":          {route(Destination, "198.18.0.0/24", ""), route(Destination, "192.0.32.0/23", ""), route(Flow, "198.51.100.128/32", "198.18.0.1/32")},
		"different families":       {route(Flow, "198.51.100.128/32", "2001:db8::1/128")},
		"host bits":                {{Kind: Source, Prefix: netip.MustParsePrefix("198.51.100.129/25")}},
		"no unicast prefix":        {route(Source, "224.0.0.0/24", ""), route(Source, "127.0.0.1/32", ""), route(Source, "fe80::1/128", ""), route(Source, "0.0.0.0/0", ""), route(Source, "::/0", "")},
		"it has no prefix":         {route(Source, "", ""), route(Flow, "198.51.100.128/32", "")},
		`"service" is not known; `: {route(Service, "203.0.113.128/25", "")},
	} {
		for _, r := range list {
			if err := someRules.Check(r); err == nil || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", r, err, want)
			}
		}
	}
}
