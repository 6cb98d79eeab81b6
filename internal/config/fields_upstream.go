// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"time"
)

// The fields of roles patrol, border-manager and filter-manager (docs/upstream.md). Managers restart
// without loss, too; of a patrol's ports internal/role/patrol says what a reload cannot bring into force.
var (
	patrolOnly = []string{RolePatrol}
	borderOnly = []string{RoleBorderManager}
	filterOnly = []string{RoleFilterManager}
	managers   = []string{RoleBorderManager, RoleFilterManager}
	week       = int64(7 * 24 * time.Hour)
)

var upstreamFieldTable = []Field{
	{Name: "listen", Example: `192.0.2.1:4747`, Roles: upstreamRoles, Kind: Text, Default: "required; patrol: none", Values: "an address and port",
		Text: "where the filtering protocol's messages arrive. Border managers identify a filter manager by this address. A border manager's XDP program (`interfaces`) answers at this address, so it must be one, not `0.0.0.0` or `::`. A patrol that listens needs `identity_file` and `managers`, too"},
	{Name: "identity_file", Example: `/etc/tidegate/identity.key`, Roles: upstreamRoles, Kind: Text, Default: "required; patrol, filter-manager: none", Values: "path",
		Text: "this instance's private key, written by `tidegate keygen`; `tidegate filter key FILE` prints its public key"},
	{Name: "codepoint", Roles: upstreamRoles, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint),
		Text: "the DSCP that marks a packet whose source address a patrol has checked; the same in all networks that filter for each other"},

	{Name: "ports", Live: []string{RolePatrol}, Example: `[{interface: eth1, side: customers, queue: 1gbit}, {interface: eth0, side: upstream, neighbour: legacy}]`, Roles: patrolOnly, Kind: Mappings, Default: "required", Values: "a list of mappings with the fields below",
		Text: "the patrol's ports"},
	{Name: "ports.interface", Roles: patrolOnly, Kind: Text, Default: "required", Values: "a name", Change: "ports",
		Text: "the port's interface"},
	{Name: "ports.side", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Words, Words: []string{string(SideCustomers), string(SideUpstream)}, Default: "required", Change: "ports",
		Text: "whether the port leads to customers or out of the network"},
	{Name: "ports.neighbour", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Words, Words: []string{string(NeighbourTerminus), string(NeighbourLegacy), string(NeighbourTrue)}, Default: string(NeighbourTerminus), Change: "ports",
		Text: "of an upstream port: what happens to the codepoint of packets that arrive there. `terminus`, for a neighbour that has patrols: it is kept; `legacy`, for one that has none: it is cleared; `true`, for one whose sources are known to be true: it is set"},
	{Name: "ports.queue", Roles: patrolOnly, Kind: Text, Values: "a rate such as `100mbit`", Change: "ports",
		Text: "outgoing packets are shaped to this rate, in two queues: packets with the codepoint leave first"},
	{Name: "forwarding", Roles: patrolOnly, Kind: Words, Words: []string{string(ForwardKernel), string(ForwardBridge)}, Default: "kernel",
		Text: "`kernel`: the kernel forwards what passes; `bridge`: it goes straight to the other of two ports"},
	{Name: "sources", Example: `[198.51.100.0/24, "2001:db8:1::/48"]`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: List, Values: "prefixes",
		Text: "source addresses that customers may use; packets from customers with others are dropped (`drop_spoofed`)"},
	{Name: "sources_file", Example: `/etc/tidegate/sources`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Values: "path of a file with a prefix on each line",
		Text: "more of `sources`, from a file"},
	{Name: "check_sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: YesNo, Default: "yes",
		Text: "`no`: sources are not checked, because another box of this network does it, and the codepoint of customers' packets is kept"},
	{Name: "managers", Example: `[d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]`, Roles: patrolOnly, Kind: List, Values: "public keys",
		Text: "public keys of the border managers that may install filters"},
	{Name: "max_filters", Roles: patrolOnly, Kind: Number, Low: 1000, High: MaxFilters, Default: "1048576",
		Text: "the most filters at a time"},
	{Name: "exceptions", Example: `[{src: 198.51.100.53/32, dst: 192.0.2.0/24}]`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Mappings, Values: "a list of mappings with the fields below",
		Text: "traffic that no filter may drop; each needs `src`, `dst`, or both"},
	{Name: "exceptions.src", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Default: "any, if there is `dst`", Values: "a prefix", Change: "exceptions",
		Text: "source addresses"},
	{Name: "exceptions.dst", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Default: "any, if there is `src`", Values: "a prefix", Change: "exceptions",
		Text: "destination addresses"},
	{Name: "plain", Roles: patrolOnly, Kind: Number, High: 63, Default: "0",
		Text: "the DSCP that replaces `codepoint` where it is cleared"},

	{Name: "bindings", Example: `/etc/tidegate/bindings`, Roles: managers, Live: managers, Kind: Text, Default: "this or `signed_bindings`", Values: "path",
		Text: "a file that says which managers speak for which prefixes ([upstream.md](upstream.md))"},
	{Name: "signed_bindings", Example: `{anchors: /etc/tidegate/anchors.yaml, store: /var/lib/tidegate/bindings, key: /etc/tidegate/manager.key, listen: "203.0.113.9:4142", neighbours: ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a@192.0.2.1:4142"], publish: [/etc/tidegate/our-binding.cbor]}`, Roles: managers, Kind: Mapping, Default: "this or `bindings`", Values: "a mapping with the fields below",
		Text: "the same from signed records, which managers pass on to each other ([bindings.md](bindings.md))"},
	{Name: "signed_bindings.anchors", Roles: managers, Kind: Text, Default: "required", Values: "path", Change: "signed_bindings",
		Text: "a file with the authorities whose signatures count"},
	{Name: "signed_bindings.store", Roles: managers, Kind: Text, Default: "required", Values: "path", Change: "signed_bindings",
		Text: "the directory in which verified records are kept"},
	{Name: "signed_bindings.key", Roles: managers, Kind: Text, Default: "none; required with any of the three below", Values: "path", Change: "signed_bindings",
		Text: "this manager's private key, made by `tidegate binding keygen FILE`"},
	{Name: "signed_bindings.listen", Roles: managers, Kind: Text, Values: "an address and port", Change: "signed_bindings",
		Text: "where other managers connect"},
	{Name: "signed_bindings.neighbours", Roles: managers, Kind: List, Values: "`KEY@ADDRESS:PORT` each", Change: "signed_bindings",
		Text: "the managers to connect to"},
	{Name: "signed_bindings.publish", Roles: managers, Kind: List, Values: "paths", Change: "signed_bindings",
		Text: "records of this network, for managers to pass on"},
	{Name: "patrols", Example: `[{name: west, address: "192.0.2.10:4748", key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, prefixes: [198.51.100.0/24]}]`, Roles: borderOnly, Live: borderOnly, Kind: Mappings, Default: "required", Values: "a list of mappings with the fields below",
		Text: "the patrols, and the customers behind each"},
	{Name: "patrols.name", Roles: borderOnly, Live: borderOnly, Kind: Text, Default: "required", Values: "1 to 32 letters, digits, `-` `_` `.`", Change: "patrols",
		Text: "the patrol's name in `status` and metrics"},
	{Name: "patrols.address", Roles: borderOnly, Live: borderOnly, Kind: Text, Default: "required", Values: "an address and port", Change: "patrols",
		Text: "the patrol's `listen`"},
	{Name: "patrols.key", Roles: borderOnly, Live: borderOnly, Kind: Text, Default: "required", Values: "64 hex digits", Change: "patrols",
		Text: "the public key of its `identity_file`; `tidegate filter key FILE` prints it"},
	{Name: "patrols.prefixes", Roles: borderOnly, Live: borderOnly, Kind: List, Default: "required", Values: "prefixes", Change: "patrols",
		Text: "addresses of the customers behind it"},
	{Name: "rate", Roles: borderOnly, Live: borderOnly, Kind: Number, High: 1e9, Default: strconv.Itoa(DefaultFilterRate),
		Text: "filters a second that one network may request; 0: no limit, neither for filters nor for proofs ([ifp.md](ifp.md))"},
	{Name: "protect", Example: `[192.0.2.1/32]`, Roles: borderOnly, Live: borderOnly, Kind: List, Values: "prefixes",
		Text: "addresses that no filter may match, whatever its action"},

	{Name: "own", Example: `[203.0.113.0/24]`, Roles: filterOnly, Live: filterOnly, Kind: List, Default: "required", Values: "prefixes",
		Text: "destinations for which this manager may request filters"},
	{Name: "never", Example: `[192.0.2.0/24]`, Roles: filterOnly, Live: filterOnly, Kind: List, Values: "prefixes",
		Text: "sources that are never filtered"},
	{Name: "api", Example: `/run/tidegate/filters.sock`, Roles: filterOnly, Kind: Text, Default: "the instance's socket", Values: "path",
		Text: "where detectors and `tidegate filter` reach it ([upstream.md](upstream.md))"},
	{Name: "api_listen", Example: `203.0.113.9:4745`, Roles: filterOnly, Kind: Text, Values: "an address and port",
		Text: "where detectors on other machines reach it, by mutual TLS; needs `identity_file` and `detectors`"},
	{Name: "detectors", Example: `[{name: ids, key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, filters: 10000}]`, Roles: filterOnly, Live: filterOnly, Kind: Mappings, Values: "a list of mappings with the fields below",
		Text: "the detectors that may connect there"},
	{Name: "detectors.name", Roles: filterOnly, Live: filterOnly, Kind: Text, Default: "required", Values: "1 to 32 letters, digits, `-` `_` `.`", Change: "detectors",
		Text: "the detector's name; its filters are listed under `tls:NAME`"},
	{Name: "detectors.key", Roles: filterOnly, Live: filterOnly, Kind: Text, Default: "required", Values: "64 hex digits", Change: "detectors",
		Text: "the public key of its `identity_file`; `tidegate filter key FILE` prints it"},
	{Name: "detectors.filters", Roles: filterOnly, Live: filterOnly, Kind: Number, Low: 1, High: 1 << 22, Default: "100000", Change: "detectors",
		Text: "the most filters that it may have at a time; one that is installed in several networks counts once for each"},
	{Name: "filters_file", Example: `/var/lib/tidegate/filters.db`, Roles: filterOnly, Kind: Text, Default: "a file beside the state file, lost at the next boot", Values: "path",
		Text: "where requested filters are kept across restarts"},
	{Name: "expires", Roles: filterOnly, Live: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "10m",
		Text: "how long a filter lasts, unless its request says otherwise"},
	{Name: "floor", Roles: filterOnly, Live: filterOnly, Kind: Number, High: 1 << 23, Default: "0",
		Text: "a filter that matches fewer packets a second than this, over 10 s, expires; rounded down to a power of two. 0: filters expire by time only"},
	{Name: "idle", Roles: filterOnly, Live: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "2m",
		Text: "a filter that matches nothing for this long is removed"},
	{Name: "watch", Roles: filterOnly, Live: filterOnly, Kind: Duration, Low: int64(time.Second), High: int64(time.Hour), Default: "10s",
		Text: "how often the filters' counters are read"},
	{Name: "proof", Roles: filterOnly, Live: filterOnly, Kind: YesNo, Default: "yes",
		Text: "whether border managers are asked for signed results"},
	{Name: "suricata", Example: `[/var/log/suricata/eve.json]`, Roles: filterOnly, Kind: List, Values: "paths",
		Text: "Suricata's EVE files, whose alerts become requests for filters ([upstream.md](upstream.md))"},
}
