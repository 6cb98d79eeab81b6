// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/schema"
)

// Kind is the kind of a field's value.
type Kind int

// Kinds of values.
const (
	Text     Kind = iota // a word or a path
	Words                // one of Field.Words
	Duration             // from Low to High, nanoseconds
	Number               // from Low to High
	Auto                 // `auto`, or a number from Low to High
	Rate64               // `all`, or a number from Low to High
	Share                // a percentage or a part of one, above 0
	YesNo
	List     // of scalars
	Mapping  // its fields have entries of their own
	Mappings // a list of such
)

// Situations that decide whether a change is live: a role, and its plane or takeover.
const (
	atHost      = RoleHost
	atProxy     = RoleProxy
	atDPDK      = RoleProxy + "/dpdk"
	atProxyP4   = RoleProxy + "/p4"
	atEdge      = RoleEdge
	atEdgeP4    = RoleEdge + "/p4"
	atAdopting  = RoleServer + "/adopt"
	atTranslate = RoleServer + "/translate"
)

// Field is one field of the configuration: what validation, reloads, the document and the schema for
// editors use. The parser reads no field that is not here.
type Field struct {
	Name      string   // as in the file; `dpdk.cores` stands in the mapping `dpdk`, `services.mode` in each service
	Roles     []string // that have it
	Planes    []Plane  // of those roles; empty: every plane. On any other the field is refused
	Kind      Kind
	Words     []string
	Lacks     map[Plane][]string // words that a plane does not offer
	Low, High int64
	Default   string // empty: none; "required"
	// Limits and a default that follow the value of another field, which is read first; they narrow Low and High.
	LowPart, HighPart, DefaultPart Part
	DefaultWith                    With

	Values  string // for readers, where kind and range do not say it
	Example string // in YAML, for the complete examples of the document; empty: the default
	Text    string // what it means, in Markdown
	Former  string // its former name; still read, with a warning

	// What a reload compares (changes.go): the name of an entry there. Empty: the same as Name.
	Change string
	// Live lists the situations in which a reload brings a change into force; elsewhere it needs a restart.
	Live []string
}

// With is the default of a field where another field, which is read first, has a value. The zero value: Default holds always.
type With struct{ Field, Default string }

// Part is a part of the value of another field: 3/8 of `epoch`. The zero value is none.
type Part struct {
	Of       string
	Num, Den int64
}

func (p Part) String() string {
	switch name := "`" + p.Of + "`"; {
	case p.Num == p.Den:
		return name
	case p.Den == 1:
		return fmt.Sprintf("%d × %s", p.Num, name)
	default:
		return fmt.Sprintf("%d/%d of %s", p.Num, p.Den, name)
	}
}

var (
	onXDP  = []Plane{PlaneXDP}
	onDPDK = []Plane{PlaneDPDK}
	onP4   = []Plane{PlaneP4}
	notP4  = []Plane{PlaneXDP, PlaneDPDK}
)

var (
	withServices = []string{RoleHost, RoleProxy, RoleEdge, RoleServer}
	everyRole    = append(slices.Clone(withServices), upstreamRoles...)
	forwarders   = []string{RoleProxy, RoleEdge}
	everywhere4  = []string{atHost, atProxy, atDPDK, atProxyP4, atEdge, atEdgeP4, atAdopting, atTranslate}
	butTranslate = []string{atHost, atProxy, atDPDK, atProxyP4, atEdge, atEdgeP4, atAdopting}
	atSwitch     = []string{atProxyP4, atEdgeP4}
	limited      = []string{atHost, atProxy, atDPDK, atAdopting, atTranslate}
)

//go:generate go run ./gen -md ../../docs/configuration.md -schema ../../docs/configuration.schema.json

// Fields are all fields, in the order of the document.
func Fields() []Field { return fields }

var fields = slices.Concat(commonFields, bgpFieldTable, proxyFieldTable, p4FieldTable, edgeFieldTable, serverFieldTable, serviceFieldTable, upstreamFieldTable)

const clockSkewText = "how much the clocks of machines that share a secret may differ; [cookie-format.md](cookie-format.md#replay) says what it costs"

const keyHorizonText = "how far ahead keys are loaded: the packet path works this long without the daemon"

