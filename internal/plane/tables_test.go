package plane

import (
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
