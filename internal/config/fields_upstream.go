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
		Text: "where requests come. Border managers know a filter manager by it; at a patrol it needs `identity_file` and `managers`"},
	{Name: "identity_file", Roles: []string{RolePatrol, RoleBorderManager}, Kind: Text, Default: "required; patrol: none", Values: "path", Change: changePatrol,
		Text: "the private key, made by `tidegate keygen`; `tidegate filter key FILE` prints its public key"},
	{Name: "codepoint", Roles: upstreamRoles, Kind: Number, High: 63, Default: strconv.Itoa(defaultCodepoint), Change: changePatrol,
		Text: "the DSCP that says \"true source\""},

	{Name: "ports", Roles: patrolOnly, Kind: Mapping, Default: "required", Values: "list of `interface`, `side`, `neighbour`, `queue`", Change: changePatrol,
		Text: "`side`: `customers` or `upstream`; `neighbour` of an upstream port: `terminus` keeps the codepoint (default), `legacy` takes it away, `true` sets it; `queue`: two queues behind this rate (`100mbit`) on what leaves"},
	{Name: "forwarding", Roles: patrolOnly, Kind: Words, Words: []string{string(ForwardKernel), string(ForwardBridge)}, Default: "kernel", Change: changePatrol,
		Text: "frames are the kernel's, or go straight to the other of two ports"},
	{Name: "sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: List, Values: "prefixes", Change: changePatrol,
		Text: "what customers may use as source"},
	{Name: "sources_file", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Text, Values: "path of a file with a prefix on each line", Change: changePatrol,
		Text: "the same, from a file"},
	{Name: "check_sources", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: YesNo, Default: "yes", Change: changePatrol,
		Text: "`no`: sources are checked elsewhere in this network, marks are kept"},
	{Name: "managers", Roles: patrolOnly, Kind: List, Values: "public keys", Change: changePatrol,
		Text: "border managers that may install filters"},
	{Name: "max_filters", Roles: patrolOnly, Kind: Number, Low: 1000, High: MaxFilters, Default: "1048576", Change: changePatrol,
		Text: "size of the table"},
	{Name: "exceptions", Roles: patrolOnly, Live: []string{RolePatrol}, Kind: Mapping, Values: "list of `src`, `dst`", Change: changePatrol,
		Text: "traffic that no filter applies to"},
	{Name: "plain", Roles: patrolOnly, Kind: Number, High: 63, Default: "0", Change: changePatrol,
		Text: "the DSCP that takes the place of `codepoint` where the mark is taken away"},

	{Name: "bindings", Roles: managers, Kind: Text, Default: "this or `signed_bindings`", Values: "path", Change: changeBorder,
		Text: "who speaks for which prefixes, from a file"},
	{Name: "signed_bindings", Roles: managers, Kind: Mapping, Default: "this or `bindings`", Values: "`anchors`, `store`, `key`, `listen`, `neighbours`, `publish`", Change: changeBorder,
		Text: "the same, signed and flooded between managers ([bindings.md](bindings.md))"},
	{Name: "patrols", Roles: borderOnly, Kind: Mapping, Default: "required", Values: "list of `name`, `address`, `key`, `prefixes`", Change: changeBorder,
		Text: "and the customers behind each"},
	{Name: "rate", Roles: borderOnly, Kind: Number, High: 1e9, Default: strconv.Itoa(DefaultFilterRate), Change: changeBorder,
		Text: "filters a second that one network may ask for; 0: any, and any number of proofs"},
	{Name: "protect", Roles: borderOnly, Kind: List, Values: "prefixes", Change: changeBorder,
		Text: "addresses that no filter may touch, whatever it does"},

	{Name: "own", Roles: filterOnly, Kind: List, Default: "required", Values: "prefixes", Change: changeFilter,
		Text: "destinations that this manager speaks for"},
	{Name: "never", Roles: filterOnly, Kind: List, Values: "prefixes", Change: changeFilter,
		Text: "sources that are never to be filtered"},
	{Name: "api", Roles: filterOnly, Kind: Text, Default: "the instance's socket", Values: "path", Change: changeFilter,
		Text: "where detectors and `tidegate filter` reach it ([upstream.md](upstream.md))"},
	{Name: "expires", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "10m", Change: changeFilter,
		Text: "how long a filter lives"},
	{Name: "idle", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: week, Default: "2m", Change: changeFilter,
		Text: "until a filter that is not hit is taken back"},
	{Name: "watch", Roles: filterOnly, Kind: Duration, Low: int64(time.Second), High: int64(time.Hour), Default: "10s", Change: changeFilter,
		Text: "between looks at the counters"},
	{Name: "proof", Roles: filterOnly, Kind: YesNo, Default: "yes", Change: changeFilter,
		Text: "ask for signed results"},
	{Name: "suricata", Roles: filterOnly, Kind: List, Values: "paths", Change: changeFilter,
		Text: "EVE files that are followed"},
}