var commonFields = []Field{
	{Name: "role", Roles: everyRole, Kind: Words, Words: append(slices.Clone(Roles()), upstreamRoles...), Default: "host",
		Text: "what this machine does: protect itself, protect servers behind it ([proxy.md](proxy.md)), do one half of that ([edge.md](edge.md)), or filter near the source ([upstream.md](upstream.md))"},
	{Name: "instance", Roles: everyRole, Kind: Text, Default: "default", Values: "1 to 32 letters, digits, `-` `_` `.`",
		Text: "names the pinned BPF objects and the state file, so that two instances can run side by side"},
	{Name: "interfaces", Example: `[eth0, eth1]`, Roles: append(slices.Clone(withServices), RoleBorderManager), Kind: List, Default: "required", Values: "1 to 64 names", Live: atSwitch,
		Text: "the interfaces that clients' packets arrive by; all must exist in the network namespace in which Tidegate starts (`plane: p4`: be ports of the switch). Border manager (optional): nonces are answered in XDP there"},
	{Name: "secret_file", Example: `/etc/tidegate/secret`, Roles: append(slices.Clone(withServices), RoleBorderManager), Kind: Text, Default: "required", Values: "path", Live: everywhere4,
		Text: "written by `tidegate keygen FILE`; mode 0600 or stricter. A relative path starts at the directory of the configuration"},
	{Name: "epoch", Roles: withServices, Kind: Duration, Low: int64(minEpoch), High: int64(maxEpoch), Default: "8s",
		Text: "how long one key makes cookies; they are accepted in that epoch and the next. Must be the same on all machines that share a secret"},
	{Name: "clock_skew", Roles: []string{RoleHost, RoleProxy}, Planes: notP4, Kind: Duration, High: int64(maxEpoch), HighPart: Part{"epoch", 3, 8}, Default: "0s",
		Text: clockSkewText},
	{Name: "clock_skew", Roles: split, Planes: notP4, Kind: Duration, High: int64(maxEpoch), HighPart: Part{"epoch", 1, 1}, DefaultPart: Part{"epoch", 1, 4},
		Text: clockSkewText},
	{Name: "next_secret_file", Example: `/etc/tidegate/next-secret`, Roles: withServices, Kind: Text, Values: "path", Change: "next_secret", Live: everywhere4,
		Text: "the secret that replaces the current one in the first epoch after `next_secret_from`, also on switches ([p4.md](p4.md)); see [edge.md](edge.md#keys-and-clocks)"},
	{Name: "next_secret_from", Example: `2027-01-31T12:00:00Z`, Roles: withServices, Kind: Text, Values: "a time, for example `2027-01-31T12:00:00Z`", Change: "next_secret", Live: everywhere4,
		Text: "when the next secret takes effect; the same on all machines"},
	{Name: "key_horizon", Roles: []string{RoleHost, RoleServer}, Kind: Duration, High: int64(MaxKeyHorizon), LowPart: Part{"epoch", 2, 1}, Default: "2h",
		Text: keyHorizonText},
	{Name: "key_horizon", Roles: forwarders, Planes: notP4, Kind: Duration, High: int64(MaxKeyHorizon), LowPart: Part{"epoch", 2, 1}, Default: "2h",
		Text: keyHorizonText},
	{Name: "key_horizon", Roles: forwarders, Planes: onP4, Kind: Duration, High: int64(MaxKeyHorizon), LowPart: Part{"epoch", 2, 1}, HighPart: Part{"epoch", maxSwitchEpochs, 1}, DefaultPart: Part{"epoch", maxSwitchEpochs, 1}, Live: atSwitch,
		Text: keyHorizonText + "; the switch's table of keys holds this many epochs"},
	{Name: "on_stale_keys", Roles: withServices, Kind: Words, Words: []string{string(StaleKeysPass), string(StaleKeysDrop)}, Default: "pass", Live: butTranslate,
		Text: "what happens to SYNs when the keys have run out: passed to the kernel unprotected, or dropped"},
	{Name: "synack_limit", Roles: withServices, Planes: onXDP, Kind: Number, Low: 0, High: 100_000_000, Default: "0", Live: []string{atHost, atProxy, atEdge, atAdopting},
		Text: "most SYN-ACKs a second to one /24 (IPv4) or /48 (IPv6) that SYNs claim to come from; further SYNs from there are dropped (`drop_reflected`). `0`: no limit. See [host.md](host.md#never-a-reflector)"},
	{Name: "source_limits", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Mapping, Live: limited,
		Text: "how many connections one source may begin and hold; a source counts only once its cookie has proven its address. See [source-limits.md](source-limits.md)"},
	{Name: "source_limits.new_per_second", Example: `100`, Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 0, High: maxSourceRate, Default: "0", Change: "source_limits", Live: limited,
		Text: "connections a second that one source may begin, and as many at once after a pause; `0`: any number"},
	{Name: "source_limits.concurrent", Example: `1000`, Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 0, High: maxSourceRate, Default: "0", Change: "source_limits", Live: limited,
		Text: "connections that one source may hold at a time; host and server: with sockets of this machine at ports of services; proxy: that it translates and that have carried data. `0`: any number"},
	{Name: "source_limits.prefix_v4", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 8, High: 32, Default: "32", Change: "source_limits", Live: limited,
		Text: "bits of an IPv4 address that make a source"},
	{Name: "source_limits.prefix_v6", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 16, High: 64, Default: "64", Change: "source_limits", Live: limited,
		Text: "bits of an IPv6 address that make a source; one customer has a /64 at least"},
	{Name: "source_limits.action", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Words, Words: schema.LimitWords(), Default: "drop", Change: "source_limits", Live: limited,
		Text: "what happens to a connection above the limit: it is only counted and reported, it is dropped (`drop_source_limit`), or it is answered with a RST"},
	{Name: "allow_list", Example: `/etc/tidegate/allow`, Roles: withServices, Planes: notP4, Kind: Text, Values: "path", Live: []string{atHost, atProxy, atDPDK, atEdge, atAdopting, atTranslate},
		Text: "exceptions from wider prefixes of `deny_list`, one a line; read again at each reload. Such sources are challenged like all others. A server that adopts needs `without_edge: answer` for it. See [lists.md](lists.md)"},
	{Name: "deny_list", Example: `/etc/tidegate/deny`, Roles: withServices, Planes: notP4, Kind: Text, Values: "path", Live: []string{atHost, atProxy, atDPDK, atEdge, atAdopting, atTranslate},
		Text: "prefixes from which SYNs to services are dropped (`drop_denied`), one a line; read again at each reload. A relative path starts at the directory of the configuration. A server that adopts needs `without_edge: answer` for it. See [lists.md](lists.md)"},
	{Name: "drain", Roles: withServices, Planes: notP4, Kind: Duration, Low: 0, High: int64(maxDrain), Default: "2s", Live: everywhere4,
		Text: "when the instance is taken down (`tidegate off`, Ctrl-C), SYNs go to the kernel or the server at once, and for this long cookies still verify and translated connections continue; then the programs detach. SIGTERM leaves everything in place: [lifecycle.md](lifecycle.md)"},
	{Name: "xdp_mode", Roles: append(slices.Clone(withServices), RolePatrol, RoleBorderManager), Planes: onXDP, Kind: Words, Words: []string{string(XDPAuto), string(XDPNative), string(XDPGeneric)}, Default: "auto",
		Text: "`auto`: in the driver if it supports XDP, otherwise in the generic path, which costs more per packet"},
	{Name: "dispatcher", Roles: append(slices.Clone(withServices), RolePatrol), Planes: onXDP, Kind: Words, Words: []string{string(DispatcherAuto), string(DispatcherAlways), string(DispatcherNever)}, Default: "auto",
		Text: "beside other XDP programs on an interface, by the dispatcher of libxdp (xdp-filter, xdp-loader). `auto`: joins a dispatcher that is there; `always`: brings one of its own where there is none, so that others can join later; `never`: the interface must be free. Applies when the program is attached, not to one that is attached already: [neighbours.md](neighbours.md)"},
	{Name: "dispatcher_priority", Roles: append(slices.Clone(withServices), RolePatrol), Planes: onXDP, Kind: Number, Low: 0, High: 1_000_000, Default: "20",
		Text: "the program's place among the components of a dispatcher: those with a smaller number run before it, and what they do not pass it never sees; those with a larger number see what it passes. xdp-filter has 10, most others 50"},
	{Name: "tc_order", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: onXDP, Kind: Words, Words: []string{string(TCFirst), string(TCLast)}, Default: "first",
		Text: "where the TC programs stand among others on the interface when they are attached: before those that are there, or after them. After one that ends with `TC_ACT_OK`, as Cilium's do, nothing is seen and clients are cut off: `last` is for neighbours that pass packets on. Applies when the programs are attached: [neighbours.md](neighbours.md#at-tc)"},
	{Name: "metrics", Example: `127.0.0.1:9464`, Roles: everyRole, Kind: Text, Values: "an address and port, for example `127.0.0.1:9464`",
		Text: "serves the counters of `status`, at most a second old, at `/metrics` for Prometheus ([metrics.md](metrics.md)), 16 requests at once; anybody who can reach this address can read them"},
	{Name: "events", Roles: everyRole, Kind: Mapping, Change: "events",
		Text: "where events of the instance are sent ([events.md](events.md))"},
	{Name: "events.file", Example: `/var/log/tidegate/events`, Roles: everyRole, Kind: Text, Values: "path; `-`: stdout", Change: "events",
		Text: "one line of JSON per event"},
	{Name: "events.webhook", Example: `https://example.org/hook`, Roles: everyRole, Kind: Text, Values: "an address that begins with `https://` or `http://`", Change: "events",
		Text: "each event is posted to this address as JSON"},
	{Name: "events.command", Example: `[/usr/local/bin/tell, on-call]`, Roles: everyRole, Kind: List, Values: "a program with its absolute path, and its arguments", Change: "events",
		Text: "run for each event, with the event as JSON on its standard input"},
	{Name: "events.journal", Roles: everyRole, Kind: YesNo, Default: "no", Change: "events",
		Text: "each event goes to systemd's journal, with fields of its own"},
	{Name: "fleet", Roles: withServices, Kind: Mapping, Change: "fleet",
		Text: "the fleet that this instance belongs to: its desired state overrides the modes of `services`, and where there are lists, adds to them ([fleet.md](fleet.md))"},
	{Name: "fleet.servers", Example: `["tls://192.0.2.10:4222", "tls://192.0.2.11:4222"]`, Roles: withServices, Kind: List, Default: "required", Values: "addresses that begin with `tls://`; with `nats://` on this machine", Change: "fleet",
		Text: "NATS servers, any of which will do"},
	{Name: "fleet.node", Example: `gate1`, Roles: withServices, Kind: Text, Default: "the host's name", Values: "letters, digits, `-` and `_`", Change: "fleet",
		Text: "this node's name in the fleet"},
	{Name: "fleet.ca_file", Example: `/etc/tidegate/fleet-ca.pem`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "certificates of the authority that signs the servers'; none: those of the system"},
	{Name: "fleet.cert_file", Example: `/etc/tidegate/fleet.pem`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "this node's certificate, by which the servers know it"},
	{Name: "fleet.key_file", Example: `/etc/tidegate/fleet.key`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "its key"},
	{Name: "fleet.share", Roles: withServices, Kind: Words, Words: []string{string(ShareOff), string(SharePrepare), string(ShareOn)}, Default: string(ShareOff), Change: "fleet",
		Text: "what services in mode `auto` make of attacks that other nodes see, and whether they are told of this node's: `prepare`: half of the evidence suffices here while another is attacked; `on`: also, what the fleet sees in the sum is answered here ([fleet.md](fleet.md#shared-attacks))"},
	{Name: "fleet.quorum", Roles: withServices, Kind: Number, Low: 1, High: 100, Default: "2", Change: "fleet",
		Text: "how many other nodes must see an attack before their word counts in the sum; with 2, one that lies switches nobody on"},
	{Name: "report_to", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Mapping, Change: "report_to",
		Text: "report offending sources to a filter manager ([upstream.md](upstream.md))"},
	{Name: "report_to.api", Example: `d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a@203.0.113.9:4745`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Text, Default: "required", Values: "path, or `KEY@ADDRESS:PORT`", Change: "report_to",
		Text: "the filter manager's socket, or where one on another machine listens for detectors (`api_listen`), and its key"},
	{Name: "report_to.identity_file", Example: `/etc/tidegate/gate.key`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Text, Values: "path", Change: "report_to",
		Text: "this gate's private key, for one on another machine, made by `tidegate keygen`"},
	{Name: "report_to.connections", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Number, High: maxReportRate, Default: strconv.Itoa(defaultReportConnections), Change: "report_to",
		Text: "handshakes a second that one source may complete with one address; 0: no limit"},
	{Name: "report_to.invalid", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Number, High: maxReportRate, Default: strconv.Itoa(defaultReportInvalid), Change: "report_to",
		Text: "segments a second that carry the codepoint but belong to no connection; 0: no limit"},
	{Name: "report_to.codepoint", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: onXDP, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint), Change: "report_to",
		Text: "the DSCP that means \"true source\""},
	{Name: "remember_sources", Roles: withServices, Planes: onXDP, Kind: YesNo, Default: "no",
		Text: "remember who has completed handshakes lately, for `tidegate why`: the most active 4,096 pairs of source and destination on each processor, and nothing that a source has not proven. See [watching.md](watching.md)"},
	{Name: "services", Roles: withServices, Kind: Mappings, Default: "required", Values: "1 to 10,000", Live: everywhere4,
		Text: "what is protected: see [Services](#services)"},
}

