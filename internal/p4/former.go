// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"tidegate/internal/config"
)

// The former format of configurations for switches, before plane: p4, with its own names and defaults. It is still
// read, with a warning, and will be removed in the next major version.

// instanceName makes names valid as file names.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}$`)

// ParseFormer reads a file in the former format. A relative path of a secret starts at the file's directory.
func ParseFormer(path string, data []byte) (*Config, error) {
	c, err := parseFormer(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, file := range []*string{&c.SecretFile, &c.NextFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	return c, nil
}

func parseFormer(data []byte) (*Config, error) {
	c := &Config{Thrift: "127.0.0.1:9090", Epoch: Duration(8 * time.Second), KeyHorizon: Duration(5 * time.Minute),
		OnStaleKeys: config.StaleKeysPass, Whitelist: "table",
		Protocol: ProtocolPlain, MTU: 1500, Program: ProgramEdge}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(c); err != nil {
		return nil, err
	}
	c.Complete()
	return c, c.check()
}

func (c *Config) check() error {
	within := func(name string, d Duration, low, high time.Duration) error {
		if time.Duration(d) < low || time.Duration(d) > high {
			return fmt.Errorf("%s: %v is not within %v and %v; choose another", name, time.Duration(d), low, high)
		}
		return nil
	}
	for _, err := range []error{
		within("epoch", c.Epoch, time.Second, time.Minute),
		within("key_horizon", c.KeyHorizon, time.Duration(c.Epoch), 64*time.Duration(c.Epoch)),
		within("window", c.Window, time.Second, time.Hour),
		within("learn", *c.Learn, 0, time.Hour),
		within("mac_age", c.MACAge, time.Second, 24*time.Hour),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case !slices.Contains(Programs(), c.Program):
		return fmt.Errorf("program: %q is unknown; want one of %v", c.Program, Programs())
	case c.SecretFile == "":
		return fmt.Errorf("secret_file is missing; make one with `tidegate keygen`")
	case (c.NextFile == "") != c.NextFrom.IsZero():
		return fmt.Errorf("next_secret_file and next_secret_from go together; the same on all machines, such as 2027-01-31T12:00:00Z")
	case c.OnStaleKeys != config.StaleKeysPass && c.OnStaleKeys != config.StaleKeysDrop:
		return fmt.Errorf("on_stale_keys: %q is unknown; want pass or drop", c.OnStaleKeys)
	case c.Whitelist != "table" && c.Whitelist != "bloom":
		return fmt.Errorf("whitelist: %q is unknown; want table or bloom", c.Whitelist)
	case !slices.Contains([]string{"", ProtocolPlain, ProtocolTagged}, c.Protocol):
		return fmt.Errorf("protocol: %q is unknown; want plain or tagged", c.Protocol)
	case c.Protocol == ProtocolTagged && (c.Program != ProgramEdge || c.EdgeID == 0 || c.MTU < 576 || c.MTU > 65535):
		return fmt.Errorf("protocol: tagged is the program edge's, needs edge_id: 1 to 255, and an mtu of 576 to 65535")
	case c.UnknownRate < UnknownAll:
		return fmt.Errorf("unknown_rate: %d; want packets a second, or -1 for all", c.UnknownRate)
	case c.needsDigests() && c.Notifications == "":
		return fmt.Errorf("notifications is missing; name the path of simple_switch --notifications-addr ipc://PATH")
	case *c.MACLimit < 0 || *c.MACLimit > macLimitMost || len(c.MACs) > maxMACs:
		return fmt.Errorf("mac_limit: %d, macs: %d; this plane learns 0 to %d on either side and takes %d in macs", *c.MACLimit, len(c.MACs), macLimitMost, maxMACs)
	case *c.MACLimit > 0 && c.Notifications == "":
		return fmt.Errorf("mac_limit: addresses are learned by notifications; name their path, or set mac_limit: 0")
	case !instanceName.MatchString(c.Instance):
		return fmt.Errorf("instance: %q; want 1 to 32 letters, digits, - _ or ., and a letter, digit or _ first", c.Instance)
	case len(c.Inside) == 0:
		return fmt.Errorf("inside is missing; name the interfaces behind which the servers are")
	case len(c.Services) == 0 || len(c.Services) > maxServices:
		return fmt.Errorf("services: %d of them; this plane takes 1 to %d", len(c.Services), maxServices)
	}
	addresses := slices.Collect(maps.Keys(c.MACs))
	for _, m := range c.PortMACs {
		addresses = append(addresses, m.Src, m.Dst)
	}
	for _, mac := range addresses {
		if hw, err := net.ParseMAC(mac); err != nil || len(hw) != 6 {
			return fmt.Errorf("macs: %q is not a MAC address; want 02:00:00:00:00:01", mac)
		}
	}
	return c.checkServices()
}

func (c *Config) checkServices() error {
	seen := map[string]bool{}
	entries := 0
	for _, s := range c.Services {
		entries += len(s.Prefixes) * len(s.Ports)
		switch {
		case s.Name == "" || seen[s.Name]:
			return fmt.Errorf("services: name %q is missing or given twice; give each its own", s.Name)
		case len(s.Ports) == 0:
			return fmt.Errorf("service %s: ports is missing; list at least one", s.Name)
		case !slices.Contains([]config.Mode{config.ModeOff, config.ModeMonitor, config.ModeAlways}, s.Mode):
			return fmt.Errorf("service %s: mode %q is unknown; want off, monitor or always", s.Name, s.Mode)
		case *s.WScale > 15:
			return fmt.Errorf("service %s: wscale %d; want 0 to 14, or 15 for none", s.Name, *s.WScale)
		case entries > maxPrefixes:
			return fmt.Errorf("services: more than %d entries, prefixes times ports; join some", maxPrefixes)
		}
		seen[s.Name] = true
	}
	return nil
}

// renamed maps the former names of fields to the present ones.
var renamed = []struct{ was, now string }{
	{"program", "role: edge, or role: proxy with services.strategy; and plane: p4"},
	{"window", "filter_window (edge), swap_period (auth-*) or idle_time (cookie)"},
	{"learn", "learning"},
	{"thrift", "p4.thrift"},
	{"notifications", "p4.notifications"},
	{"whitelist", "p4.whitelist"},
	{"mtu", "p4.mtu"},
	{"macs", "p4.macs"},
	{"mac_limit", "p4.mac_limit"},
	{"mac_age", "p4.mac_age"},
	{"port_macs", "p4.port_macs"},
}

// FormerNames lists the present names of the fields of a file in the former format.
func FormerNames(data []byte) string {
	var top map[string]any
	if err := yaml.Unmarshal(data, &top); err != nil {
		return ""
	}
	var list []string
	for _, f := range renamed {
		if _, there := top[f.was]; there {
			list = append(list, f.was+": "+f.now)
		}
	}
	for _, f := range []struct{ name, write string }{{"hops", "hops: 0"}, {"unknown_rate", "unknown_rate: 0"}, {"key_horizon", "key_horizon: 5m"}} {
		if _, there := top[f.name]; !there {
			list = append(list, "to keep the former default, "+f.write)
		}
	}
	return strings.Join(list, "; ")
}
