// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// What two servers can keep is the smaller of every value, and no option that one of them refuses; in whatever order they are asked.
func TestLeastOffer(t *testing.T) {
	a := Offer{MSSv4: 1460, MSSv6: 1380, WScale: 9, Window: 64240, SACK: true, Timestamps: true}
	b := Offer{MSSv4: 1400, MSSv6: 1440, WScale: 7, Window: 65535, SACK: true, ECN: true}
	want := Offer{MSSv4: 1400, MSSv6: 1380, WScale: 7, Window: 64240, SACK: true}
	if a.Least(b) != want || b.Least(a) != want || a.Least(a) != a {
		t.Errorf("%v and %v: %v, %v", a, b, a.Least(b), b.Least(a))
	}
	b.WScale, want.WScale = NoWScale, NoWScale
	if a.Least(b) != want || b.Least(a) != want {
		t.Errorf("without a window scale: %v, %v", a.Least(b), b.Least(a))
	}
	if text := want.String(); text != "MSS 1400 and 1380, no window scale, window 64240, SACK, no timestamps, no ECN" {
		t.Error(text)
	}
}

// An offer that no server makes is refused by its service's name.
func TestImpossibleOffers(t *testing.T) {
	good := Offer{MSSv4: 536, MSSv6: 536, WScale: 14, Window: 536}
	if err := (Offers{"web": good}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Offer{{}, {MSSv4: 535, MSSv6: 1440, Window: 64240}, {MSSv4: 1460, MSSv6: 1, Window: 64240}, {MSSv4: 1460, MSSv6: 1440, WScale: 16, Window: 64240},
		{MSSv4: 1460, MSSv6: 1440, WScale: 7}} {
		if err := (Offers{"api": good, "web": bad}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "offers.web: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Only edges and servers behind edges, on XDP, take the fleet's offers.
func TestOffersOverride(t *testing.T) {
	offer := Offer{MSSv4: 1400, MSSv6: 1380, WScale: 9, Window: 64240}
	for role, takes := range map[string]bool{"edge\ninside: [eth0]": true, "server": true, "host": false, "proxy\nforwarding: router": false} {
		c, err := Parse("test", []byte("role: "+role+"\ninterfaces: [eth0, eth1]\nsecret_file: secret\nservices: [{name: web, ports: [80]}, {name: api, ports: [81]}]\n"))
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		Offers{"web": offer, "other": offer}.Override(c)
		if got := c.Services[0].Offer; (got != nil) != takes || takes && *got != offer || c.Services[1].Offer != nil {
			t.Errorf("%s: %v, %v", role, got, c.Services[1].Offer)
		}
	}
}
