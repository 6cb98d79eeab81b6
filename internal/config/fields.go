// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"

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
	detecting    = []string{atHost, atProxy, atDPDK, atEdge, atAdopting, atTranslate}
)

//go:generate go run ./gen -md ../../docs/configuration.md -schema ../../docs/configuration.schema.json

// Fields are all fields, in the order of the document.
func Fields() []Field { return fields }

var fields = slices.Concat(commonFields, bgpFieldTable, proxyFieldTable, p4FieldTable, edgeFieldTable, serverFieldTable, serviceFieldTable, upstreamFieldTable)

const clockSkewText = "how much the clocks of machines that share a secret may differ; what a larger value costs: [cookie-format.md](cookie-format.md#replay)"

const keyHorizonText = "how far ahead keys are loaded, which is how long the packet path works without the daemon"

var commonFields = []Field{
	{Name: "role", Roles: everyRole, Kind: Words, Words: append(slices.Clone(Roles()), upstreamRoles...), Default: "host",
		Text: "what this machine does: protect itself, protect servers behind it ([proxy.md](proxy.md)), do one half of that ([edge.md](edge.md)), or filter near the source ([upstream.md](upstream.md))"},
	{Name: "instance", Roles: everyRole, Kind: Text, Default: "default", Values: "1 to 32 letters, digits, `-` `_` `.`",
		Text: "names the pinned BPF objects, the state file and the socket, so that several instances can run side by side; commands take it as `--instance`"},
	{Name: "interfaces", Example: `[eth0, eth1]`, Roles: append(slices.Clone(withServices), RoleBorderManager), Kind: List, Default: "required", Values: "1 to 64 names", Live: atSwitch,
		Text: "the interfaces on which clients' packets arrive; all must exist in the network namespace in which Tidegate starts (`plane: p4`: they are the switch's ports). Optional for a border manager, which answers nonces there in XDP"},
	{Name: "secret_file", Example: `/etc/tidegate/secret`, Roles: append(slices.Clone(withServices), RoleBorderManager), Kind: Text, Default: "required", Values: "path", Live: everywhere4,
		Text: "the secret from which all keys are made: 32 bytes, written by `tidegate keygen FILE`. Mode 0600 or stricter"},
	{Name: "epoch", Roles: withServices, Kind: Duration, Low: int64(minEpoch), High: int64(maxEpoch), Default: "8s",
		Text: "how long cookies are made with one key; they are accepted in that epoch and the next. Must be the same on all machines that share a secret"},
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
		Text: "what happens to SYNs when the loaded keys have expired. `pass`: they go to the kernel, or on to the server, unprotected; `drop`: they are dropped"},
	{Name: "synack_limit", Roles: withServices, Planes: onXDP, Kind: Number, Low: 0, High: 100_000_000, Default: "0", Live: []string{atHost, atProxy, atEdge, atAdopting},
		Text: "the most SYN-ACKs a second that are sent to one /24 (IPv4) or /48 (IPv6); further SYNs that claim to come from there are dropped (`drop_reflected`). `0`: no limit. See [host.md](host.md#never-a-reflector)"},
	{Name: "source_limits", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Mapping, Live: limited,
		Text: "how many connections one source may begin and hold; a source counts only once its cookie has proven its address. See [source-limits.md](source-limits.md)"},
	{Name: "source_limits.new_per_second", Example: `100`, Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 0, High: maxSourceRate, Default: "0", Change: "source_limits", Live: limited,
		Text: "connections a second that one source may begin; after a pause it may begin as many at once. `0`: any number"},
	{Name: "source_limits.concurrent", Example: `1000`, Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 0, High: maxSourceRate, Default: "0", Change: "source_limits", Live: limited,
		Text: "connections that one source may hold at a time. Host and server count sockets of this machine at the ports of services; a proxy counts connections that it translates and that have carried data. `0`: any number"},
	{Name: "source_limits.prefix_v4", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 8, High: 32, Default: "32", Change: "source_limits", Live: limited,
		Text: "length of the IPv4 prefix that counts as one source"},
	{Name: "source_limits.prefix_v6", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Number, Low: 16, High: 64, Default: "64", Change: "source_limits", Live: limited,
		Text: "length of the IPv6 prefix that counts as one source; a customer has at least a /64"},
	{Name: "source_limits.action", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: notP4, Kind: Words, Words: schema.LimitWords(), Default: "drop", Change: "source_limits", Live: limited,
		Text: "what happens to a connection above the limit. `report`: it is only counted and reported; `drop`: its ACK is dropped (`drop_source_limit`); `reset`: it is answered with a RST"},
	{Name: "detector", Roles: withServices, Planes: notP4, Kind: Mapping, Live: detecting,
		Text: "when the detector of mode `auto` sees an attack; the same for all services. See [detector.md](detector.md#settings)"},
	{Name: "detector.sensitivity", Roles: withServices, Planes: notP4, Kind: Words, Words: []string{string(SensitivityLow), string(SensitivityNormal), string(SensitivityHigh)}, Default: string(SensitivityNormal), Change: "detector", Live: detecting,
		Text: "how much evidence begins an attack: `low` twice as much, `high` half"},
	{Name: "detector.hard", Roles: withServices, Planes: notP4, Kind: Number, Low: minDetectorHard, High: maxDetectorHard, Default: "5000", Change: "detector", Live: detecting,
		Text: "SYNs a second that nobody completes which are an attack, however many others are completed"},
	{Name: "detector.idle_rate", Roles: withServices, Planes: notP4, Kind: Number, Low: 1, High: maxIdleRate, Default: "50", Change: "detector", Live: detecting,
		Text: "a service with fewer completed handshakes a second counts as having these; smaller numbers make idle services more sensitive, also to port scans"},
	{Name: "detector.calm", Roles: withServices, Planes: notP4, Kind: Duration, Low: int64(minCalm), High: int64(maxCalm), Default: "30s", Change: "detector", Live: detecting,
		Text: "how long there must be no sign of an attack until it has ended; doubled, up to 10 minutes, when one begins within an hour of the end of the last"},
	{Name: "allow_list", Example: `/etc/tidegate/allow`, Roles: withServices, Planes: notP4, Kind: Text, Values: "path", Live: []string{atHost, atProxy, atDPDK, atEdge, atAdopting, atTranslate},
		Text: "a file with exceptions from wider prefixes of `deny_list`, one prefix on each line; read again at each reload. Such sources must prove their address like all others. A server that adopts needs `without_edge: answer` for it. See [lists.md](lists.md)"},
	{Name: "deny_list", Example: `/etc/tidegate/deny`, Roles: withServices, Planes: notP4, Kind: Text, Values: "path", Live: []string{atHost, atProxy, atDPDK, atEdge, atAdopting, atTranslate},
		Text: "a file with prefixes from which SYNs to services are dropped (`drop_denied`), one prefix on each line; read again at each reload. A server that adopts needs `without_edge: answer` for it. See [lists.md](lists.md)"},
	{Name: "drain", Roles: withServices, Planes: notP4, Kind: Duration, Low: 0, High: int64(maxDrain), Default: "2s", Live: everywhere4,
		Text: "when the instance is taken down (`tidegate off`, Ctrl-C), SYNs go to the kernel or the server at once, and for this long cookies still verify and translated connections continue; then the programs detach. SIGTERM leaves everything in place: [lifecycle.md](lifecycle.md)"},
	{Name: "xdp_mode", Roles: append(slices.Clone(withServices), RolePatrol, RoleBorderManager), Planes: onXDP, Kind: Words, Words: []string{string(XDPAuto), string(XDPNative), string(XDPGeneric)}, Default: "auto",
		Text: "where the XDP program runs. `native`: in the driver, or the start fails; `generic`: in the kernel's receive path, which costs more per packet; `auto`: native if the driver supports it, otherwise generic"},
	{Name: "dispatcher", Roles: append(slices.Clone(withServices), RolePatrol), Planes: onXDP, Kind: Words, Words: []string{string(DispatcherAuto), string(DispatcherAlways), string(DispatcherNever)}, Default: "auto",
		Text: "whether other XDP programs may be on the same interface, by the dispatcher of libxdp (xdp-filter, xdp-loader). `auto`: joins a dispatcher that is there; `always`: also brings its own dispatcher where there is none, so that others can join later; `never`: the interface must be free. Takes effect when the program is attached next: [neighbours.md](neighbours.md)"},
	{Name: "dispatcher_priority", Roles: append(slices.Clone(withServices), RolePatrol), Planes: onXDP, Kind: Number, Low: 0, High: 1_000_000, Default: "20",
		Text: "the program's place in a dispatcher: programs with a smaller number run before it, and it sees only what they pass; those with a larger number see only what it passes. xdp-filter has 10, most others 50"},
	{Name: "tc_order", Roles: []string{RoleHost, RoleProxy, RoleServer}, Planes: onXDP, Kind: Words, Words: []string{string(TCFirst), string(TCLast)}, Default: "first",
		Text: "where the TC programs are attached: before those that are on the interface, or after them. Use `last` only if those pass packets on: behind a program that ends with `TC_ACT_OK`, as Cilium's do, Tidegate sees nothing and clients are cut off. Takes effect when the programs are attached next: [neighbours.md](neighbours.md#at-tc)"},
	{Name: "metrics", Example: `127.0.0.1:9464`, Roles: everyRole, Kind: Text, Values: "an address and port, for example `127.0.0.1:9464`",
		Text: "where `/metrics` is served for Prometheus ([metrics.md](metrics.md)): the counters of `status`, at most a second old, to 16 requests at a time. Anybody who can reach this address can read them"},
	{Name: "events", Roles: everyRole, Kind: Mapping, Change: "events",
		Text: "where the instance's events go ([events.md](events.md)): any of the fields below"},
	{Name: "events.file", Example: `/var/log/tidegate/events`, Roles: everyRole, Kind: Text, Values: "path; `-`: stdout", Change: "events",
		Text: "each event is appended to this file as one line of JSON"},
	{Name: "events.webhook", Example: `https://example.org/hook`, Roles: everyRole, Kind: Text, Values: "an address that begins with `https://` or `http://`", Change: "events",
		Text: "each event is posted to this address as JSON"},
	{Name: "events.command", Example: `[/usr/local/bin/tell, on-call]`, Roles: everyRole, Kind: List, Values: "a program with its absolute path, and its arguments", Change: "events",
		Text: "run for each event, with the event as JSON on its standard input"},
	{Name: "events.journal", Roles: everyRole, Kind: YesNo, Default: "no", Change: "events",
		Text: "each event goes to systemd's journal, with fields of its own"},
	{Name: "fleet", Roles: withServices, Kind: Mapping, Change: "fleet",
		Text: "the fleet that this instance belongs to: its desired state overrides the modes of `services` and adds to the lists ([fleet.md](fleet.md)). The fields below"},
	{Name: "fleet.servers", Example: `["tls://192.0.2.10:4222", "tls://192.0.2.11:4222"]`, Roles: withServices, Kind: List, Default: "required", Values: "addresses that begin with `tls://`; with `nats://` on this machine", Change: "fleet",
		Text: "the fleet's NATS servers; one that can be reached is enough"},
	{Name: "fleet.node", Example: `gate1`, Roles: withServices, Kind: Text, Default: "the host's name", Values: "letters, digits, `-` and `_`", Change: "fleet",
		Text: "this node's name in the fleet"},
	{Name: "fleet.ca_file", Example: `/etc/tidegate/fleet-ca.pem`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "certificates of the authority that has signed the servers' certificates; none: the system's authorities"},
	{Name: "fleet.cert_file", Example: `/etc/tidegate/fleet.pem`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "this node's certificate, by which the servers recognize it"},
	{Name: "fleet.key_file", Example: `/etc/tidegate/fleet.key`, Roles: withServices, Kind: Text, Values: "path", Change: "fleet",
		Text: "the private key of `cert_file`"},
	{Name: "fleet.share", Roles: withServices, Kind: Words, Words: []string{string(ShareOff), string(SharePrepare), string(ShareOn)}, Default: string(ShareOff), Change: "fleet",
		Text: "sharing of attacks with other nodes, for services in mode `auto`. `off`: this node neither reports its attacks nor hears of others'; `prepare`: while another node is attacked, half of the usual evidence switches this one on; `on`: in addition, an attack that only the fleet's sum shows switches it on ([fleet.md](fleet.md#shared-attacks))"},
	{Name: "fleet.quorum", Roles: withServices, Kind: Number, Low: 1, High: 100, Default: "2", Change: "fleet",
		Text: "how many other nodes must report an attack before their reports count in the sum; with 2, a single lying node switches nobody on"},
	{Name: "report_to", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Mapping, Change: "report_to",
		Text: "the filter manager to which offending sources are reported ([upstream.md](upstream.md)). The fields below"},
	{Name: "report_to.api", Example: `d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a@203.0.113.9:4745`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Text, Default: "required", Values: "path, or `KEY@ADDRESS:PORT`", Change: "report_to",
		Text: "the filter manager's socket on this machine; or for one on another machine, its public key and the address where it listens for detectors (`api_listen`)"},
	{Name: "report_to.identity_file", Example: `/etc/tidegate/gate.key`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Text, Values: "path", Change: "report_to",
		Text: "this gate's private key, made by `tidegate keygen`; required if the filter manager is on another machine"},
	{Name: "report_to.connections", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Number, High: maxReportRate, Default: strconv.Itoa(defaultReportConnections), Change: "report_to",
		Text: "a source that completes more handshakes a second with one address is reported; 0: none is"},
	{Name: "report_to.invalid", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Number, High: maxReportRate, Default: strconv.Itoa(defaultReportInvalid), Change: "report_to",
		Text: "a source that sends more segments a second that carry the codepoint but belong to no connection is reported; 0: none is"},
	{Name: "report_to.codepoint", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint), Change: "report_to",
		Text: "the DSCP that marks a packet whose source address a patrol has checked; the same in all networks that filter for each other"},
	{Name: "remember_sources", Roles: withServices, Planes: notP4, Kind: YesNo, Default: "no",
		Text: "whether to remember, for `tidegate why`, who has completed handshakes lately: on each CPU or core the most active 4,096 pairs of source and destination, of sources that have proven their address. See [watching.md](watching.md)"},
	{Name: "services", Roles: withServices, Kind: Mappings, Default: "required", Values: "1 to 10,000", Live: everywhere4,
		Text: "what is protected: see [Services](#services). On plane `xdp` a start makes room for 512, or for four times as many as it has; a reload that needs more is refused, and a restart makes the room"},
}

