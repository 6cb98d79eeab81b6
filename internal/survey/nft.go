// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nftChain is one chain; a base chain has a hook.
type nftChain struct {
	chain
	family      nftFamily
	table, name string
	base        bool
	typ         string // filter, nat or route
	hook        uint32
	priority    int32
	devices     []string // of a chain at ingress or egress
}

// of says whether packets of an IP family pass the chain.
func (c *nftChain) of(f family) bool { return c.base && c.family.sees(f) }

// nftRules is all of nftables in one network namespace.
type nftRules struct {
	chains []*nftChain
	byKey  map[chainKey]*chain
	sets   map[setKey]*nftSet
	tracks bool // a rule has connections tracked
}

func nftKey(f nftFamily, table, chain string) chainKey {
	return chainKey(fmt.Sprintf("%s %s %s", f, table, chain))
}

func readNFT() (*nftRules, error) {
	var r *nftRules
	err := consistently(func() error {
		r = &nftRules{byKey: map[chainKey]*chain{}, sets: map[setKey]*nftSet{}}
		if err := r.readChains(); err != nil || len(r.chains) == 0 {
			return err
		}
		if err := r.readSets(); err != nil {
			return err
		}
		if err := r.readRules(); err != nil {
			return err
		}
		return r.readElements()
	})
	if absent(err) {
		return &nftRules{}, nil
	}
	return r, err
}

func (r *nftRules) readChains() error {
	answer, err := ask(unix.NFT_MSG_GETCHAIN, true)
	if err != nil {
		return err
	}
	for _, m := range answer {
		f := fieldsOf(m[nfgenSize:])
		c := &nftChain{family: nftFamily(m[0]), table: f.text(unix.NFTA_CHAIN_TABLE), name: f.text(unix.NFTA_CHAIN_NAME)}
		c.label = fmt.Sprintf("nftables chain %s %s %s", c.family, c.table, c.name)
		c.show = fmt.Sprintf("nft -a list chain %s %s %s", c.family, c.table, c.name)
		if hook, there := f.find(unix.NFTA_CHAIN_HOOK); there {
			c.readHook(fieldsOf(hook), f.text(unix.NFTA_CHAIN_TYPE))
		}
		r.chains = append(r.chains, c)
		r.byKey[nftKey(c.family, c.table, c.name)] = &c.chain
	}
	return nil
}

const hookDevices = 4 // NFTA_HOOK_DEVS

func (c *nftChain) readHook(f fields, typ string) {
	c.base, c.typ, c.hook = true, typ, f.number(unix.NFTA_HOOK_HOOKNUM)
	if p := f.get(unix.NFTA_HOOK_PRIORITY); len(p) == 4 {
		c.priority = int32(binary.BigEndian.Uint32(p))
	}
	if dev := f.text(unix.NFTA_HOOK_DEV); dev != "" {
		c.devices = []string{dev}
	}
	list, _ := attrs(f.get(hookDevices))
	for _, d := range list {
		c.devices = append(c.devices, textOf(d.value))
	}
}

func (r *nftRules) readSets() error {
	answer, err := ask(unix.NFT_MSG_GETSET, true)
	if err != nil {
		return err
	}
	for _, m := range answer {
		f := fieldsOf(m[nfgenSize:])
		r.sets[setKey{nftFamily(m[0]), f.text(unix.NFTA_SET_TABLE), f.text(unix.NFTA_SET_NAME)}] = newSet(f)
	}
	return nil
}

func (r *nftRules) readRules() error {
	answer, err := ask(unix.NFT_MSG_GETRULE, true)
	if err != nil {
		return err
	}
	for _, m := range answer {
		f := fieldsOf(m[nfgenSize:])
		rule := &nftRule{family: nftFamily(m[0]), table: f.text(unix.NFTA_RULE_TABLE), tables: r}
		if h := f.get(unix.NFTA_RULE_HANDLE); len(h) == 8 {
			rule.handle = binary.BigEndian.Uint64(h)
		}
		list, err := attrs(f.get(unix.NFTA_RULE_EXPRESSIONS))
		if err != nil {
			return err
		}
		for _, e := range list {
			one := fieldsOf(e.value)
			step := expression{one.text(unix.NFTA_EXPR_NAME), fieldsOf(one.get(unix.NFTA_EXPR_DATA))}
			r.tracks = r.tracks || step.tracks()
			rule.steps = append(rule.steps, step)
		}
		c := r.byKey[nftKey(rule.family, rule.table, f.text(unix.NFTA_RULE_CHAIN))]
		if c == nil {
			return unix.ENOENT // a chain came meanwhile: read again
		}
		c.rules = append(c.rules, rule)
	}
	return nil
}

