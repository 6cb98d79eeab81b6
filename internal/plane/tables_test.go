// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"maps"
	"net/netip"
	"testing"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// The longest prefix wins, also where a service for every address names longer
// ones besides and another service's prefix lies between.
func TestBuildKeepsPrefixesBesideCatchAll(t *testing.T) {
	port := [][2]uint16{{80, 80}}
	got, err := build([]Target{
		{ID: 1, Prefixes: prefixes("0.0.0.0/0", "::/0", "10.1.0.0/16"), Ports: port},
		{ID: 2, Prefixes: prefixes("10.0.0.0/8"), Ports: port},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[PrefixKey]uint32{
		prefixKey(netip.MustParsePrefix("10.1.0.0/16"), 80): 1,
		prefixKey(netip.MustParsePrefix("10.0.0.0/8"), 80):  2,
	}
	if len(got.prefixes) != len(want) || got.ports[80] != portHasPrefixes|portWatched|1 {
		t.Errorf("ports %x, prefixes %v", got.ports[80], got.prefixes)
	}
	for k, id := range want {
		if got.prefixes[k] != id {
			t.Errorf("%v belongs to service %d, want %d", k, got.prefixes[k], id)
		}
	}
}

// A box's own address within a service is nobody's, at the service's ports and no others.
func TestExcept(t *testing.T) {
	web := Target{ID: 7, Ports: [][2]uint16{{80, 81}}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	own := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("198.51.100.1/32"), netip.MustParsePrefix("2001:db8::1/128")}
	got, err := build(Except([]Target{web}, own))
	if err != nil {
		t.Fatal(err)
	}
	want := map[PrefixKey]uint32{
		prefixKey(web.Prefixes[0], 80): 7, prefixKey(web.Prefixes[0], 81): 7,
		prefixKey(own[0], 80): 0, prefixKey(own[0], 81): 0,
	}
	if !maps.Equal(got.prefixes, want) || len(got.services) != 1 || len(got.ports) != 2 {
		t.Errorf("%+v, want the prefixes %v", got, want)
	}
	if same := Except([]Target{web}, own[1:]); len(same) != 1 {
		t.Errorf("addresses of no service made exceptions: %+v", same)
	}
}

func TestPinNames(t *testing.T) {
	for _, name := range []string{"eth0", "eth0.100", "a%2eb", "with-dash", "%.%"} {
		file := pinName("xdp", name)
		if kind, back, ok := cutPinName(file); kind != "xdp" || back != name || !ok {
			t.Errorf("%q becomes %q and that %q %q", name, file, kind, back)
		}
	}
	if got := PinDir("/b", "web.v1"); got != "/b/tidegate/web%2ev1" {
		t.Errorf("a BPF file system takes no dot: %s", got)
	}
}

// Keys of a time that a clock has left do not make keys last longer.
func TestLastKey(t *testing.T) {
	for name, c := range map[string]struct {
		epochs []uint64
		now    uint64
		want   uint64
	}{
		"none":                       {nil, 100, 0},
		"as always":                  {[]uint64{98, 99, 100, 101, 102}, 100, 102},
		"the clock was set back":     {[]uint64{98, 99, 100, 101, 102, 698, 699, 700}, 100, 102},
		"ended":                      {[]uint64{98, 99, 100, 101, 102}, 110, 102},
		"ended, after a step back":   {[]uint64{98, 99, 100, 101, 102, 698, 699, 700}, 110, 102},
		"a gap: some was not loaded": {[]uint64{99, 100, 102, 103}, 100, 100},
		"all in the future":          {[]uint64{98, 99, 100}, 50, 100},
	} {
		for range 20 { // a map has no order
			there := map[uint64]bool{}
			for _, e := range c.epochs {
				there[e] = true
			}
			if got := lastKey(there, c.now); got != c.want {
				t.Errorf("%s: %d, want %d", name, got, c.want)
				break
			}
		}
	}
}
