// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"fmt"
	"slices"
)

// base is a chain that is at a hook.
type base struct {
	chain    *chain
	hook     hook
	priority int32
	nat      bool
}

// hook is where packets pass; the order is theirs.
type hook uint8

const (
	hookIngress hook = iota
	hookPrerouting
	hookInput
	hookOutput
	hookPostrouting
	hookEgress
)

func (h hook) String() string {
	return [...]string{"ingress", "prerouting", "input", "output", "postrouting", "egress"}[h]
}

func (h hook) answers() bool { return h >= hookOutput }

// walker tries the rules at the hooks on packets that they must treat alike.
type walker struct {
	chains  map[chainKey]*chain
	packets []*packet
	seen    map[*chain]bool // and whether it certainly ends a packet's path through a base chain
	nat     bool            // a chain of NAT: only the first packet of a connection comes here
	found   []Finding
}

// through walks the base chains in the order in which packets pass them.
func (w *walker) through(bases []base) {
	slices.SortStableFunc(bases, func(a, b base) int {
		return cmp.Or(cmp.Compare(a.hook, b.hook), cmp.Compare(a.priority, b.priority))
	})
	for _, b := range bases {
		w.seen, w.nat = map[*chain]bool{}, b.nat
		w.walk(b.chain)
	}
}

// walk tries the rules of a chain; true if no packet comes back out of it.
func (w *walker) walk(c *chain) (ends bool) {
	if ends, there := w.seen[c]; there {
		return ends
	}
	w.seen[c] = false // if it comes back here, it is not for certain
	for _, r := range c.rules {
		all := w.try(r)
		if all == nil {
			continue
		}
		alike := w.judge(c, r, all)
		one := all[0]
		sure := alike && one.match == yes && one.certain
		for _, o := range all {
			for _, to := range o.jumps {
				next := w.chains[to]
				if next == nil {
					w.add(UnknownRule, c, r, "jumps to a chain that was not read")
				} else if w.walk(next) && sure {
					w.seen[c] = true
				}
			}
		}
		if sure && one.acts&(actAccept|actDrop) != 0 {
			w.seen[c] = true
		}
		if w.seen[c] || sure && one.acts&(actReturn|actGoto) != 0 {
			break
		}
	}
	return w.seen[c]
}

// try evaluates a rule for every packet; nil if it does nothing to any.
func (w *walker) try(r rule) []outcome {
	var all []outcome
	some := false
	for _, p := range w.packets {
		o := r.try(p)
		if o.match == no && o.looksAt == "" && o.acts == 0 {
			return nil // it looked at nothing that differs: so for all
		}
		some = some || o.match != no && (o.acts != 0 || o.obscure != "")
		all = append(all, o)
	}
	if !some {
		return nil
	}
	return all
}

// judge finds out whether a rule prevents adoption; it returns whether all packets are treated alike.
func (w *walker) judge(c *chain, r rule, all []outcome) (alike bool) {
	var begins, later, union outcome
	alike = true
	for i, o := range all {
		if o.match != no {
			union.acts |= o.acts
			union.obscure = firstOf(union.obscure, o.obscure)
			union.limits = union.limits || o.limits
		}
		union.looksAt = firstOf(union.looksAt, o.looksAt)
		if o.match != all[0].match || o.match == differs || o.match != no && o.acts != all[0].acts {
			alike = false
		}
		if w.packets[i].begins {
			begins.match = max(begins.match, o.match)
		} else {
			later.match = max(later.match, o.match)
		}
	}
	w.track(all)
	switch {
	case union.obscure != "":
		w.add(UnknownRule, c, r, fmt.Sprintf("is not understood (%s)", union.obscure))
	case union.acts&actDNAT != 0:
		if begins.match != no {
			w.add(DNAT, c, r, "may send this destination elsewhere (DNAT or redirect)")
		}
	case w.nat: // none but SYNs come here
	case union.acts&actSYNProxy != 0:
		w.add(SYNProxy, c, r, "is another SYN proxy")
	case union.acts&actTProxy != 0:
		w.add(TProxy, c, r, "gives the connection to another socket (tproxy)")
	case union.acts&actQueue != 0:
		w.add(Queue, c, r, "asks a program in userspace")
	case union.limits:
		w.add(Limit, c, r, "limits or counts connections, and must see their SYNs")
	case alike:
	default:
		w.unlike(c, r, union, begins.match, later.match)
	}
	return alike
}

// unlike names what a rule uses to distinguish a SYN from what follows.
func (w *walker) unlike(c *chain, r rule, o outcome, begins, later match) {
	on := ""
	if o.looksAt != "" {
		on = " by " + o.looksAt
	}
	invalid := slices.ContainsFunc(w.packets, func(p *packet) bool { return !p.loose }) && o.looksAt == stateOfConnection
	switch {
	case invalid:
		w.found = append(w.found, Finding{LooseOff, fmt.Sprintf("net.netfilter.nf_conntrack_tcp_loose is 0: a connection without SYN is invalid, and %s looks at that", place(c, r)),
			"sysctl net.netfilter.nf_conntrack_tcp_loose; " + c.show})
	case o.acts&actDrop != 0 && begins == no && !w.packets[0].answer:
		w.add(NewNotSYN, c, r, "drops connections that do not begin with a SYN")
	case o.acts&actAccept != 0 && later == no && !w.packets[0].answer:
		w.add(AcceptSYN, c, r, "accepts SYNs only")
	case w.packets[0].answer:
		w.add(SYNRule, c, r, "tells the server's SYN-ACK from what follows"+on)
	default:
		w.add(SYNRule, c, r, "tells SYNs from other segments"+on)
	}
}

// track notes what is no longer tracked.
func (w *walker) track(all []outcome) {
	for i, o := range all {
		p := w.packets[i]
		switch {
		case o.acts&actNotrack == 0 || o.match == no:
		case o.match == yes:
			p.state = ctUntracked
		default:
			p.state = 0
		}
	}
}

func place(c *chain, r rule) string {
	if l := r.label(); l != "" {
		return l + " of " + c.label
	}
	return "a rule of " + c.label
}

func (w *walker) add(id string, c *chain, r rule, what string) {
	w.found = append(w.found, Finding{id, place(c, r) + " " + what, c.show})
}