var proxyFieldTable = []Field{
	{Name: "forwarding", Roles: forwarders, Planes: notP4, Kind: Words, Words: []string{string(ForwardRouter), string(ForwardBridge)}, Default: "router",
		Text: "`router` uses the kernel's routes; `bridge` connects two ports without addresses"},
	{Name: "fast_path", Roles: forwarders, Planes: onXDP, Kind: Words, Words: []string{string(FastServices), string(FastAll)}, Default: "services", Live: []string{atProxy, atEdge},
		Text: "what a router forwards in XDP: the TCP of services, or all TCP"},
	{Name: "plane", Roles: []string{RoleProxy}, Kind: Words, Words: []string{string(PlaneXDP), string(PlaneDPDK), string(PlaneP4)}, Default: "xdp",
		Text: "where the packet path runs: in the kernel, in a program with DPDK's drivers ([dpdk.md](dpdk.md)), or in a switch ([p4.md](p4.md))"},
	{Name: "plane", Roles: []string{RoleEdge}, Kind: Words, Words: []string{string(PlaneXDP), string(PlaneP4)}, Default: "xdp",
		Text: "where the packet path runs: in the kernel, or in a switch ([p4.md](p4.md))"},
	{Name: "swap_period", Roles: []string{RoleProxy}, Kind: Duration, Low: int64(minSwapPeriod), High: int64(maxSwapPeriod), Default: "5m", Live: []string{atProxy, atDPDK, atProxyP4},
		Text: "a whitelisted source not seen for one to two of these is forgotten; for connections see `idle_time`"},
	{Name: "max_flows", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxTable, Default: "1048576",
		Text: "translated connections of each family seen between two swaps"},
	{Name: "max_sources", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxTable, Default: "131072",
		Text: "whitelisted sources seen in one period"},
	{Name: "cache_entries", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxCache, Default: "65536",
		Text: "half-open connections that strategy `cache` remembers, 96 B each; rounded up to a power of two"},
	{Name: "whitelist_v4", Roles: []string{RoleProxy}, Planes: onXDP, Kind: Words, Words: []string{string(WhitelistHash), string(WhitelistBitmap)}, Default: "hash",
		Text: "`hash`: a table of `max_sources`; `bitmap`: two bits for every possible IPv4 source, 1 GiB"},
	{Name: "source_prefix_v4", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: 8, High: 32, Default: "32",
		Text: "IPv4 sources are whitelisted by a prefix of this length"},
	{Name: "source_prefix_v6", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: 16, High: 64, Default: "64", Live: []string{atProxy, atDPDK},
		Text: "IPv6 sources are whitelisted by a prefix of this length"},
	{Name: "dpdk", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Mapping, Text: "the fields below"},
	{Name: "dpdk.cores", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Text, Default: "0", Values: "a list of cores, for example `\"0,2-3\"`", Change: "dpdk",
		Text: "the cores that poll; if there are several, the first runs the control thread"},
	{Name: "dpdk.memory_mib", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Number, Low: 64, High: 1 << 20, Default: "256", Change: "dpdk",
		Text: "memory for frame buffers"},
	{Name: "dpdk.huge_pages", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: YesNo, Default: "no", Change: "dpdk",
		Text: "use reserved huge pages instead of ordinary memory"},
	{Name: "dpdk.devices", Example: `["0000:03:00.0", "0000:03:00.1"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "DPDK devices, one for each interface", Change: "dpdk",
		Text: "without it, the interfaces stay the kernel's (AF_PACKET)"},
	{Name: "dpdk.routes", Example: `["192.0.2.0/24 via eth1 02:00:00:00:00:01"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "`\"PREFIX via INTERFACE MAC\"`", Live: []string{atDPDK},
		Text: "next hops of a router whose devices do not belong to the kernel"},
	{Name: "dpdk.addresses", Example: `["198.51.100.1 on eth0"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "`\"IPV4-ADDRESS on INTERFACE\"`", Live: []string{atDPDK},
		Text: "addresses of such a router, for which it answers ARP"},
	{Name: "dpdk.white_bitmap", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: YesNo, Default: "no", Change: "dpdk",
		Text: "keep whitelisted IPv4 sources in a bitmap of the whole address space"},
	{Name: "dpdk.idle_us", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Number, High: 1_000_000, Default: "50", Change: "dpdk",
		Text: "microseconds to sleep when nothing arrives; 0: poll all the time"},
	// RFC 5382, REQ-5: what translates connections may forget one that is idle after this default, for a host
	// need not send keep-alives before two hours (RFC 1122).
	{Name: "idle_time", Roles: []string{RoleProxy}, Kind: Duration, Low: int64(minSwapPeriod), High: int64(maxIdleTime), Default: "2h4m", Live: []string{atProxy, atDPDK, atProxyP4},
		Text: "the minimum time for which an idle connection is remembered if less than a quarter of the flow tables has been filled since the last swap; otherwise that is one `swap_period`"},
}

var (
	split     = []string{RoleEdge, RoleServer}
	takesOver = []string{RoleHost, RoleServer}
)

const cookieLayoutText = "how cookies are encoded, the same on both; `smartcookie`, for networks in which switches are edges, too ([p4.md](p4.md)), offers no options and needs `protocol: plain`"

var edgeFieldTable = []Field{
	{Name: "inside", Example: `[eth1]`, Roles: []string{RoleEdge}, Kind: List, Default: "required", Values: "names from `interfaces`", Live: []string{atEdgeP4},
		Text: "the interfaces that the servers are behind; packets that arrive there are trusted"},
	{Name: "inside", Example: `[eth1]`, Roles: []string{RoleProxy}, Planes: onP4, Kind: List, Default: "required", Values: "names from `interfaces`", Live: []string{atProxyP4},
		Text: "the switch's ports that the servers are behind"},
	{Name: "protocol", Roles: split, Kind: Words, Words: []string{string(ProtocolPlain), string(ProtocolTagged)}, Default: "plain",
		Text: "what edge and servers exchange, the same on both ([split-protocol.md](split-protocol.md)); on a server, `tagged` needs `takeover: translate` (or `auto`, which then means `translate`)"},
	{Name: "cookie_layout", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Words, Words: []string{string(LayoutTidegate), string(LayoutSmartcookie)}, Default: "tidegate",
		Text: cookieLayoutText},
	{Name: "cookie_layout", Roles: []string{RoleEdge}, Planes: onP4, Kind: Words, Words: []string{string(LayoutSmartcookie)}, Default: "smartcookie",
		Text: "the layout that a switch can compute"},
	{Name: "cookie_layout", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(LayoutTidegate), string(LayoutSmartcookie)}, Default: "tidegate",
		Text: cookieLayoutText},
	{Name: "unknown_rate", Roles: []string{RoleEdge}, Kind: Rate64, High: maxUnknownRate, Default: "10000", Live: []string{atEdge, atEdgeP4},
		Text: "packets a second that are forwarded to the servers although they match neither filter nor cookie"},
	{Name: "challenge", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Words, Words: []string{string(ChallengeAll), string(ChallengeWeak)}, Default: "all", Live: []string{atEdge},
		Text: "which SYNs of flows that the filter knows are forwarded, 100 a second and CPU, for the server to challenge (RFC 5961) or to accept: `all`, or `weak`, only those whose cookie could not end an old connection ([edge.md](edge.md))"},
	{Name: "filter_bits", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Number, Low: minFilterBits, High: maxFilterBits, Default: "20",
		Text: "positions of each of the filter's three partitions, as a power of two; 20 are 1.5 MiB in all"},
	{Name: "filter_window", Roles: []string{RoleEdge}, Kind: Duration, Low: int64(minFilterWindow), High: int64(maxFilterWindow), Default: "15s", Live: []string{atEdge, atEdgeP4},
		Text: "the minimum time for which a flow is known after its last packet"},
	{Name: "filter_alarm", Roles: []string{RoleEdge}, Kind: Share, Default: "20%", Live: []string{atEdge, atEdgeP4},
		Text: "`status` and log show an alarm above this false positive rate"},
	{Name: "learning", Roles: []string{RoleEdge}, Kind: Duration, High: int64(maxFilterWindow), DefaultPart: Part{"filter_window", 1, 1}, Live: []string{atEdge, atEdgeP4},
		Text: "how long an edge with a new filter forwards all unknown packets to the servers"},
	{Name: "hops", Roles: []string{RoleEdge}, Kind: Number, High: maxHops, Default: "16", Live: []string{atEdge, atEdgeP4},
		Text: "the TTL of forwarded packets, and the lowest with which they are accepted; 0: TTLs are not changed"},
	{Name: "offers", Example: `[sack, timestamps, ecn]`, Roles: []string{RoleEdge}, Planes: onXDP, Kind: List, Words: []string{"sack", "timestamps", "ecn"}, Default: "all", Values: "`sack`, `timestamps`, `ecn`", Live: []string{atEdge},
		Text: "TCP options that the servers accept"},
	{Name: "edge_id", Example: `1`, Roles: []string{RoleEdge}, Kind: Number, Low: 1, High: MaxEdges, Default: "required with `tagged`", Live: []string{atEdge, atEdgeP4},
		Text: "the number by which the servers' `edges` identify this edge"},
	{Name: "peers", Example: `[198.51.100.3]`, Roles: []string{RoleEdge}, Planes: onXDP, Kind: List, Values: "addresses",
		Text: "other edges, to which this one sends what its filter learns (UDP 21576)"},
}

