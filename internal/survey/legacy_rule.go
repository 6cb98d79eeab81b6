// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// legacyRule is one entry of a legacy table.
type legacyRule struct {
	family   family
	entry    []byte
	target   int // offset of the target in the entry
	at       int // offset of the entry in the table, which places it
	number   int // in its chain, from 1
	table    *legacyTable
	fallsOut bool // the end of a chain
}

func (r *legacyRule) label() string {
	if r.fallsOut {
		return "the policy"
	}
	return fmt.Sprintf("rule %d", r.number)
}

// legacyIP is where a field stands in struct ipt_ip and ip6t_ip6.
type legacyIP struct {
	addrLen, in, inMask, proto, flags, invert int
	always                                    bool // the protocol counts without a flag
}

var legacyIPs = map[family]legacyIP{
	ipv4: {4, 16, 48, 80, 82, 83, true},
	ipv6: {16, 64, 96, 128, 131, 132, false},
}

// Flags and inversions, alike in both.
const (
	legacyInvIn, legacyInvOut, legacyInvSrc, legacyInvDst, legacyInvProto = 1, 2, 8, 0x10, 0x40
	ipv4Fragment, ipv4Goto                                                = 1, 2
	ipv6Proto, ipv6Goto                                                   = 1, 4
)

// try evaluates the entry for a packet.
func (r *legacyRule) try(p *packet) outcome {
	out := outcome{match: yes}
	if !r.tryIP(p, &out) {
		return out
	}
	l := r.family.entryLayout()
	for at := l.size; at+xtHeaderLen <= r.target; {
		size := int(binary.NativeEndian.Uint16(r.entry[at:]))
		if size < xtHeaderLen || at+size > r.target {
			out.obscure = "an entry that is cut short"
			return out
		}
		name, revision := xtName(r.entry[at:])
		if !testMatch(p, &out, name, revision, r.entry[at+xtHeaderLen:at+size]) {
			return out
		}
		at += size
	}
	r.doTarget(&out)
	return out
}

func xtName(header []byte) (name string, revision uint8) {
	b := header[2 : xtHeaderLen-1]
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b), header[xtHeaderLen-1]
}

// tryIP: addresses, the device that it comes in by, protocol.
func (r *legacyRule) tryIP(p *packet, out *outcome) bool {
	l, e := legacyIPs[r.family], r.entry
	invert := e[l.invert]
	n := l.addrLen
	if !out.require(p.address(true).equal(e[:n], e[2*n:3*n]).inverted(invert&legacyInvSrc != 0), "") ||
		!out.require(p.address(false).equal(e[n:2*n], e[3*n:4*n]).inverted(invert&legacyInvDst != 0), "") {
		return false
	}
	name, mask := e[l.in:l.in+unix.IFNAMSIZ], e[l.inMask:l.inMask+unix.IFNAMSIZ]
	if !out.require(deviceName(p.device).equal(name, mask).inverted(invert&legacyInvIn != 0), "") {
		return false
	}
	name, mask = e[l.in+unix.IFNAMSIZ:l.in+2*unix.IFNAMSIZ], e[l.inMask+unix.IFNAMSIZ:l.inMask+2*unix.IFNAMSIZ]
	if !out.require(unknown(unix.IFNAMSIZ).equal(name, mask).inverted(invert&legacyInvOut != 0), "") { // where it leaves
		return false
	}
	if r.family == ipv4 && e[l.flags]&ipv4Fragment != 0 {
		return out.require(no, "")
	}
	proto := binary.NativeEndian.Uint16(e[l.proto:])
	if proto == 0 || !l.always && e[l.flags]&ipv6Proto == 0 {
		return true
	}
	return out.require(matched((proto == unix.IPPROTO_TCP) != (invert&legacyInvProto != 0)), "")
}

// doTarget: the standard target is a verdict, or an offset to go on at.
func (r *legacyRule) doTarget(out *outcome) {
	name, _ := xtName(r.entry[r.target:])
	info := r.entry[r.target+xtHeaderLen:]
	if name != "" {
		doTarget(out, name, info)
		return
	}
	if len(info) < 4 {
		out.obscure = "an entry that is cut short"
		return
	}
	const legacyReturn = -5
	goes := r.entry[legacyIPs[r.family].flags]
	switch v := int32(binary.NativeEndian.Uint32(info)); {
	case v == -nfDrop-1:
		out.verdict(actDrop, "")
	case v == -nfAccept-1:
		out.verdict(actAccept, "")
	case v == -nfQueue-1:
		out.verdict(actQueue, "")
	case v == legacyReturn:
		out.verdict(actReturn, "")
	case v < 0:
		out.obscure = "a verdict"
	case int(v) == r.at+len(r.entry): // to the next entry: an empty target
	case r.family == ipv4 && goes&ipv4Goto != 0, r.family == ipv6 && goes&ipv6Goto != 0:
		out.verdict(actGoto, r.table.key(int(v)))
	default:
		out.verdict(actJump, r.table.key(int(v)))
	}
}

// key names the chain that begins at an offset.
func (t *legacyTable) key(at int) chainKey {
	return chainKey(fmt.Sprintf("%s %s %d", t.family.legacyTool(), t.name, at))
}

var legacyHooks = [...]string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}

// parse splits the table into chains: those at hooks come first, each user-defined one begins
// after an entry that holds its name, and the last entry of all is an error.
func (t *legacyTable) parse(chains map[chainKey]*chain) (atHook [5]*chain, err error) {
	begins := map[int]string{}
	for i, name := range legacyHooks {
		if t.hooks&(1<<i) != 0 {
			begins[int(t.entry[i])] = name
		}
	}
	var now *chain
	err = t.each(func(at, target, next int) error {
		if name, _ := xtName(t.entries[target:]); name == "ERROR" {
			begins[next], now = errorName(t.entries[target+xtHeaderLen:next]), nil
			return nil
		}
		if name, there := begins[at]; there {
			now = &chain{label: fmt.Sprintf("%s chain %s %s", t.family.legacyTool(), t.name, name),
				show: fmt.Sprintf("%s -t %s -nvL %s --line-numbers", t.family.legacyTool(), t.name, name)}
			chains[t.key(at)] = now
		}
		if now == nil {
			return errEntry
		}
		r := &legacyRule{family: t.family, entry: t.entries[at:next], target: target - at, at: at, number: len(now.rules) + 1, table: t}
		for i := range t.policyAt {
			r.fallsOut = r.fallsOut || t.hooks&(1<<i) != 0 && int(t.policyAt[i]) == at
		}
		now.rules = append(now.rules, r)
		return nil
	})
	for i := range legacyHooks {
		if t.hooks&(1<<i) != 0 {
			if atHook[i] = chains[t.key(int(t.entry[i]))]; atHook[i] == nil && err == nil {
				err = errEntry
			}
		}
	}
	return atHook, err
}

func errorName(info []byte) string {
	if end := bytes.IndexByte(info, 0); end >= 0 {
		info = info[:end]
	}
	return string(info)
}

// tracks reports whether a rule of the table makes the kernel track connections.
func (t *legacyTable) tracks() (tracks bool) {
	_ = t.each(func(at, target, next int) error {
		for m := at + t.family.entryLayout().size; m+xtHeaderLen <= target; {
			name, _ := xtName(t.entries[m:])
			tracks = tracks || !statelessXT[name]
			m += max(xtHeaderLen, int(binary.NativeEndian.Uint16(t.entries[m:])))
		}
		name, _ := xtName(t.entries[target:])
		tracks = tracks || name != "" && name != "ERROR" && !statelessXT[name]
		return nil
	})
	return tracks
}
