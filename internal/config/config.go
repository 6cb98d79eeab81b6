// SPDX-License-Identifier: Apache-2.0

// Package config turns a YAML file into a validated Config. It must not
// depend on BPF, on maps or on the machine it runs on: whatever can be checked
// in a file alone is checked here, and nothing else.
//
// Every error names the file, the line, the field and the fix, in one line.
package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/schema"
)

// Limits of a configuration. The maps of the packet paths are sized by them.
const (
	MaxServices      = 10_000
	MaxPrefixLengths = 8       // different prefix lengths per address family
	MaxPrefixEntries = 1 << 20 // prefixes times ports, tg_prefixes in bpf/lib/maps.h
	MaxInterfaces    = 64
	MaxKeyHorizon    = 24 * time.Hour

	minEpoch = time.Second
	maxEpoch = time.Minute
	maxDrain = 10 * time.Minute

	maxFileBytes = 16 << 20
	maxIfNameLen = 15 // IFNAMSIZ less its NUL
	maxNameLen   = 32
)

// Mode says what is done with the packets of a service.
type Mode string

const (
	ModeOff     Mode = "off"     // nothing is done, nothing is counted
	ModeMonitor Mode = "monitor" // counted, with what would have been done
	ModeAlways  Mode = "always"  // every SYN is answered with a cookie
	ModeAuto    Mode = "auto"    // while the detector sees an attack
)

// StaleKeys says what happens to SYNs when the keys have run out.
type StaleKeys string

const (
	StaleKeysPass StaleKeys = "pass" // SYNs go to the kernel: fail open
	StaleKeysDrop StaleKeys = "drop" // SYNs are dropped: fail closed
)

// Dispatcher says when the XDP program runs behind a dispatcher of libxdp, beside others.
type Dispatcher string

// Uses of a dispatcher.
const (
	DispatcherAuto   Dispatcher = "auto" // where there is one
	DispatcherAlways Dispatcher = "always"
	DispatcherNever  Dispatcher = "never"
)

// TCOrder says where TC programs are attached among others.
type TCOrder string

// Orders of TC programs.
const (
	TCFirst TCOrder = "first"
	TCLast  TCOrder = "last"
)

// XDPMode says where in the receive path the XDP program is attached.
type XDPMode string

const (
	XDPAuto    XDPMode = "auto" // native where the driver has it, else generic
	XDPNative  XDPMode = "native"
	XDPGeneric XDPMode = "generic"
)

// Roles that this version has.
const (
	RoleHost   = "host"   // protect this machine
	RoleProxy  = "proxy"  // protect servers behind this box
	RoleEdge   = "edge"   // answer and filter for servers of role server behind this box
	RoleServer = "server" // take over the connections that edges have verified
)

// HasLists reports whether the packet path looks sources up in allow and deny lists (docs/lists.md): where SYNs are answered,
// except in a switch.
func (c *Config) HasLists() bool {
	switch c.Role {
	case RoleHost:
		return true
	case RoleProxy, RoleEdge:
		return c.Plane != PlaneP4
	case RoleServer:
		return c.Server.Takeover != TakeoverAdopt || c.Server.WithoutEdge == WithoutEdgeAnswer
	}
	return false
}

// Roles lists those of this version.
func Roles() []string { return []string{RoleHost, RoleProxy, RoleEdge, RoleServer} }

// Forwarding says what kind of box a proxy is.
type Forwarding string

const (
	ForwardRouter Forwarding = "router" // by the kernel's routes
	ForwardBridge Forwarding = "bridge" // two ports, no addresses
)

// Strategy says how a proxy treats the clients of a service.
type Strategy string

const (
	StrategyCookie     Strategy = "cookie"
	StrategyAuthCookie Strategy = "auth-cookie"
	StrategyAuthFull   Strategy = "auth-full"
	StrategyAuthWrong  Strategy = "auth-wrong"
	StrategyAuthTTL    Strategy = "auth-ttl"
	StrategyCache      Strategy = "cache"
)

// Strategies lists all of them.
func Strategies() []Strategy {
	words := schema.StrategyWords()
	list := make([]Strategy, len(words))
	for i, w := range words {
		list[i] = Strategy(w)
	}
	return list
}

// Translates reports whether connections under this strategy are translated.
func (s Strategy) Translates() bool { return s == StrategyCookie || s == StrategyCache }

// FirstData says when clients may send data that their server is not ready for.
type FirstData string

const (
	FirstDataZeroWindow FirstData = "zero-window" // not before: the SYN-ACK's window is zero
	FirstDataNotify     FirstData = "notify"      // at once; they are notified of what is lost by it
	FirstDataStore      FirstData = "store"       // at once; they are kept for the server (plane: dpdk)
)

// WhitelistV4 says how IPv4 sources are whitelisted.
type WhitelistV4 string

const (
	WhitelistHash   WhitelistV4 = "hash"   // a table with room for max_sources
	WhitelistBitmap WhitelistV4 = "bitmap" // two bits for every possible source
)

