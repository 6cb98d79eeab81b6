// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"time"
)

// The fields of roles patrol, border-manager and filter-manager (docs/upstream.md). Managers restart
// without loss; of a patrol's ports internal/role/patrol says what a reload cannot bring into force.
var (
	patrolOnly = []string{RolePatrol}
	borderOnly = []string{RoleBorderManager}
	filterOnly = []string{RoleFilterManager}
	managers   = []string{RoleBorderManager, RoleFilterManager}
	week       = int64(7 * 24 * time.Hour)
)

var upstreamFieldTable = []Field{
	{Name: "listen", Example: `192.0.2.1:4747`, Roles: upstreamRoles, Kind: Text, Default: "required; patrol: none", Values: "an address and port",
		Text: "where requests arrive. Border managers identify a filter manager by this address; at a patrol it needs `identity_file` and `managers`"},
	{Name: "identity_file", Example: `/etc/tidegate/identity.key`, Roles: []string{RolePatrol, RoleBorderManager}, Kind: Text, Default: "required; patrol: none", Values: "path",
		Text: "the private key, written by `tidegate keygen`; `tidegate filter key FILE` prints its public key"},
	{Name: "codepoint", Roles: upstreamRoles, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint),
		Text: "the DSCP that means \"true source\""},

	{Name: "ports", Live: []string{RolePatrol}, Example: `[{interface: eth1, side: customers, queue: 1gbit}, {interface: eth0, side: upstream, neighbour: legacy}]`, Roles: patrolOnly, Kind: Mapping, Default: "required", Values: "list of `interface`, `side`, `neighbour`, `queue`",
		Text: "`side`: `customers` or `upstream`; `neighbour` of an upstream port: `terminus` keeps the codepoint (default), `legacy` clears it, `true` sets it; `queue`: two queues shaped to this rate (`100mbit`) for outgoing packets. Another `interface` or `queue` needs a restart"},
	{Name: "forwarding", Roles: patrolOnly, Kind: Words, Words: []string{string(ForwardKernel), string(ForwardBridge)}, Default: "kernel",
		Text: "frames are handed to the kernel, or go straight to the other of two ports"},
	{Name: "sources", Example: `[198.51.100.0/24, "2001:db8:1::/48"]`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: List, Values: "prefixes",
		Text: "source addresses that customers may use"},
	{Name: "sources_file", Example: `/etc/tidegate/sources`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Values: "path of a file with a prefix on each line",
		Text: "the same, from a file"},
	{Name: "check_sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: YesNo, Default: "yes",
		Text: "`no`: sources are checked elsewhere in this network, and codepoints are kept"},
	{Name: "managers", Example: `[d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]`, Roles: patrolOnly, Kind: List, Values: "public keys",
		Text: "public keys of the border managers that may install filters"},
	{Name: "max_filters", Roles: patrolOnly, Kind: Number, Low: 1000, High: MaxFilters, Default: "1048576",
		Text: "size of the filter table"},
	{Name: "exceptions", Example: `[{src: 198.51.100.53/32}]`, Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Mapping, Values: "list of `src`, `dst`",
		Text: "traffic to which no filter applies"},
	{Name: "plain", Roles: patrolOnly, Kind: Number, High: 63, Default: "0",
		Text: "the DSCP that replaces `codepoint` where it is cleared"},

	{Name: "bindings", Example: `/etc/tidegate/bindings`, Roles: managers, Kind: Text, Default: "this or `signed_bindings`", Values: "path",
		Text: "which managers are bound to which prefixes, from a file"},
	{Name: "signed_bindings", Example: `{anchors: /etc/tidegate/anchors.yaml, store: /var/lib/tidegate/bindings, key: /etc/tidegate/manager.key, listen: "203.0.113.9:4142", neighbours: ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a@192.0.2.1:4142"], publish: [/etc/tidegate/our-binding.cbor]}`, Roles: managers, Kind: Mapping, Default: "this or `bindings`", Values: "`anchors`, `store`, `key`, `listen`, `neighbours`, `publish`",
		Text: "the same, signed and flooded between managers ([bindings.md](bindings.md))"},
	{Name: "patrols", Example: `[{name: west, address: "192.0.2.10:4748", key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, prefixes: [198.51.100.0/24]}]`, Roles: borderOnly, Kind: Mapping, Default: "required", Values: "list of `name`, `address`, `key`, `prefixes`",
		Text: "the patrols, and the customers behind each"},
	{Name: "rate", Roles: borderOnly, Kind: Number, High: 1e9, Default: strconv.Itoa(DefaultFilterRate),
		Text: "filters a second that one network may request; 0: no limit, and none for proofs either"},
	{Name: "protect", Example: `[192.0.2.1/32]`, Roles: borderOnly, Kind: List, Values: "prefixes",
		Text: "addresses that no filter may match, whatever its action"},

	{Name: "own", Example: `[203.0.113.0/24]`, Roles: filterOnly, Kind: List, Default: "required", Values: "prefixes",
		Text: "destinations that this manager is responsible for"},
	{Name: "never", Example: `[192.0.2.0/24]`, Roles: filterOnly, Kind: List, Values: "prefixes",
		Text: "sources that are never filtered"},
	{Name: "api", Example: `/run/tidegate/filters.sock`, Roles: filterOnly, Kind: Text, Default: "the instance's socket", Values: "path",
		Text: "where detectors and `tidegate filter` reach it ([upstream.md](upstream.md))"},
	{Name: "expires", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "10m",
		Text: "how long a filter lasts"},
	{Name: "idle", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "2m",
		Text: "a filter that matches nothing for this long is removed"},
	{Name: "watch", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: int64(time.Hour), Default: "10s",
		Text: "interval between readings of the counters"},
	{Name: "proof", Roles: filterOnly, Kind: YesNo, Default: "yes",
		Text: "request signed results"},
	{Name: "suricata", Example: `[/var/log/suricata/eve.json]`, Roles: filterOnly, Kind: List, Values: "paths",
		Text: "EVE files to follow"},
}