var serverFieldTable = []Field{
	{Name: "takeover", Roles: []string{RoleHost}, Kind: Words, Words: []string{string(TakeoverAuto), string(TakeoverAdopt), string(TakeoverTranslate)}, Default: "auto",
		Text: "how the kernel gets a connection that a cookie has verified. `adopt`: it creates the socket from the cookie; `translate`: it does a handshake of its own and every segment is translated, for MPTCP listeners, containers and guests, NAT and firewalls that need to see a handshake, and kernels before 6.9; `auto`: each listener is adopted for until something of this machine speaks against it, a rule that can be read or an adoption that made no socket ([host.md](host.md#adopt-or-translate))"},
	{Name: "takeover", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(TakeoverAuto), string(TakeoverAdopt), string(TakeoverTranslate)}, Default: "adopt",
		Text: "likewise, of what edges have verified; `auto`: whichever each listener needs"},
	{Name: "half_open_rate", Roles: []string{RoleHost}, Kind: Number, Low: 0, High: 1000, Default: "0", Live: []string{atHost},
		Text: "SYNs a second, of all services, that are left to the kernel, which remembers them and sends lost SYN-ACKs again; the rest get cookies ([host.md](host.md#half-open-connections)). A flood takes this rate, too"},
	{Name: "without_edge", Example: `answer`, Roles: []string{RoleServer}, Kind: Words, Words: []string{string(WithoutEdgeKernel), string(WithoutEdgeAnswer)}, Default: "kernel",
		Text: "what happens, under `takeover: adopt`, to a SYN that no edge has answered. `kernel`: the kernel answers it, with its own SYN cookies when it is flooded; `answer`: this program answers it as an edge would, and takes the interfaces' XDP place for that ([split-protocol.md](split-protocol.md), \"No edge\")"},
	{Name: "unmatched_ack", Former: "last_line", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(UnmatchedDrop), string(UnmatchedReset)}, Default: "drop", Live: []string{atAdopting},
		Text: "the final ACK check: what happens to an ACK with neither socket nor cookie. `drop`: it is dropped; `reset`: the kernel answers with a RST"},
	{Name: "edges", Example: `["1 198.51.100.2 2001:db8:2::2"]`, Roles: []string{RoleServer}, Kind: List, Default: "required with `tagged`", Values: "`\"ID ADDRESS [ADDRESS]\"` each",
		Text: "where confirmations are sent (UDP 21575), one address for each family"},
	{Name: "max_connections", Roles: takesOver, Kind: Number, Low: 1, High: maxMaxConnections, Default: "262144",
		Text: "connections translated at the same time; 64 bytes each"},
	{Name: "idle_time", Roles: takesOver, Kind: Duration, Low: int64(minIdleTime), High: int64(maxIdleTime), Default: "2h",
		Text: "translating: idle time after which a connection may lose its place to a new one"},
	{Name: "source_share", Roles: takesOver, Kind: Share, Default: "0.1%",
		Text: "share of `max_connections`, at least 8, that one source (an IPv4 address, an IPv6 /56) keeps in a full table; above it, its connections give way to those of sources that have fewer"},
}

