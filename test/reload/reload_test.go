// SPDX-License-Identifier: Apache-2.0

package reloadtest

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// field is a field that a reload changes.
type field struct {
	name      string // of the table in internal/config
	base      string // its value before; empty: absent
	other     string
	elsewhere string // why no map shows it; empty: one does
}

// Where what no map shows is shown.
const (
	keysElsewhere   = "the key ring follows time: TestRoll of test/host"
	daemonElsewhere = "only the daemon reads it"
)

// Fields of each role that a reload brings into force. %DIR% is the test's directory.
var (
	ofAll = []field{
		{"secret_file", "%DIR%/secret", "%DIR%/second", keysElsewhere},
		{"next_secret_file", "", "%DIR%/second", keysElsewhere},
		{"next_secret_from", "", "2031-01-31T12:00:00Z", keysElsewhere},
		{"drain", "0s", "1s", daemonElsewhere},
		{"services", "", "", "its fields are below"},
		{"services.name", "web", "mail", daemonElsewhere},
		{"services.prefixes", "[192.0.2.0/24]", `[192.0.2.0/25, "2001:db8::/64"]`, ""},
		{"services.ports", "[80]", "[80, 443]", ""},
		{"services.mode", "monitor", "always", ""},
		{"detector", "", "", "its fields are below"},
		{"detector.sensitivity", "normal", "high", daemonElsewhere},
		{"detector.hard", "5000", "1000", daemonElsewhere},
		{"detector.idle_rate", "50", "10", daemonElsewhere},
		{"detector.calm", "30s", "1m", daemonElsewhere},
		{"services.mss", "1300", "1200", ""},
		{"services.wscale", "7", "5", ""},
		{"services.window", "20000", "30000", ""},
	}
	ofAnswering = []field{
		{"on_stale_keys", "pass", "drop", ""},
		{"synack_limit", "1000", "2000", ""},
		{"services.signed", "pass", "drop", ""}, // and then without the next
		{"services.signed_rate", "100", "200", ""},
	}
	ofListing = []field{
		{"allow_list", "", "%DIR%/list", ""},
		{"deny_list", "", "%DIR%/list", ""},
	}
	ofAdopting = []field{
		{"on_stale_keys", "pass", "drop", ""},
		{"synack_limit", "1000", "2000", ""},
	}
	ofLimiting = []field{
		{"source_limits", "", "", "its fields are below"},
		{"source_limits.new_per_second", "100", "200", ""},
		{"source_limits.concurrent", "1000", "2000", ""},
		{"source_limits.prefix_v4", "32", "24", ""},
		{"source_limits.prefix_v6", "64", "56", ""},
		{"source_limits.action", "drop", "reset", ""},
	}
	byRole = map[string][]field{
		"host": slices.Concat(ofAll, ofAnswering[2:], ofListing, ofAdopting, ofLimiting, []field{
			{"half_open_rate", "100", "200", ""},
			{"services.forwarded", "no", "yes", ""},
		}),
		"proxy": slices.Concat(ofAll, ofAnswering, ofListing, ofLimiting, []field{
			{"fast_path", "services", "all", ""},
			{"swap_period", "5m", "6m", daemonElsewhere},
			{"source_prefix_v6", "64", "56", ""},
			{"idle_time", "1h", "2h", daemonElsewhere},
			{"services.strategy", "cookie", "cache", ""},
			{"services.first_data", "zero-window", "notify", ""},
			{"services.defer_accept", "no", "yes", ""},
		}),
		"edge": slices.Concat(ofAll, ofAnswering, ofListing, []field{
			{"fast_path", "services", "all", ""},
			{"unknown_rate", "1000", "2000", ""},
			{"challenge", "all", "weak", ""},
			{"filter_window", "15s", "20s", daemonElsewhere}, // and with it `learning`
			{"learning", "", "10s", "it moves a moment that no two starts share: TestLearning of internal/role/edge"},
			{"filter_alarm", "20%", "30%", daemonElsewhere},
			{"hops", "16", "8", ""},
			{"offers", "[sack, timestamps]", "[timestamps]", ""},
			{"edge_id", "", "", "of the protocol tagged: TestEdgeID of test/tagged"},
		}),
		"proxy/dpdk": slices.Concat(ofAll, without(ofAnswering, "synack_limit"), ofListing, ofLimiting, []field{
			{"swap_period", "5m", "6m", daemonElsewhere},
			{"source_prefix_v6", "64", "56", ""},
			{"idle_time", "1h", "2h", daemonElsewhere},
			{"dpdk.routes", `["203.0.113.0/24 via inner 02:00:00:00:00:11"]`, `["203.0.113.0/24 via inner 02:00:00:00:00:12"]`, ""},
			{"dpdk.addresses", "[192.0.2.1 on outer]", "[192.0.2.1 on outer, 198.51.100.1 on inner]", ""},
			{"services.strategy", "cookie", "cache", ""},
			{"services.first_data", "zero-window", "notify", ""},
			{"services.defer_accept", "no", "yes", "both packets are sent on this plane, whatever it says"},
		}),
		"server/adopt":     slices.Concat(ofAll, ofListing, ofAdopting, ofLimiting, []field{{"unmatched_ack", "drop", "reset", ""}}),
		"server/translate": slices.Concat(ofAll, ofListing, ofLimiting),
	}
)

