// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"net/netip"
	"time"

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
	maxServices  = config.MaxSwitchServices
	maxPrefixes  = config.MaxSwitchEntries
	maxTableRows = 65536 // of the whitelist, or of connections
)

// Config is a controller's configuration. FromConfig makes it from a Tidegate configuration; ParseFormer parses
// a file in the former format, whose names the tags are.
type Config struct {
	Instance      string            `yaml:"instance"` // for `tidegate status`
	Metrics       netip.AddrPort    `yaml:"metrics"`  // where counters are served; none if not said
	Program       string            `yaml:"program"`
	Thrift        string            `yaml:"thrift"`        // address of the switch's Thrift port
	Notifications string            `yaml:"notifications"` // path of its notifications socket
	SecretFile    string            `yaml:"secret_file"`
	NextFile      string            `yaml:"next_secret_file"` // replaces secret_file in the first epoch after NextFrom
	NextFrom      time.Time         `yaml:"next_secret_from"`
	Epoch         Duration          `yaml:"epoch"`
	KeyHorizon    Duration          `yaml:"key_horizon"`
	OnStaleKeys   config.StaleKeys  `yaml:"on_stale_keys"`
	Window        Duration          `yaml:"window"` // T_W of the filter; how long a source, or a connection, may be idle
	Crowded       Duration          `yaml:"-"`      // likewise, while a quarter of the table or more is used; 0: Window
	FilterAlarm   float64           `yaml:"-"`      // false positive rate above which there is an alarm
	Learn         *Duration         `yaml:"learn"`  // unknown flows pass for this long after the start; default T_W
	Hops          uint8             `yaml:"hops"`   // TTL of forwarded packets; 0: unchanged
	UnknownRate   int               `yaml:"unknown_rate"`
	Whitelist     string            `yaml:"whitelist"` // auth-*: table | bloom
	Protocol      string            `yaml:"protocol"`  // edge: plain | tagged
	EdgeID        uint8             `yaml:"edge_id"`   // tagged: our number among the servers' edges
	MTU           int               `yaml:"mtu"`       // tagged: of the path to the servers
	Interfaces    []string          `yaml:"-"`         // the switch must have these; empty: any
	Inside        []string          `yaml:"inside"`    // interfaces behind which servers are
	MACs          map[string]string `yaml:"macs"`      // MAC address: interface
	MACLimit      *int              `yaml:"mac_limit"` // addresses learned, of either side; 0: none. 1024 with notifications
	MACAge        Duration          `yaml:"mac_age"`   // an address not seen at its port for this long is forgotten
	PortMACs      map[string]MACs   `yaml:"port_macs"` // by interface: the addresses of frames that leave there
	Services      []Service         `yaml:"services"`
}

// MACs are the addresses that outgoing frames get.
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

// Duration is written in Go's format: 8s, 250ms.
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

// UnknownAll forwards every unknown packet.
const UnknownAll = -1

// LoadSecrets reads the secret, and the next one if there is one; Zero it.
func (c *Config) LoadSecrets() (*keys.Roll, error) {
	return keys.LoadRoll(c.SecretFile, c.NextFile, c.NextFrom, time.Duration(c.Epoch))
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
	if c.FilterAlarm == 0 {
		c.FilterAlarm = filterAlarm
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

// tagLen is how much smaller full segments must be to leave room for a tag.
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

// needsDigests reports whether the controller fills the program's whitelist or flow table.
func (c *Config) needsDigests() bool {
	return c.Program == ProgramCookie ||
		(c.Program == ProgramAuthFull || c.Program == ProgramAuthCookie) && c.Whitelist == "table"
}