// stateless expressions do not make the kernel track connections; any other may.
var stateless = map[string]bool{"payload": true, "meta": true, "exthdr": true, "bitwise": true, "byteorder": true, "fib": true,
	"rt": true, "hash": true, "xfrm": true, "tunnel": true, "socket": true, "osf": true, "cmp": true, "range": true, "lookup": true,
	"immediate": true, "counter": true, "log": true, "last": true, "limit": true, "quota": true, "numgen": true, "reject": true,
	"queue": true, "tproxy": true, "dup": true, "fwd": true, "secmark": true}

// statelessXT are matches and targets of iptables of which the same is known.
var statelessXT = map[string]bool{"tcp": true, "udp": true, "icmp": true, "icmp6": true, "comment": true, "multiport": true, "addrtype": true,
	"limit": true, "hashlimit": true, "mark": true, "set": true, "pkttype": true, "rpfilter": true, "recent": true, "iprange": true,
	"physdev": true, "owner": true, "LOG": true, "REJECT": true, "MARK": true, "TCPMSS": true, "CHECKSUM": true, "NFLOG": true, "NFQUEUE": true}

func (e expression) tracks() bool {
	switch e.name {
	case "match":
		return !statelessXT[e.data.text(unix.NFTA_MATCH_NAME)]
	case "target":
		return !statelessXT[e.data.text(unix.NFTA_TARGET_NAME)]
	}
	return !stateless[e.name]
}

// readElements reads the elements of the sets whose look-ups can be predicted: a list of
// a million client addresses is not among them.
func (r *nftRules) readElements() error {
	wanted := map[setKey]bool{}
	for key, s := range r.sets {
		wanted[key] = s.verdicts
	}
	for _, c := range r.chains {
		for _, one := range c.rules {
			one.(*nftRule).foretells(wanted)
		}
	}
	for key, want := range wanted {
		if !want || r.sets[key].changing() && !r.sets[key].verdicts {
			continue
		}
		list, err := readSetElements(key)
		if err != nil {
			return err
		}
		r.sets[key].fill(list)
	}
	return nil
}

// foretells adds the sets in which the rule looks up a key that is known beforehand.
func (r *nftRule) foretells(wanted map[setKey]bool) {
	if !slices.ContainsFunc(r.steps, func(e expression) bool { return e.name == "lookup" }) {
		return
	}
	for _, p := range []*packet{knownPacket(ipv4, false), knownPacket(ipv6, false), knownPacket(ipv4, true), knownPacket(ipv6, true)} {
		s := &machineState{p: p}
		for _, e := range r.steps {
			if load, there := nftLoads[e.name]; there {
				load(s, e.data)
			} else if key := (setKey{r.family, r.table, e.data.text(unix.NFTA_LOOKUP_SET)}); e.name == "lookup" && r.tables.sets[key] != nil {
				v, _ := s.get(e.data.number(unix.NFTA_LOOKUP_SREG), r.tables.sets[key].keyLen)
				wanted[key] = wanted[key] || v.someKnown()
			}
		}
	}
}

func readSetElements(key setKey) (list []fields, err error) {
	answer, err := askOf(uint8(key.family), unix.NFT_MSG_GETSETELEM, true,
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(key.table)),
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(key.name)))
	if errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	for _, m := range answer {
		elements, err := attrs(fieldsOf(m[nfgenSize:]).get(unix.NFTA_SET_ELEM_LIST_ELEMENTS))
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			list = append(list, fieldsOf(e.value))
		}
	}
	return list, err
}