// What a role has besides.
var fixed = map[string]string{
	"host":             "role: host\ninterfaces: [outer]\ntakeover: auto\n",
	"proxy":            "role: proxy\ninterfaces: [outer, inner]\n",
	"proxy/dpdk":       "role: proxy\nplane: dpdk\ninterfaces: [outer, inner]\nmax_flows: 1024\nmax_sources: 1024\ncache_entries: 1024\n",
	"edge":             "role: edge\ninterfaces: [outer, inner]\ninside: [inner]\n",
	"server/adopt":     "role: server\ninterfaces: [outer]\nwithout_edge: answer\n",
	"server/translate": "role: server\ninterfaces: [outer]\ntakeover: translate\n",
}

func without(list []field, name string) []field {
	return slices.DeleteFunc(slices.Clone(list), func(f field) bool { return f.name == name })
}

// nested are mappings that a role has besides its fields that are live.
var nested = map[string]map[string]string{"proxy/dpdk": {"dpdk": "  memory_mib: 64\n  devices: [\"net_null0,no-rx=1\", \"net_null1,no-rx=1\"]\n"}}

// text is a configuration in which the fields `changed` have their other value.
func text(role, instance, dir string, changed ...string) string {
	top, service, mappings := fixed[role]+"instance: "+instance+"\n", "", maps.Clone(nested[role])
	if mappings == nil {
		mappings = map[string]string{}
	}
	for _, f := range byRole[role] {
		value := f.base
		if slices.Contains(changed, f.name) {
			value = f.other
		}
		if f.name == "services.signed_rate" && slices.Contains(changed, "services.signed") {
			value = ""
		}
		in, name, inside := strings.Cut(f.name, ".")
		switch line := strings.ReplaceAll(value, "%DIR%", dir) + "\n"; {
		case value == "":
		case !inside:
			top += f.name + ": " + line
		case in == "services":
			service += "    " + name + ": " + line
		default:
			mappings[in] += "  " + name + ": " + line
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mappings)) {
		top += name + ":\n" + mappings[name]
	}
	return top + "services:\n  - " + strings.TrimPrefix(service, "    ")
}

