// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// expression is one step of a rule of nftables.
type expression struct {
	name string
	data fields
}

// nftRule is one rule of nftables.
type nftRule struct {
	handle uint64
	steps  []expression
	tables *nftRules
	family nftFamily
	table  string
}

func (r *nftRule) label() string { return fmt.Sprintf("rule %d", r.handle) }

// What is not alike for a SYN and for what follows, as findings call it.
const (
	tcpFlags          = "TCP flags"
	stateOfConnection = "state of the connection"
	tcpOptions        = "TCP options"
	itsSocket         = "its socket"
	itsLength         = "its length"
	itsNumbers        = "fields of the TCP header"
)

// machineState is what a rule computes with: sixteen registers of four bytes.
type machineState struct {
	p         *packet
	out       outcome
	registers [64]octet
	labels    [16]string // what four octets hold
}

// span is where a register lies; old numbers stand for four of the small ones.
func span(register uint32) int {
	switch {
	case register >= unix.NFT_REG_1 && register <= unix.NFT_REG_4:
		return int(register-unix.NFT_REG_1) * 16
	case register >= nftReg32 && register < nftReg32+16:
		return int(register-nftReg32) * 4
	}
	return -1
}

const nftReg32 = 8 // NFT_REG32_00

func (s *machineState) set(register uint32, v value, label string) {
	at := span(register)
	if at < 0 || at+len(v) > len(s.registers) {
		s.out.obscure = firstOf(s.out.obscure, "a register")
		return
	}
	copy(s.registers[at:], v)
	end := min(len(s.registers), at+(len(v)+3)&^3)
	for i := at; i < end; i++ {
		if i >= at+len(v) {
			s.registers[i] = octet{known: true} // the kernel fills up with zeros
		}
		s.labels[i/4] = label
	}
}

func (s *machineState) get(register uint32, size int) (v value, label string) {
	at := span(register)
	if at < 0 || size < 0 || at+size > len(s.registers) {
		s.out.obscure = firstOf(s.out.obscure, "a register")
		return unknown(max(0, size)), ""
	}
	for i := at; i < at+size; i++ {
		label = firstOf(label, s.labels[i/4])
	}
	return s.registers[at : at+size], label
}

// try evaluates the rule for a packet.
func (r *nftRule) try(p *packet) outcome {
	if p.scratch == nil {
		p.scratch = &machineState{}
	}
	s := p.scratch
	*s = machineState{p: p, out: outcome{match: yes}}
	for _, e := range r.steps {
		if !r.step(s, e) {
			break
		}
	}
	return s.out
}

// step runs one expression; false if the rule goes no further.
func (r *nftRule) step(s *machineState, e expression) bool {
	if load, there := nftLoads[e.name]; there && load(s, e.data) {
		return true
	}
	if f, there := nftTests[e.name]; there {
		return f(r, s, e.data)
	}
	if harmless[e.name] {
		return true
	}
	if e.name == "reject" {
		s.out.verdict(actDrop, "")
		return true
	}
	if a, there := nftActs[e.name]; there {
		s.out.acts |= a
		return true
	}
	if what, there := nftLimits[e.name]; there {
		s.out.limits = true
		return s.out.require(maybe, what)
	}
	s.out.obscure = firstOf(s.out.obscure, fmt.Sprintf("expression %q", e.name))
	return true
}

// harmless expressions do nothing to a packet and ask for nothing.
var harmless = map[string]bool{"counter": true, "log": true, "last": true}

// nftActs are statements whose details do not matter here.
var nftActs = map[string]acts{
	"notrack": actNotrack, "synproxy": actSYNProxy, "tproxy": actTProxy, "queue": actQueue,
	"redir": actDNAT, "masq": actOther,
	"dup": actOther, "fwd": actDrop, "flow_offload": actOther, "secmark": actOther,
	"meta": actOther, "ct": actOther, "payload": actOther, "exthdr": actOther, // what writes; what reads is in nftLoads
}

// nftLimits are conditions that keep state about packets, or are random.
var nftLimits = map[string]string{"limit": "", "connlimit": "", "quota": "", "numgen": ""}

// nftTests are expressions whose outcome depends on their attributes.
var nftTests map[string]func(*nftRule, *machineState, fields) bool

func init() { // they call each other
	nftTests = map[string]func(*nftRule, *machineState, fields) bool{
		"cmp": testCompare, "range": testRange, "lookup": testLookup, "immediate": doImmediate,
		"nat": doNAT, "objref": doObject, "dynset": doDynset, "match": testXT, "target": doXT,
	}
}

func testCompare(_ *nftRule, s *machineState, f fields) bool {
	data := fieldsOf(f.get(unix.NFTA_CMP_DATA)).get(unix.NFTA_DATA_VALUE)
	v, label := s.get(f.number(unix.NFTA_CMP_SREG), len(data))
	op := f.number(unix.NFTA_CMP_OP)
	if op == unix.NFT_CMP_EQ || op == unix.NFT_CMP_NEQ {
		return s.out.require(v.equal(data, nil).inverted(op == unix.NFT_CMP_NEQ), label)
	}
	b, ok := v.bytes()
	if !ok {
		return s.out.require(v.unsure(), label)
	}
	less, same := string(b) < string(data), string(b) == string(data)
	return s.out.require(matched(map[uint32]bool{unix.NFT_CMP_LT: less, unix.NFT_CMP_LTE: less || same,
		unix.NFT_CMP_GT: !less && !same, unix.NFT_CMP_GTE: !less}[op]), label)
}

