// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"tidegate/internal/config"
	"tidegate/internal/keys"
)

// Programs that this package drives.
const (
	ProgramEdge       = "edge"
	ProgramAuthFull   = "auth-full"
	ProgramAuthCookie = "auth-cookie"
	ProgramCookie     = "cookie"
)

// Protocols between edge and server (docs/split-protocol.md).
const (
	ProtocolPlain  = "plain"
	ProtocolTagged = "tagged"
)

const tagLen = 20 // core/tag.h

// Programs lists them.
func Programs() []string {
	return []string{ProgramEdge, ProgramAuthFull, ProgramAuthCookie, ProgramCookie}
}

// Sizes of the programs; p4/v1model/types.p4.
const (
	maxServices  = 63
	maxPrefixes  = 4096  // entries of each address family, prefixes times ports
	maxTableRows = 65536 // of the whitelist, or of connections
)

// instanceName keeps names fit for a file.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}$`)

// Config is what `tidegate p4 run` is told.
type Config struct {
	Instance      string            `yaml:"instance"` // for `tidegate status`
	Metrics       netip.AddrPort    `yaml:"metrics"`  // where counters are served; none if not said
	Program       string            `yaml:"program"`
	Thrift        string            `yaml:"thrift"`        // address of the switch's Thrift port
	Notifications string            `yaml:"notifications"` // path of its notifications socket
	SecretFile    string            `yaml:"secret_file"`
	NextFile      string            `yaml:"next_secret_file"` // takes its place in the first epoch after NextFrom
	NextFrom      time.Time         `yaml:"next_secret_from"`
	Epoch         Duration          `yaml:"epoch"`
	KeyHorizon    Duration          `yaml:"key_horizon"`
	OnStaleKeys   config.StaleKeys  `yaml:"on_stale_keys"`
	Window        Duration          `yaml:"window"` // T_W of the filter; how long a source, or a connection, may be idle
	Learn         *Duration         `yaml:"learn"`  // unknown flows pass for so long after the start; T_W if not said
	Hops          uint8             `yaml:"hops"`   // TTL of what goes on; 0: as it is
	UnknownRate   int               `yaml:"unknown_rate"`
	Whitelist     string            `yaml:"whitelist"` // auth-*: table | bloom
	Protocol      string            `yaml:"protocol"`  // edge: plain | tagged
	EdgeID        uint8             `yaml:"edge_id"`   // tagged: our number among the servers' edges
	MTU           int               `yaml:"mtu"`       // tagged: of the way to the servers
	Inside        []string          `yaml:"inside"`    // interfaces behind which servers are
	MACs          map[string]string `yaml:"macs"`      // MAC address: interface
	MACLimit      *int              `yaml:"mac_limit"` // addresses learned, of either side; 0: none. 1024 with notifications
	MACAge        Duration          `yaml:"mac_age"`   // an address not seen at its port for so long is forgotten
	PortMACs      map[string]MACs   `yaml:"port_macs"` // by interface: the addresses of what leaves there
	Services      []Service         `yaml:"services"`
}

// MACs are the addresses that frames get on their way out.
type MACs struct {
	Src string `yaml:"src"`
	Dst string `yaml:"dst"`
}

// Service is one protected service.
type Service struct {
	ID       uint8          `yaml:"-"` // its number on the switch; 0: by its place in the list
	Name     string         `yaml:"name"`
	Prefixes []netip.Prefix `yaml:"prefixes"`
	Ports    []uint16       `yaml:"ports"`
	Mode     config.Mode    `yaml:"mode"`
	MSSv4    uint16         `yaml:"mss_v4"`
	MSSv6    uint16         `yaml:"mss_v6"`
	Window   uint16         `yaml:"window"`
	WScale   *uint8         `yaml:"wscale"` // 15: never
}

// Duration is written as Go writes it: 8s, 250ms.
type Duration time.Duration

// UnmarshalYAML reads one.
func (d *Duration) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	*d = Duration(v)
	return err
}

// UnknownAll lets every unknown packet go on.
const UnknownAll = -1

// LoadConfig reads and validates a file. A relative secret_file is taken to be
// relative to the file's directory.
func LoadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(data)
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

// LoadSecrets reads the secret, and the next one if there is one; Zero it.
func (c *Config) LoadSecrets() (*keys.Roll, error) {
	return keys.LoadRoll(c.SecretFile, c.NextFile, c.NextFrom, time.Duration(c.Epoch))
}

// ParseConfig validates data and fills in what it leaves out.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{Thrift: "127.0.0.1:9090", Epoch: Duration(8 * time.Second), KeyHorizon: Duration(5 * time.Minute),
		OnStaleKeys: config.StaleKeysPass, Whitelist: "table",
		Protocol: ProtocolPlain, MTU: 1500, Program: ProgramEdge}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(c); err != nil {
		return nil, err
	}
	c.Complete()
	return c, c.check()
}

// Complete fills in what was left out.
func (c *Config) Complete() {
	if c.Window == 0 {
		c.Window = Duration(5 * time.Minute)
		if c.Program == ProgramEdge {
			c.Window = Duration(15 * time.Second)
		}
	}
	if c.Learn == nil {
		c.Learn = &c.Window
	}
	if c.Instance == "" {
		c.Instance = "default"
	}
	if c.MACAge == 0 {
		c.MACAge = Duration(5 * time.Minute)
	}
	if c.MACLimit == nil {
		limit := 0
		if c.Notifications != "" {
			limit = 1024
		}
		c.MACLimit = &limit
	}
	for i := range c.Services {
		c.Services[i].complete(c.tagLen())
		if c.Services[i].ID == 0 {
			c.Services[i].ID = uint8(i + 1)
		}
	}
}

// tagLen is by how much full segments must be smaller, to have room for a tag.
func (c *Config) tagLen() uint16 {
	if c.Protocol == ProtocolTagged {
		return tagLen
	}
	return 0
}

func (s *Service) complete(tagLen uint16) {
	if len(s.Prefixes) == 0 {
		s.Prefixes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	for i := range s.Prefixes {
		s.Prefixes[i] = s.Prefixes[i].Masked()
	}
	if s.Mode == "" {
		s.Mode = config.ModeAlways
	}
	if s.MSSv4 == 0 {
		s.MSSv4 = 1460 - tagLen
	}
	if s.MSSv6 == 0 {
		s.MSSv6 = 1440 - tagLen
	}
	if s.Window == 0 {
		s.Window = 65535
	}
	if s.WScale == nil {
		seven := uint8(7)
		s.WScale = &seven
	}
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
			return fmt.Errorf("macs: %q is no MAC address; want 02:00:00:00:00:01", mac)
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

// needsDigests tells whether the program's whitelist or flow table is the controller's.
func (c *Config) needsDigests() bool {
	return c.Program == ProgramCookie ||
		(c.Program == ProgramAuthFull || c.Program == ProgramAuthCookie) && c.Whitelist == "table"
}