var proxyFieldTable = []Field{
	{Name: "forwarding", Roles: forwarders, Planes: notP4, Kind: Words, Words: []string{string(ForwardRouter), string(ForwardBridge)}, Default: "router",
		Text: "how the box forwards. `router`: by the kernel's routes; `bridge`: between two ports that have no addresses"},
	{Name: "fast_path", Roles: forwarders, Planes: onXDP, Kind: Words, Words: []string{string(FastServices), string(FastAll)}, Default: "services", Live: []string{atProxy, atEdge},
		Text: "what a router forwards in XDP without the kernel's stack. `services`: the TCP of services; `all`: all TCP"},
	{Name: "plane", Roles: []string{RoleProxy}, Kind: Words, Words: []string{string(PlaneXDP), string(PlaneDPDK), string(PlaneP4)}, Default: "xdp",
		Text: "where the packet path runs: in the kernel, in a program with DPDK's drivers ([dpdk.md](dpdk.md)), or in a switch ([p4.md](p4.md))"},
	{Name: "plane", Roles: []string{RoleEdge}, Kind: Words, Words: []string{string(PlaneXDP), string(PlaneP4)}, Default: "xdp",
		Text: "where the packet path runs: in the kernel, or in a switch ([p4.md](p4.md))"},
	{Name: "swap_period", Roles: []string{RoleProxy}, Kind: Duration, Low: int64(minSwapPeriod), High: int64(maxSwapPeriod), Default: "5m", Live: []string{atProxy, atDPDK, atProxyP4},
		Text: "a whitelisted source is forgotten when it has not been seen for one to two of these periods; for connections see `idle_time`"},
	{Name: "max_flows", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxTable, Default: "1048576",
		Text: "places for translated connections, of IPv4 and of IPv6 each; what becomes of connections beyond that: [proxy.md](proxy.md#tables)"},
	{Name: "max_sources", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxTable, Default: "131072",
		Text: "places for whitelisted sources, of IPv4 and of IPv6 each (`plane: dpdk`: of both together)"},
	{Name: "cache_entries", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: minTable, High: maxCache, Default: "65536",
		Text: "half-open connections that strategy `cache` remembers, 96 bytes each; rounded up to a power of two"},
	{Name: "whitelist_v4", Roles: []string{RoleProxy}, Planes: onXDP, Kind: Words, Words: []string{string(WhitelistHash), string(WhitelistBitmap)}, Default: "hash",
		Text: "how whitelisted IPv4 sources are kept. `hash`: in a table of `max_sources`; `bitmap`: as two bits for every possible address, 1 GiB"},
	{Name: "source_prefix_v4", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: 8, High: 32, Default: "32",
		Text: "length of the prefix by which IPv4 sources are whitelisted"},
	{Name: "source_prefix_v6", Roles: []string{RoleProxy}, Planes: notP4, Kind: Number, Low: 16, High: 64, Default: "64", Live: []string{atProxy, atDPDK},
		Text: "length of the prefix by which IPv6 sources are whitelisted"},
	{Name: "dpdk", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Mapping, Text: "the fields below"},
	{Name: "dpdk.cores", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Text, Default: "0", Values: "a list of cores, for example `\"0,2-3\"`", Change: "dpdk",
		Text: "the CPUs of the program; if there are several, the first has the control thread and the others forward"},
	{Name: "dpdk.memory_mib", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Number, Low: 64, High: 1 << 20, Default: "256", Change: "dpdk",
		Text: "memory for frame buffers, in MiB"},
	{Name: "dpdk.huge_pages", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: YesNo, Default: "no", Change: "dpdk",
		Text: "use reserved huge pages instead of ordinary memory"},
	{Name: "dpdk.devices", Example: `["0000:03:00.0", "0000:03:00.1"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "DPDK devices, one for each interface", Change: "dpdk",
		Text: "the devices that the program takes from the kernel, in the order of `interfaces`; without them it reads the kernel's interfaces (AF_PACKET)"},
	{Name: "dpdk.routes", Example: `["192.0.2.0/24 via eth1 02:00:00:00:00:01"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "`\"PREFIX via INTERFACE MAC\"`", Live: []string{atDPDK},
		Text: "with `devices` and `forwarding: router`: the routes, each with the MAC address of its next hop"},
	{Name: "dpdk.addresses", Example: `["198.51.100.1 on eth0"]`, Roles: []string{RoleProxy}, Planes: onDPDK, Kind: List, Values: "`\"IPV4-ADDRESS on INTERFACE\"`", Live: []string{atDPDK},
		Text: "with `devices` and `forwarding: router`: the box's own addresses, for which it answers ARP"},
	{Name: "dpdk.white_bitmap", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: YesNo, Default: "no", Change: "dpdk",
		Text: "keep whitelisted IPv4 sources as two bits for every possible address, 1.5 GiB"},
	{Name: "dpdk.idle_us", Roles: []string{RoleProxy}, Planes: onDPDK, Kind: Number, High: 1_000_000, Default: "50", Change: "dpdk",
		Text: "how long to sleep when nothing arrives, in microseconds; 0: poll all the time"},
	// RFC 5382, REQ-5: what translates connections may forget one that is idle after this default, for a host
	// need not send keep-alives before two hours (RFC 1122).
	{Name: "idle_time", Roles: []string{RoleProxy}, Kind: Duration, Low: int64(minSwapPeriod), High: int64(maxIdleTime), Default: "2h4m", Live: []string{atProxy, atDPDK, atProxyP4},
		Text: "how long an idle connection is remembered at least, while new connections fill less than a quarter of the flow tables in this time; otherwise at least one `swap_period` ([proxy.md](proxy.md#tables))"},
}

var (
	split     = []string{RoleEdge, RoleServer}
	takesOver = []string{RoleHost, RoleServer}
)

const cookieLayoutText = "how cookies are encoded; the same on edges and servers. `smartcookie` is for networks in which switches are edges, too ([p4.md](p4.md)): clients get no TCP options, and it needs `protocol: plain`"

var edgeFieldTable = []Field{
	{Name: "inside", Example: `[eth1]`, Roles: []string{RoleEdge}, Kind: List, Default: "required", Values: "names from `interfaces`", Live: []string{atEdgeP4},
		Text: "the interfaces towards the servers; packets that arrive there are trusted"},
	{Name: "inside", Example: `[eth1]`, Roles: []string{RoleProxy}, Planes: onP4, Kind: List, Default: "required", Values: "names from `interfaces`", Live: []string{atProxyP4},
		Text: "the switch's ports towards the servers"},
	{Name: "protocol", Roles: split, Kind: Words, Words: []string{string(ProtocolPlain), string(ProtocolTagged)}, Default: "plain",
		Text: "what edges and servers exchange; the same on both ([split-protocol.md](split-protocol.md)). `plain`: packets as they are; `tagged`: the edge adds an option for servers that translate. On a server, `tagged` needs `takeover: translate` (or `auto`, which then means `translate`)"},
	{Name: "cookie_layout", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Words, Words: []string{string(LayoutTidegate), string(LayoutSmartcookie)}, Default: "tidegate",
		Text: cookieLayoutText},
	{Name: "cookie_layout", Roles: []string{RoleEdge}, Planes: onP4, Kind: Words, Words: []string{string(LayoutSmartcookie)}, Default: "smartcookie",
		Text: "the layout that a switch can compute"},
	{Name: "cookie_layout", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(LayoutTidegate), string(LayoutSmartcookie)}, Default: "tidegate",
		Text: cookieLayoutText},
	{Name: "unknown_rate", Roles: []string{RoleEdge}, Kind: Rate64, High: maxUnknownRate, Default: "10000", Live: []string{atEdge, atEdgeP4},
		Text: "packets a second that are forwarded to the servers although they match neither filter nor cookie; `all`: every packet"},
	{Name: "challenge", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Words, Words: []string{string(ChallengeAll), string(ChallengeWeak)}, Default: "all", Live: []string{atEdge},
		Text: "which SYNs of flows that the filter knows are forwarded, at most 100 a second on each CPU, so that the server can challenge (RFC 5961) or accept them. `all`: all; `weak`: only those whose cookie could not end an old connection ([edge.md](edge.md))"},
	{Name: "filter_bits", Roles: []string{RoleEdge}, Planes: onXDP, Kind: Number, Low: minFilterBits, High: maxFilterBits, Default: "20",
		Text: "size of the filter: 1.56 × 2^`filter_bits` bytes, 1.6 MiB with 20. [Capacity](capacity.md) says how many connections that is enough for"},
	{Name: "filter_window", Roles: []string{RoleEdge}, Kind: Duration, Low: int64(minFilterWindow), High: int64(maxFilterWindow), Default: "15s", Live: []string{atEdge, atEdgeP4},
		Text: "how long a flow is known at least after its last packet"},
	{Name: "filter_alarm", Roles: []string{RoleEdge}, Kind: Share, Default: "20%", Live: []string{atEdge, atEdgeP4},
		Text: "share of unknown flows that the filter takes for known ones, above which `status` and events report `filter-saturated`"},
	{Name: "learning", Roles: []string{RoleEdge}, Kind: Duration, High: int64(maxFilterWindow), DefaultPart: Part{"filter_window", 1, 1}, Live: []string{atEdge, atEdgeP4},
		Text: "how long an edge with a new filter forwards all unknown packets to the servers"},
	{Name: "hops", Roles: []string{RoleEdge}, Kind: Number, High: maxHops, Default: "16", Live: []string{atEdge, atEdgeP4},
		Text: "forwarded packets leave with this TTL, and arriving packets with a lower one are dropped (`drop_hops`); 0: TTLs are neither changed nor checked"},
	{Name: "offers", Example: `[sack, timestamps, ecn]`, Roles: []string{RoleEdge}, Planes: onXDP, Kind: List, Words: []string{"sack", "timestamps", "ecn"}, Default: "all", Values: "`sack`, `timestamps`, `ecn`", Live: []string{atEdge},
		Text: "TCP options that the servers support, and that are offered to clients"},
	{Name: "edge_id", Example: `1`, Roles: []string{RoleEdge}, Kind: Number, Low: 1, High: MaxEdges, Default: "required with `tagged`", Live: []string{atEdge, atEdgeP4},
		Text: "the number by which the servers' `edges` identify this edge"},
	{Name: "peers", Example: `[198.51.100.3]`, Roles: []string{RoleEdge}, Planes: onXDP, Kind: List, Values: "addresses",
		Text: "other edges of the same servers, to which this one sends what its filter learns (UDP port 21576)"},
}

