// SPDX-License-Identifier: Apache-2.0

package survey

// acts are the effects of a rule. Counting and logging are none.
type acts uint16

const (
	actAccept acts = 1 << iota
	actDrop
	actReturn
	actJump
	actGoto
	actDNAT
	actSYNProxy
	actTProxy
	actQueue
	actNotrack
	actOther // anything else that can be told of a packet later: a mark, a new address, an entry of a set
)

// outcome is what a rule does with one packet.
type outcome struct {
	match    match
	acts     acts
	jumps    []chainKey // where it may go on
	looksAt  string     // what the rule looks at that is not alike for a SYN and for what follows
	limits   bool       // it counts, limits, or is random
	obscure  string     // the part that is not understood
	certain  bool       // of several verdicts only one is possible
	verdicts int
}

// verdict adds a possible verdict of the rule.
func (o *outcome) verdict(a acts, to chainKey) {
	o.acts |= a
	o.verdicts++
	o.certain = o.verdicts == 1
	if a&(actJump|actGoto) != 0 {
		o.jumps = append(o.jumps, to)
	}
}

// require adds a condition; false if the rule can go no further.
func (o *outcome) require(m match, what string) bool {
	if m == differs || m != maybe && what != "" {
		o.looksAt = firstOf(o.looksAt, what)
	}
	if m == no {
		if o.acts == 0 {
			o.match = no
		}
		return false
	}
	o.match = o.match.and(m)
	return true
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// chainKey names a chain within all that was read.
type chainKey string

// chain is a list of rules, of nftables or of iptables.
type chain struct {
	label string // as users know it
	show  string // the command that shows it
	rules []rule
}

// rule is one rule.
type rule interface {
	try(p *packet) outcome
	label() string // which one of its chain; may be empty
}