var serviceFieldTable = []Field{
	{Name: "services.name", Example: `web`, Roles: withServices, Kind: Text, Default: "required", Values: "1 to 32 letters, digits, `-` `_` `.`", Change: "services", Live: everywhere4,
		Text: "unique; used in `status` and metrics"},
	{Name: "services.prefixes", Example: `[192.0.2.0/24, "2001:db8::/64"]`, Roles: withServices, Kind: List, Default: "host: this machine's addresses, as they are; others: every address", Values: "IPv4 and IPv6 prefixes or addresses", Change: "services", Live: everywhere4,
		Text: "destination addresses. Host bits must be zero; at most 8 different prefix lengths per family over all services, and at most 1,048,576 combinations of prefix and port"},
	{Name: "services.ports", Example: `[80, 443, "8000-8010"]`, Roles: withServices, Kind: List, Default: "required", Values: "numbers and ranges `\"8000-8010\"`", Change: "services", Live: everywhere4,
		Text: "destination ports, each listed once"},
	{Name: "services.mode", Roles: withServices, Kind: Words, Words: []string{string(ModeOff), string(ModeMonitor), string(ModeAuto), string(ModeAlways)}, Default: "auto", Change: "services", Live: everywhere4,
		Text: "`monitor` counts and shows what would have been done; `always` answers every SYN; `auto` does so while an attack lasts ([detector.md](detector.md)). `plane: p4` has no `auto`, and `always` as its default"},
	{Name: "services.strategy", Roles: []string{RoleProxy}, Kind: Words, Words: strategyWords(), Default: "cookie", Change: "services", Live: []string{atProxy, atDPDK},
		Lacks: map[Plane][]string{PlaneP4: {string(StrategyAuthWrong), string(StrategyAuthTTL), string(StrategyCache)}},
		Text:  "how clients are verified ([proxy.md](proxy.md)); on a switch, of all services alike"},
	{Name: "services.first_data", Roles: []string{RoleProxy}, Kind: Words, Words: []string{string(FirstDataZeroWindow), string(FirstDataNotify), string(FirstDataStore)}, Default: "zero-window", Change: "services", Live: []string{atProxy, atDPDK, atProxyP4},
		Lacks: map[Plane][]string{PlaneXDP: {string(FirstDataStore)}, PlaneP4: {string(FirstDataNotify), string(FirstDataStore)}},
		Text:  "when clients may send data that their server is not ready for, under `cookie` and `cache`"},
	{Name: "services.mss", Roles: withServices, Kind: Auto, Low: minMSS, High: maxMSS, Default: "auto", Change: "services", Live: everywhere4,
		Text: "the MSS in our SYN-ACK; `auto`: the kernel's value"},
	{Name: "services.wscale", Roles: withServices, Kind: Auto, High: maxWScale, Default: "auto", Change: "services", Live: everywhere4,
		Text: "window scale, sent only to clients that offer it"},
	{Name: "services.window", Roles: withServices, Kind: Auto, Low: 1, High: math.MaxUint16, Default: "auto", Change: "services", Live: everywhere4,
		Text: "the window in our SYN-ACK"},
	{Name: "services.signed", Example: `pass`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Words, Words: []string{string(SignedAnswer), string(SignedPass), string(SignedDrop)}, Default: "answer", Change: "services", Live: everywhere4,
		Text: "what to do with SYNs that have one well-formed TCP-MD5 or TCP-AO option ([host.md](host.md))"},
	{Name: "services.signed_rate", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Number, Low: 1, High: maxSignedRate, Default: "100", Change: "services", Live: everywhere4,
		Text: "SYNs a second that `signed: pass` lets through; the others are answered"},
	{Name: "services.forwarded", Roles: []string{RoleHost}, Kind: YesNo, Default: "no", Change: "services", Live: everywhere4,
		Text: "`yes`: a rule of this machine (DNAT, redirect) sends connections elsewhere, or to where `takeover: auto` sees no listener: SYNs are answered whatever listens here, and the connections are translated"},
}