func testRange(_ *nftRule, s *machineState, f fields) bool {
	from := fieldsOf(f.get(unix.NFTA_RANGE_FROM_DATA)).get(unix.NFTA_DATA_VALUE)
	to := fieldsOf(f.get(unix.NFTA_RANGE_TO_DATA)).get(unix.NFTA_DATA_VALUE)
	v, label := s.get(f.number(unix.NFTA_RANGE_SREG), len(from))
	return s.out.require(v.within(from, to).inverted(f.number(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_NEQ), label)
}

func testLookup(r *nftRule, s *machineState, f fields) bool {
	set := r.tables.sets[setKey{r.family, r.table, f.text(unix.NFTA_LOOKUP_SET)}]
	if set == nil {
		s.out.obscure = firstOf(s.out.obscure, "a set that was not read")
		return true
	}
	v, label := s.get(f.number(unix.NFTA_LOOKUP_SREG), set.keyLen)
	found, hits := set.find(v)
	dreg, mapped := f.find(unix.NFTA_LOOKUP_DREG)
	if !s.out.require(found.inverted(f.number(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV != 0), label) {
		return false
	}
	switch {
	case !mapped:
	case set.verdicts:
		for _, e := range hits {
			s.doVerdict(r, e.verdict)
		}
		s.out.certain = s.out.certain && found == yes
	default:
		s.set(numberOf(dreg), unknown(set.dataLen), label)
	}
	return true
}

func doImmediate(r *nftRule, s *machineState, f fields) bool {
	data := fieldsOf(f.get(unix.NFTA_IMMEDIATE_DATA))
	if v, there := data.find(unix.NFTA_DATA_VERDICT); there {
		s.doVerdict(r, fieldsOf(v))
	} else {
		s.set(f.number(unix.NFTA_IMMEDIATE_DREG), known(data.get(unix.NFTA_DATA_VALUE)...), "")
	}
	return true
}

func (s *machineState) doVerdict(r *nftRule, f fields) {
	to := nftKey(r.family, r.table, f.text(unix.NFTA_VERDICT_CHAIN))
	switch int32(f.number(unix.NFTA_VERDICT_CODE)) {
	case unix.NFT_CONTINUE:
	case unix.NFT_RETURN:
		s.out.verdict(actReturn, "")
	case unix.NFT_JUMP:
		s.out.verdict(actJump, to)
	case unix.NFT_GOTO:
		s.out.verdict(actGoto, to)
	case nfAccept:
		s.out.verdict(actAccept, "")
	case nfDrop:
		s.out.verdict(actDrop, "")
	case nfQueue:
		s.out.verdict(actQueue, "")
	default:
		s.out.obscure = firstOf(s.out.obscure, "a verdict")
	}
}

// From linux/netfilter.h.
const (
	nfDrop   = 0
	nfAccept = 1
	nfQueue  = 3
)

func doNAT(_ *nftRule, s *machineState, f fields) bool {
	s.out.acts |= actOther
	if f.number(unix.NFTA_NAT_TYPE) == unix.NFT_NAT_DNAT {
		s.out.acts |= actDNAT
	}
	return true
}

// Types of objects, from linux/netfilter/nf_tables.h.
const (
	objectCounter   = 1
	objectQuota     = 2
	objectLimit     = 4
	objectConnlimit = 5
	objectSYNProxy  = 10
)

func doObject(_ *nftRule, s *machineState, f fields) bool {
	if _, mapped := f.find(unix.NFTA_OBJREF_IMM_TYPE); !mapped {
		s.out.obscure = firstOf(s.out.obscure, "a map of objects")
		return true
	}
	switch f.number(unix.NFTA_OBJREF_IMM_TYPE) {
	case objectCounter:
	case objectQuota, objectLimit, objectConnlimit:
		s.out.limits = true
		return s.out.require(maybe, "")
	case objectSYNProxy:
		s.out.acts |= actSYNProxy
	default:
		s.out.acts |= actOther
	}
	return true
}

// From linux/netfilter/nf_tables.h.
const (
	dynsetExpr        = 7
	dynsetExpressions = 10
)

// doDynset: a set with state per element limits; without state, an element is added.
func doDynset(_ *nftRule, s *machineState, f fields) bool {
	s.out.acts |= actOther
	_, one := f.find(dynsetExpr)
	_, several := f.find(dynsetExpressions)
	s.out.limits = s.out.limits || one || several
	return s.out.require(maybe, "")
}

func testXT(_ *nftRule, s *machineState, f fields) bool {
	return testMatch(s.p, &s.out, f.text(unix.NFTA_MATCH_NAME), uint8(f.number(unix.NFTA_MATCH_REV)), f.get(unix.NFTA_MATCH_INFO))
}

func doXT(_ *nftRule, s *machineState, f fields) bool {
	doTarget(&s.out, f.text(unix.NFTA_TARGET_NAME), f.get(unix.NFTA_TARGET_INFO))
	return true
}