var serverFieldTable = []Field{
	{Name: "takeover", Roles: []string{RoleHost}, Kind: Words, Words: []string{string(TakeoverAuto), string(TakeoverAdopt), string(TakeoverTranslate)}, Default: "auto",
		Text: "how the kernel gets a connection whose cookie has been verified. `adopt`: it creates the socket from the cookie; `translate`: it sees a handshake of its own, and every segment is translated: for MPTCP listeners, containers and guests, for NAT and firewalls that must see a handshake, and for kernels before 6.9; `auto`: adopt for each listener, unless a rule of this machine or an adoption that made no socket shows that it does not work there; then translate ([host.md](host.md#adopt-or-translate))"},
	{Name: "takeover", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(TakeoverAuto), string(TakeoverAdopt), string(TakeoverTranslate)}, Default: "adopt",
		Text: "how the kernel gets a connection that an edge has verified: as for [role `host`](#role-host); `auto`: whichever each listener needs"},
	{Name: "half_open_rate", Roles: []string{RoleHost}, Kind: Number, Low: 0, High: 1000, Default: "0", Live: []string{atHost},
		Text: "SYNs a second, over all services, that are left to the kernel, which remembers them and retransmits lost SYN-ACKs; the others get cookies ([host.md](host.md#half-open-connections)). A flood uses up this rate, too"},
	{Name: "without_edge", Example: `answer`, Roles: []string{RoleServer}, Kind: Words, Words: []string{string(WithoutEdgeKernel), string(WithoutEdgeAnswer)}, Default: "kernel",
		Text: "what happens, under `takeover: adopt`, to a SYN that no edge has answered. `kernel`: the kernel answers it, with its own SYN cookies when it is flooded; `answer`: this program answers it as an edge would, which needs the XDP hook of the interfaces ([split-protocol.md](split-protocol.md), \"No edge\")"},
	{Name: "unmatched_ack", Former: "last_line", Roles: []string{RoleServer}, Kind: Words, Words: []string{string(UnmatchedDrop), string(UnmatchedReset)}, Default: "drop", Live: []string{atAdopting},
		Text: "the final ACK check: what happens to an ACK with neither socket nor cookie. `drop`: it is dropped; `reset`: the kernel answers with a RST"},
	{Name: "edges", Example: `["1 198.51.100.2 2001:db8:2::2"]`, Roles: []string{RoleServer}, Kind: List, Default: "required with `tagged`", Values: "`\"ID ADDRESS [ADDRESS]\"` each",
		Text: "the edges by number (`edge_id`), with one address of each family, to which confirmations are sent (UDP port 21575)"},
	{Name: "max_connections", Roles: takesOver, Kind: Number, Low: 1, High: maxMaxConnections, Default: "262144",
		Text: "connections translated at the same time; 64 bytes each"},
	{Name: "idle_time", Roles: takesOver, Kind: Duration, Low: int64(minIdleTime), High: int64(maxIdleTime), Default: "2h",
		Text: "how long a translated connection must be idle before it may lose its place to a new one"},
	{Name: "source_share", Roles: takesOver, Kind: Share, Default: "0.1%",
		Text: "how many of `max_connections`, but at least 8, one source (an IPv4 address, an IPv6 /56) keeps when the table is full; its connections beyond that give way to those of sources that have fewer"},
}