// newInstance is an instance in a namespace with two interfaces, and a listener of the service.
func newInstance(t *testing.T, role string) *harness.Instance {
	t.Helper()
	harness.NeedRoot(t)
	self, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	tag := role[strings.IndexByte(role, '/')+1:]
	ns, err := rig.MakeNamespace(self, tag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	harness.WriteSecret(t, dir)
	for name, content := range map[string]string{"second": strings.Repeat("6b", 32) + "\n", "list": "198.51.100.0/24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := ns.Do(func() error { return addPorts("outer", "192.0.2.1/24", "inner", "198.51.100.1/24") }); err != nil {
		t.Fatal(err)
	}
	harness.Serve(t, ns, harness.Echo, netip.MustParseAddrPort("192.0.2.1:80"))
	return &harness.Instance{T: t, NS: ns, Binary: tidegate, Name: fmt.Sprintf("tg%s-%s", self, tag), Config: filepath.Join(dir, "tidegate.yaml")}
}

// addPorts makes interfaces with an address each: name, address, name, address...
func addPorts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: pairs[i]}, PeerName: pairs[i] + "-far"}
		if err := netlink.LinkAdd(port); err != nil {
			return err
		}
		far, err := netlink.LinkByName(port.PeerName)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(pairs[i+1])
		if err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return netlink.LinkSetUp(far) }, func() error { return netlink.LinkSetUp(port) }, func() error { return netlink.AddrAdd(port, addr) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startFresh starts with a file, reads what that installs, and takes everything down if `down`.
func startFresh(in *harness.Instance, config string, down bool) (*harness.Process, installed) {
	in.T.Helper()
	in.Write(config)
	p := in.Start()
	state := readOf(in)
	if down {
		p.Interrupt()
	}
	return p, state
}

// reload reloads and waits until that is in force, or refused.
func reload(t *testing.T, p *harness.Process, config string) {
	t.Helper()
	p.Reload(config, "reload")
	for _, refused := range p.Log("reload refused") {
		t.Fatal(refused)
	}
}

// Each field that the table of fields calls live changes what is installed, if reloaded alone; and reloading all of them at
// once installs what a start with them does.
func TestReloadIsAStart(t *testing.T) {
	for role := range byRole {
		if (role == "proxy/dpdk") != onDPDK {
			continue // the stage dpdk_net of test/run has TIDEGATE_TEST_PLANE=dpdk
		}
		t.Run(strings.ReplaceAll(role, "/", "-"), func(t *testing.T) {
			t.Parallel()
			in := newInstance(t, role)
			dir := filepath.Dir(in.Config)
			base := text(role, in.Name, dir)
			_, first := startFresh(in, base, true)
			p, second := startFresh(in, base, false)
			but := noiseOf(first, second)
			var all []string
			for _, f := range byRole[role] {
				if f.base == f.other || f.elsewhere == keysElsewhere {
					continue
				}
				all = append(all, f.name)
				before := readOf(in)
				reload(t, p, text(role, in.Name, dir, f.name))
				if f.elsewhere == "" && len(differing(before, readOf(in), but)) == 0 {
					t.Errorf("%s: %s: a reload accepts the change to %s and installs nothing else", role, f.name, f.other)
				}
				reload(t, p, base)
			}
			reload(t, p, text(role, in.Name, dir, all...))
			reloaded := readOf(in)
			p.Interrupt()
			_, started := startFresh(in, text(role, in.Name, dir, all...), true)
			for _, d := range differing(reloaded, started, but) {
				t.Errorf("%s: after a reload, and after a start with the same file: %s", role, d)
			}
		})
	}
}

// Every field that is live at a role on XDP or DPDK is tried here.
func TestEveryLiveFieldIsTried(t *testing.T) {
	for situation, list := range byRole {
		role, _, _ := strings.Cut(situation, "/")
		for _, f := range config.Fields() {
			if slices.Contains(f.Roles, role) && slices.Contains(f.Live, situation) && !slices.ContainsFunc(list, func(tried field) bool { return tried.name == f.Name }) {
				t.Errorf("%s: %s is live and not tried", situation, f.Name)
			}
		}
		for _, tried := range list {
			if !slices.ContainsFunc(config.Fields(), func(f config.Field) bool { return f.Name == tried.name && slices.Contains(f.Live, situation) }) {
				t.Errorf("%s: %s is tried and not live", situation, tried.name)
			}
		}
	}
}
