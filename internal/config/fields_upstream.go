// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"time"
)

// The fields of roles patrol, border-manager and filter-manager (docs/upstream.md). What of `patrol` a reload
// brings into force is decided field by field in internal/role/patrol; managers restart without loss.
var (
	patrolOnly = []string{RolePatrol}
	borderOnly = []string{RoleBorderManager}
	filterOnly = []string{RoleFilterManager}
	managers   = []string{RoleBorderManager, RoleFilterManager}
	week       = int64(7 * 24 * time.Hour)
)

const (
	changePatrol = "patrol"
	changeBorder = "border manager"
	changeFilter = "filter manager"
)

var upstreamFieldTable = []Field{
	{Name: "listen", Roles: upstreamRoles, Kind: Text, Default: "required; patrol: none", Values: "an address and port", Change: changePatrol,
		Text: "where requests arrive. Border managers identify a filter manager by this address; at a patrol it needs `identity_file` and `managers`"},
	{Name: "identity_file", Roles: []string{RolePatrol, RoleBorderManager}, Kind: Text, Default: "required; patrol: none", Values: "path", Change: changePatrol,
		Text: "the private key, written by `tidegate keygen`; `tidegate filter key FILE` prints its public key"},
	{Name: "codepoint", Roles: upstreamRoles, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint), Change: changePatrol,
		Text: "the DSCP that means \"true source\""},

	{Name: "ports", Roles: patrolOnly, Kind: Mapping, Default: "required", Values: "list of `interface`, `side`, `neighbour`, `queue`", Change: changePatrol,
		Text: "`side`: `customers` or `upstream`; `neighbour` of an upstream port: `terminus` keeps the codepoint (default), `legacy` clears it, `true` sets it; `queue`: two queues shaped to this rate (`100mbit`) for outgoing packets"},
	{Name: "forwarding", Roles: patrolOnly, Kind: Words, Words: []string{string(ForwardKernel), string(ForwardBridge)}, Default: "kernel", Change: changePatrol,
		Text: "frames are handed to the kernel, or go straight to the other of two ports"},
	{Name: "sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: List, Values: "prefixes", Change: changePatrol,
		Text: "source addresses that customers may use"},
	{Name: "sources_file", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Values: "path of a file with a prefix on each line", Change: changePatrol,
		Text: "the same, from a file"},
	{Name: "check_sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: YesNo, Default: "yes", Change: changePatrol,
		Text: "`no`: sources are checked elsewhere in this network, and codepoints are kept"},
	{Name: "managers", Roles: patrolOnly, Kind: List, Values: "public keys", Change: changePatrol,
		Text: "public keys of the border managers that may install filters"},
	{Name: "max_filters", Roles: patrolOnly, Kind: Number, Low: 1000, High: MaxFilters, Default: "1048576", Change: changePatrol,
		Text: "size of the filter table"},
	{Name: "exceptions", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Mapping, Values: "list of `src`, `dst`", Change: changePatrol,
		Text: "traffic to which no filter applies"},
	{Name: "plain", Roles: patrolOnly, Kind: Number, High: 63, Default: "0", Change: changePatrol,
		Text: "the DSCP that replaces `codepoint` where it is cleared"},

	{Name: "bindings", Roles: managers, Kind: Text, Default: "this or `signed_bindings`", Values: "path", Change: changeBorder,
		Text: "which managers are bound to which prefixes, from a file"},
	{Name: "signed_bindings", Roles: managers, Kind: Mapping, Default: "this or `bindings`", Values: "`anchors`, `store`, `key`, `listen`, `neighbours`, `publish`", Change: changeBorder,
		Text: "the same, signed and flooded between managers ([bindings.md](bindings.md))"},
	{Name: "patrols", Roles: borderOnly, Kind: Mapping, Default: "required", Values: "list of `name`, `address`, `key`, `prefixes`", Change: changeBorder,
		Text: "the patrols, and the customers behind each"},
	{Name: "rate", Roles: borderOnly, Kind: Number, High: 1e9, Default: strconv.Itoa(DefaultFilterRate), Change: changeBorder,
		Text: "filters a second that one network may request; 0: no limit, and none for proofs either"},
	{Name: "protect", Roles: borderOnly, Kind: List, Values: "prefixes", Change: changeBorder,
		Text: "addresses that no filter may match, whatever its action"},

	{Name: "own", Roles: filterOnly, Kind: List, Default: "required", Values: "prefixes", Change: changeFilter,
		Text: "destinations that this manager is responsible for"},
	{Name: "never", Roles: filterOnly, Kind: List, Values: "prefixes", Change: changeFilter,
		Text: "sources that are never filtered"},
	{Name: "api", Roles: filterOnly, Kind: Text, Default: "the instance's socket", Values: "path", Change: changeFilter,
		Text: "where detectors and `tidegate filter` reach it ([upstream.md](upstream.md))"},
	{Name: "expires", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "10m", Change: changeFilter,
		Text: "how long a filter lasts"},
	{Name: "idle", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "2m", Change: changeFilter,
		Text: "a filter that matches nothing for this long is removed"},
	{Name: "watch", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: int64(time.Hour), Default: "10s", Change: changeFilter,
		Text: "interval between readings of the counters"},
	{Name: "proof", Roles: filterOnly, Kind: YesNo, Default: "yes", Change: changeFilter,
		Text: "request signed results"},
	{Name: "suricata", Roles: filterOnly, Kind: List, Values: "paths", Change: changeFilter,
		Text: "EVE files to follow"},
}