// Proxy is what only the role proxy has.
type Proxy struct {
	Forwarding     Forwarding
	FastPath       FastPath
	SwapPeriod     time.Duration // what is not seen for one to two of these is forgotten
	IdleTime       time.Duration // how long connections are remembered if there is room
	MaxFlows       int           // translated connections of each family, seen within one period
	MaxSources     int           // whitelisted sources, likewise
	WhitelistV4    WhitelistV4
	SourcePrefixV4 int // whitelisted together
	SourcePrefixV6 int
	CacheEntries   int // half-open connections that strategy cache remembers
	DPDK           DPDK
	Inside         []string // plane: p4: interfaces that servers are behind
}

// FastPath says what a router forwards ahead of the kernel.
type FastPath string

const (
	FastServices FastPath = "services" // the TCP of protected services; the rest is the kernel's
	FastAll      FastPath = "all"      // every TCP segment
)

// Config is a whole, validated configuration.
type Config struct {
	Role         string
	Plane        Plane // of a proxy or an edge; empty otherwise
	Instance     string
	Interfaces   []string
	SecretFile   string
	NextSecret   NextSecret
	Epoch        time.Duration
	KeyHorizon   time.Duration
	Drain        time.Duration
	OnStaleKeys  StaleKeys
	SynackLimit  int // answers a second to one /24 or /48; 0: any number
	SourceLimits SourceLimits
	Detector     Detector
	AllowList    string // a path; internal/sourcelist
	DenyList     string
	Fleet        Fleet
	XDPMode      XDPMode
	Dispatcher   Dispatcher
	Priority     int // among the components of a dispatcher
	TCOrder      TCOrder
	ClockSkew    time.Duration  // between machines that share the secret
	Metrics      netip.AddrPort // where counters are served; the zero value: nowhere
	Events       Events
	Proxy        Proxy
	Edge         Edge
	Server       Server
	Tagged       Tagged
	P4           P4
	ReportTo     ReportTo
	Remember     bool // who has completed handshakes, for `why`
	BGP          BGP
	Services     []Service
	FleetSources int    // connections a second of one source at all nodes of the fleet together, above which it is named; 0: nobody asks
	Warnings     Errors // of what the file writes in an old form
	FleetLeftOut string // why services of the fleet are not among Services, although this node should have them; empty: they are

	// Of the roles of upstream.go; nil for all others.
	Patrol *Patrol
	Border *Border
	Filter *Filter
}

// Service is one protected service. Prefixes are masked and never empty: a
// service that names none has 0.0.0.0/0 and ::/0.
type Service struct {
	Name      string
	Prefixes  []netip.Prefix
	Ports     []PortRange
	Mode      Mode
	Strategy  Strategy  // of a proxy; empty otherwise
	FirstData FirstData // of a proxy whose strategy translates; empty otherwise
	// Of a proxy whose strategy translates: clients speak first, so their first segment completes the server's handshake.
	DeferAccept bool
	MSS         AutoInt
	WScale      AutoInt
	Window      AutoInt
	Offer       *Offer // what the fleet has edges offer where the three above are `auto`; nil: nothing
	// SYNs with one well-formed TCP-MD5 or TCP-AO option; SignedRate is how many a second pass.
	SignedSYNs SignedSYNs
	SignedRate int
	Forwarded  bool // of a host: a rule of this machine redirects connections
	Line       int  // where the service begins in the file
}

// SignedSYNs says what happens to signed SYNs, which only the server can judge.
type SignedSYNs string

const (
	SignedAnswer SignedSYNs = "answer" // like any other: a peer that signs will not accept the answer
	SignedPass   SignedSYNs = "pass"   // to the server, up to SignedRate a second
	SignedDrop   SignedSYNs = "drop"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// Contains reports whether p lies in the range.
func (r PortRange) Contains(p uint16) bool { return r.First <= p && p <= r.Last }

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// AutoInt is a number, or `auto`: then Value is 0 and has no meaning.
type AutoInt struct {
	Auto  bool
	Value int
}

func (a AutoInt) String() string {
	if a.Auto {
		return "auto"
	}
	return strconv.Itoa(a.Value)
}

// Load reads and validates the file at path. A relative secret_file is
// relative to the directory of the configuration.
func Load(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a configuration with -c FILE", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: is not a regular file of at most %d MiB; name a YAML file", path, maxFileBytes>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if next := &c.NextSecret.File; *next != "" && !filepath.IsAbs(*next) {
		*next = filepath.Join(filepath.Dir(path), *next)
	}
	if c.SecretFile != "" && !filepath.IsAbs(c.SecretFile) {
		c.SecretFile = filepath.Join(filepath.Dir(path), c.SecretFile)
	}
	return c, nil
}

// Parse validates data; name is what errors call it.
func Parse(name string, data []byte) (*Config, error) {
	r := &reader{file: name}
	c := r.document(data)
	if len(r.errs) == 0 {
		r.checkServices(c.Services)
	}
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		return nil, r.errs
	}
	c.Warnings = r.warns
	return c, nil
}