var serviceFieldTable = []Field{
	{Name: "services.name", Example: `web`, Roles: withServices, Kind: Text, Default: "required", Values: "1 to 32 letters, digits, `-` `_` `.`", Change: "services", Live: everywhere4,
		Text: "a unique name, used by commands, `status` and metrics"},
	{Name: "services.prefixes", Example: `[192.0.2.0/24, "2001:db8::/64"]`, Roles: withServices, Kind: List, Default: "host: this machine's addresses at any time; others: every address", Values: "IPv4 and IPv6 prefixes or addresses", Change: "services", Live: everywhere4,
		Text: "destination addresses of SYNs. Host bits must be zero; at most 8 different prefix lengths for each family over all services, and at most 1,048,576 combinations of prefix and port"},
	{Name: "services.ports", Example: `[80, 443, "8000-8010"]`, Roles: withServices, Kind: List, Default: "required", Values: "numbers and ranges `\"8000-8010\"`", Change: "services", Live: everywhere4,
		Text: "destination ports, each listed once"},
	{Name: "services.mode", Roles: withServices, Kind: Words, Words: []string{string(ModeOff), string(ModeMonitor), string(ModeAuto), string(ModeAlways)}, Default: "auto", Change: "services", Live: everywhere4,
		Text: "`off`: SYNs pass as without Tidegate; `monitor`: they pass, and it is counted what would have been done; `auto`: they are answered while an attack lasts ([detector.md](detector.md)); `always`: every SYN is answered. `plane: p4` has no `auto`; its default is `always`"},
	{Name: "services.strategy", Roles: []string{RoleProxy}, Kind: Words, Words: strategyWords(), Default: "cookie", Change: "services", Live: []string{atProxy, atDPDK},
		Lacks: map[Plane][]string{PlaneP4: {string(StrategyAuthWrong), string(StrategyAuthTTL), string(StrategyCache)}},
		Text:  "how clients prove their address ([proxy.md](proxy.md#strategies)); on a switch the same for all services"},
	{Name: "services.first_data", Roles: []string{RoleProxy}, Kind: Words, Words: []string{string(FirstDataZeroWindow), string(FirstDataNotify), string(FirstDataStore)}, Default: "zero-window", Change: "services", Live: []string{atProxy, atDPDK, atProxyP4},
		Lacks: map[Plane][]string{PlaneXDP: {string(FirstDataStore)}, PlaneP4: {string(FirstDataNotify), string(FirstDataStore)}},
		Text:  "with strategy `cookie` or `cache`, what clients may send before the server is ready. `zero-window`: nothing, because the SYN-ACK announces a window of zero; `notify`: data, which the client must send again; `store`: data, which is kept for the server ([proxy.md](proxy.md#first-data))"},
	{Name: "services.defer_accept", Roles: []string{RoleProxy}, Planes: notP4, Kind: YesNo, Default: "no", Change: "services", Live: []string{atProxy, atDPDK},
		Text: "with strategy `cookie` or `cache`, for protocols in which the client speaks first (HTTP, TLS). `yes`: the client's first segment completes the server's handshake, which makes a new connection cheaper for the proxy; a server that speaks first does so about a second later ([proxy.md](proxy.md#deferred-accept)). Under `plane: dpdk` it changes nothing"},
	{Name: "services.mss", Roles: withServices, Kind: Auto, Low: minMSS, High: maxMSS, Default: "auto", Change: "services", Live: everywhere4,
		Text: "the MSS of SYN-ACKs, in bytes. `auto`: on a host what the kernel would say ([host.md](host.md#what-our-syn-ack-says)), at a proxy what the server has offered ([proxy.md](proxy.md#what-servers-offer)), at an edge what the interfaces' MTU allows"},
	{Name: "services.wscale", Roles: withServices, Kind: Auto, High: maxWScale, Default: "auto", Change: "services", Live: everywhere4,
		Text: "the window scale of SYN-ACKs to clients that offer the option; `auto`: on a host what the kernel would say, at a proxy what the server has offered, at edges and servers 7, or what a [fleet](edge.md#options)'s servers publish. If you set it for edges, set it for their servers, too"},
	{Name: "services.window", Roles: withServices, Kind: Auto, Low: 1, High: math.MaxUint16, Default: "auto", Change: "services", Live: everywhere4,
		Text: "the window of SYN-ACKs, in bytes; `auto`: on a host what the kernel would say, elsewhere 64240"},
	{Name: "services.signed", Example: `pass`, Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Words, Words: []string{string(SignedAnswer), string(SignedPass), string(SignedDrop)}, Default: "answer", Change: "services", Live: everywhere4,
		Text: "what happens to SYNs with one well-formed TCP-MD5 or TCP-AO option, as BGP peers send them. `answer`: as for all others; `pass`: they go to the kernel, at most `signed_rate`; `drop`: they are dropped ([host.md](host.md))"},
	{Name: "services.signed_rate", Roles: []string{RoleHost, RoleProxy, RoleEdge}, Planes: notP4, Kind: Number, Low: 1, High: maxSignedRate, Default: "100", Change: "services", Live: everywhere4,
		Text: "SYNs a second that `signed: pass` lets through; the others are answered"},
	{Name: "services.forwarded", Roles: []string{RoleHost}, Kind: YesNo, Default: "no", Change: "services", Live: everywhere4,
		Text: "`yes`: SYNs are answered whether or not something listens on this machine, and the connections are translated: for a rule (DNAT, redirect) that sends them elsewhere, or to where `takeover: auto` sees no listener"},
}

func strategyWords() (words []string) {
	for _, s := range Strategies() {
		words = append(words, string(s))
	}
	return words
}
