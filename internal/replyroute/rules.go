// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rule is one policy rule, as far as it concerns replies: they have no mark, no interface but their VRF,
// and a source address of this machine.
type rule struct {
	from     netip.Prefix // invalid: all
	device   string       // an interface, which matches replies only if it is their VRF; empty: all
	l3mdev   bool         // only replies in a VRF, for which the table is the VRF's
	invert   bool
	never    bool // some other selector never matches a reply
	table    uint32
	action   uint8
	suppress int    // prefixes of at most this length do not count; -1: all do
	unknown  string // what is not modelled, if the rule can match
}

// lookup is a table to consult.
type lookup struct {
	table    uint32
	suppress int
}

// vrf is the VRF that replies are in; zero: none.
type vrf struct {
	name  string
	table uint32
}

const (
	actionToTable     = 1 // FR_ACT_TO_TBL
	actionNop         = 3
	actionBlackhole   = 6
	actionUnreachable = 7
	actionProhibit    = 8
)

// outside reports whether selectors other than the source address keep the rule from matching replies in this VRF.
func (r rule) outside(in vrf) bool {
	return r.never || r.l3mdev && in == vrf{} || r.device != "" && r.device != in.name
}

// only adds a selector of an interface. Replies have one VRF, so no rule that names two interfaces matches any.
func (r *rule) only(device string) {
	r.never = r.never || r.device != "" && r.device != device
	r.device = device
}

// matches reports whether the rule applies to replies from these addresses, which are all in or
// all outside of its prefix.
func (r rule) matches(source netip.Prefix, in vrf) bool {
	hit := !r.outside(in) && (!r.from.IsValid() || r.from.Bits() <= source.Bits() && r.from.Contains(source.Addr()))
	return hit != r.invert
}

// sourcesOf are the prefixes by which rules distinguish replies, and everything else.
func sourcesOf(rules []rule, f Family) []netip.Prefix {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if f == 6 {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	list := []netip.Prefix{all}
	for _, r := range rules {
		if r.from.IsValid() && !slices.Contains(list, r.from) {
			list = append(list, r.from)
		}
	}
	return list
}

// tablesFor are the tables consulted for replies from there, in order; why is what is not modelled.
func tablesFor(rules []rule, source netip.Prefix, in vrf) (tables []lookup, why string) {
	for _, r := range rules {
		if r.unknown != "" && (r.invert || !r.outside(in)) {
			return nil, r.unknown
		}
		if !r.matches(source, in) {
			continue
		}
		if r.l3mdev {
			r.table = in.table
		}
		switch r.action {
		case actionToTable:
			if r.table != unix.RT_TABLE_LOCAL { // it contains no clients
				tables = append(tables, lookup{r.table, r.suppress})
			}
		case actionNop:
		case actionBlackhole, actionUnreachable, actionProhibit:
			return tables, ""
		default:
			return nil, fmt.Sprintf("a policy rule with action %d", r.action)
		}
	}
	return tables, ""
}

// Attributes of a rule, linux/fib_rules.h.
const (
	fraDst, fraSrc, fraIif, fraPriority            = 1, 2, 3, 6
	fraMark, fraFlow, fraSuppressGroup             = 10, 11, 13
	fraSuppressLen, fraTable, fraMask, fraOif      = 14, 15, 16, 17
	fraPad, fraL3mdev, fraProtocol, fraIPProto int = 18, 19, 21, 22
)

// parseRule reads one message of a dump. A selector that it does not know makes the rule unknown.
func parseRule(msg []byte, f Family) (r rule, err error) {
	head := nl.DeserializeRtMsg(msg)
	attrs, err := nl.ParseRouteAttr(msg[head.Len():])
	if err != nil {
		return r, err
	}
	const inverted = 2 // FIB_RULE_INVERT
	r = rule{invert: head.Flags&inverted != 0, action: head.Type, table: uint32(head.Table), suppress: -1}
	if head.Tos != 0 {
		r.never = true // our answers have none
	}
	var mark, mask uint32
	hasMask := false
	for _, a := range attrs {
		v, number := a.Value, uint32(0)
		if len(v) >= 4 {
			number = binary.NativeEndian.Uint32(v)
		}
		switch int(a.Attr.Type) {
		case fraPriority, fraFlow, fraPad, fraProtocol:
		case fraSrc:
			addr, ok := netip.AddrFromSlice(v)
			if !ok {
				return r, fmt.Errorf("policy rule: source of %d bytes", len(v))
			}
			r.from = netip.PrefixFrom(addr, int(head.Src_len)).Masked()
		case fraDst:
			r.unknown = "a policy rule with a destination"
		case fraIif:
			if name := unix.ByteSliceToString(v); name != "lo" {
				r.only(name)
			}
		case fraOif:
			r.only(unix.ByteSliceToString(v))
		case fraL3mdev:
			r.l3mdev = v[0] != 0
		case fraTable:
			r.table = number
		case fraMark:
			mark = number
		case fraMask:
			mask, hasMask = number, true
		case fraSuppressLen:
			r.suppress = int(int32(number))
		case fraSuppressGroup:
			if number != ^uint32(0) {
				r.unknown = "a policy rule with suppress_ifgroup"
			}
		case fraIPProto:
			r.never = r.never || v[0] != unix.IPPROTO_TCP
		default:
			r.unknown = fmt.Sprintf("a policy rule with a selector that is not modelled (attribute %d)", a.Attr.Type)
		}
	}
	if !hasMask && mark != 0 {
		mask = ^uint32(0)
	}
	r.never = r.never || mark&mask != 0
	if r.from.IsValid() && r.from.Bits() == 0 {
		r.from = netip.Prefix{}
	}
	return r, nil
}

// readRules reads the rules of a family from the kernel, in order.
func readRules(f Family) (rules []rule, err error) {
	family := unix.AF_INET
	if f == 6 {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfInfomsg(family))
	list, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE)
	if err != nil {
		return nil, fmt.Errorf("policy rules: %w", err)
	}
	for _, msg := range list {
		r, err := parseRule(msg, f)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}