func strategyWords() (words []string) {
	for _, s := range Strategies() {
		words = append(words, string(s))
	}
	return words
}

// formerly returns the current name of the field that once had this name; "": none.
func formerly(name string) string {
	for _, f := range fields {
		if f.Former != "" && f.Former == name {
			return f.Name
		}
	}
	return ""
}

// namesOf lists the fields of a mapping that a role may have, in the document's order; in is "" for the
// top level. An empty role: of any with services.
func namesOf(in, role string) (names []string) {
	for _, f := range fields {
		name, nested := strings.CutPrefix(f.Name, in+".")
		if in == "" {
			name, nested = f.Name, !strings.Contains(f.Name, ".")
		}
		if !nested || strings.Contains(name, ".") || slices.Contains(names, name) {
			continue
		}
		if role == "" && slices.ContainsFunc(f.Roles, func(r string) bool { return slices.Contains(withServices, r) }) || slices.Contains(f.Roles, role) {
			names = append(names, name)
		}
	}
	return names
}

// rolesOf are those that have a field of this name.
func rolesOf(name string) (roles []string) {
	for _, f := range fields {
		for _, role := range f.Roles {
			if f.Name == name && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// planesOf are those on which a role has a field of this name; nil: every one.
func planesOf(name, role string) (planes []Plane) {
	for _, f := range fields {
		if f.Name != name || !slices.Contains(f.Roles, role) {
			continue
		}
		if len(f.Planes) == 0 {
			return nil
		}
		planes = append(planes, f.Planes...)
	}
	return planes
}

// hasPlanes reports whether a role has planes to choose from.
func hasPlanes(role string) bool { return slices.Contains(forwarders, role) }

// belong refuses the fields of a mapping that are of other roles, or of other planes; in is "" for the top level.
func (r *reader) belong(fs map[string]field, in string) {
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		it, full := fs[name], name
		if in != "" {
			full = in + "." + name
		}
		if roles := rolesOf(full); !slices.Contains(roles, r.role) {
			owner, cure := "role: "+roles[0], "that role"
			if last := len(roles) - 1; last > 0 {
				owner, cure = "roles "+strings.Join(roles[:last], ", ")+" and "+roles[last], "one of them"
			}
			r.fail(it.line, it.path, "belongs to %s; remove it, or set %s", owner, cure)
			continue
		}
		planes := planesOf(full, r.role)
		if !hasPlanes(r.role) || len(planes) == 0 || slices.Contains(planes, r.plane) {
			continue
		}
		var words []string
		for _, p := range planes {
			if slices.Contains(fieldOf("plane", r.role, r.plane).Words, string(p)) {
				words = append(words, string(p))
			}
		}
		r.fail(it.line, it.path, "plane: %s does not have it; remove it, or set plane: %s", r.plane, wordList(words))
	}
}

// situation returns which of Field.Live's entries a configuration matches.
func (c *Config) situation() string {
	switch {
	case hasPlanes(c.Role) && c.Plane != PlaneXDP && c.Plane != "":
		return c.Role + "/" + string(c.Plane)
	case c.Role == RoleServer && c.Server.Takeover == TakeoverAdopt:
		return atAdopting
	case c.Role == RoleServer:
		return atTranslate
	}
	return c.Role
}

// liveAt reports whether a reload brings a change with this name (changes.go) into force.
func liveAt(change, situation string) bool {
	return slices.ContainsFunc(fields, func(f Field) bool {
		name := f.Change
		if name == "" {
			name = f.Name
		}
		return name == change && slices.Contains(f.Live, situation)
	})
}

// Range describes the values of a field for readers.
func (f *Field) Range() string {
	if f.Values != "" {
		return f.Values
	}
	switch f.Kind {
	case Words:
		return "`" + strings.Join(f.Words, "`, `") + "`"
	case Duration:
		low, high := "`"+short(time.Duration(f.Low))+"`", "`"+short(time.Duration(f.High))+"`"
		if f.LowPart.Of != "" {
			low = f.LowPart.String()
		}
		if f.HighPart.Of != "" {
			high = f.HighPart.String()
		}
		return low + " to " + high
	case Number:
		return strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Auto:
		return "`auto`, " + strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Rate64:
		return "`all`, " + strconv.FormatInt(f.Low, 10) + " to " + strconv.FormatInt(f.High, 10)
	case Share:
		return "a share, above 0"
	case YesNo:
		return "`yes`, `no`"
	}
	return ""
}
