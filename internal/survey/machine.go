// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Machine is what was read, at one moment, in one network namespace.
type Machine struct {
	nft        *nftRules
	legacy     []*legacyTable
	chains     map[chainKey]*chain // of both
	bases      []legacyBase
	tracked    bool // some connection is
	loose      bool // connection tracking takes connections up that it has not seen begin
	links      links
	listed     []hookProgram    // in all network namespaces
	programs   []hookProgram    // in this one
	lookups    []ebpf.ProgramID // that choose listeners
	virtual    []virtualServer
	local      []netip.Prefix // this machine's own addresses; nil: not known
	unreadable []Finding

	judging atomic.Int64 // how long verdicts have taken, ns
	mutex   sync.Mutex
	judged  map[question]Verdict // earlier verdicts: what was read does not change
}

// question is a Destination that can be compared.
type question struct {
	addr    netip.Addr
	port    uint16
	devices string
}

// answersKept bounds what is remembered of one survey.
const answersKept = 1 << 14

// legacyBase is a chain of a legacy table at a hook.
type legacyBase struct {
	base
	family family
}

// Read surveys the network namespace of the calling thread. Anything unreadable is a finding
// of every verdict.
func Read() *Machine {
	m := &Machine{chains: map[chainKey]*chain{}}
	var err error
	if m.nft, err = readNFT(); err != nil {
		m.nft = &nftRules{}
		m.fail("the rules of nftables", "nft list ruleset", err)
	}
	maps.Copy(m.chains, m.nft.byKey)
	for _, f := range []family{ipv4, ipv6} {
		tables, err := readLegacy(f)
		for _, t := range tables {
			if err == nil {
				err = m.addLegacy(t)
			}
		}
		if err != nil {
			m.fail("the rules of "+f.legacyTool(), f.legacyTool()+"-save", err)
		}
	}
	m.loose = readLoose()
	count, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	m.tracked = err == nil && strings.TrimSpace(string(count)) != "0"
	if m.listed, err = listPrograms(); err != nil {
		m.fail("BPF programs at netfilter's hooks", "bpftool link show", err)
	}
	m.programs = onlyHere(m.listed)
	if m.lookups, err = socketLookups(); err != nil {
		m.fail("BPF programs that choose listeners", "bpftool net", err)
	}
	if m.virtual, err = readVirtual(); err != nil {
		m.fail("the services of IPVS", "ipvsadm -Ln", err)
	}
	if m.links, err = readLinks(); err != nil {
		m.fail("the network devices", "ip -d link", err)
	}
	if m.local, err = readLocal(m.links); err != nil {
		m.fail("the local addresses", "ip route show table all type local", err)
	}
	return m
}

func (m *Machine) fail(what, show string, err error) {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if errors.Is(err, os.ErrPermission) {
		text += " (run as root; until then every connection is translated)"
	}
	m.unreadable = append(m.unreadable, Finding{Unreadable, fmt.Sprintf("%s cannot be read: %s", what, text), show})
}

// legacyPriorities are where the tables stand at a hook, as nftables counts.
var legacyPriorities = map[string]int32{"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}

func (m *Machine) addLegacy(t *legacyTable) error {
	m.legacy = append(m.legacy, t)
	atHook, err := t.parse(m.chains)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	for i, c := range atHook {
		h, there := ipHooks[uint32(i)]
		if c == nil || !there || t.name == "nat" && h != hookPrerouting {
			continue
		}
		m.bases = append(m.bases, legacyBase{base{c, h, legacyPriorities[t.name], t.name == "nat"}, t.family})
	}
	return nil
}

// ipHooks are the hooks that matter here; what is forwarded is not adopted.
var ipHooks = map[uint32]hook{unix.NF_INET_PRE_ROUTING: hookPrerouting, unix.NF_INET_LOCAL_IN: hookInput,
	unix.NF_INET_LOCAL_OUT: hookOutput, unix.NF_INET_POST_ROUTING: hookPostrouting}

// Hooks of one device, from linux/netfilter.h.
const (
	inetIngress   = 5
	netdevIngress = 0
	netdevEgress  = 1
)

// place says at which hook a chain meets packets of a family that come by a device, if at any.
func (c *nftChain) place(f family, device string) (h hook, there bool) {
	ours := device == "" || len(c.devices) == 0 || slices.Contains(c.devices, device)
	switch {
	case !c.base:
		return 0, false
	case c.family == unix.NFPROTO_NETDEV && c.hook == netdevIngress, c.family == unix.NFPROTO_INET && c.hook == inetIngress:
		return hookIngress, ours
	case c.family == unix.NFPROTO_NETDEV && c.hook == netdevEgress:
		return hookEgress, ours
	case !c.family.sees(f):
		return 0, false
	}
	h, there = ipHooks[c.hook]
	return h, there && (c.typ != "nat" || h == hookPrerouting) // answers are translated without a look at rules
}

// basesOf are the chains that packets of a family pass that come by a device, or answers.
func (m *Machine) basesOf(f family, device string, answers bool) (list []base) {
	for _, c := range m.nft.chains {
		if h, there := c.place(f, device); there && h.answers() == answers {
			list = append(list, base{&c.chain, h, c.priority, c.typ == "nat"})
		}
	}
	for _, b := range m.bases {
		if b.family == f && b.hook.answers() == answers {
			list = append(list, b.base)
		}
	}
	return list
}

const looseSysctl = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose"

// readLoose: without connection tracking there is no such value, and nothing to be strict.
func readLoose() bool {
	text, err := os.ReadFile(looseSysctl)
	return errors.Is(err, os.ErrNotExist) || strings.TrimSpace(string(text)) != "0"
}

// Judge returns the verdict on connections to a destination. Repeated calls are cheap; the
// result must not be changed.
func (m *Machine) Judge(d Destination) Verdict {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	q := question{d.Addr, d.Port, strings.Join(d.Interfaces, " ")}
	if v, there := m.judged[q]; there {
		return v
	}
	if m.judged == nil || len(m.judged) >= answersKept {
		m.judged = map[question]Verdict{}
	}
	began := time.Now()
	v := m.judge(d)
	m.judging.Add(int64(time.Since(began)))
	m.judged[q] = v
	return v
}

// Elsewhere says whether something here may give connections to a destination to another machine or port, or a BPF program choose the listener, so that
// it needs none there. It looks at much less than Judge.
func (m *Machine) Elsewhere(d Destination) bool {
	m.mutex.Lock() // rules are tried with scratch space of their own
	defer m.mutex.Unlock()
	if m.ChoosesListeners() || len(m.judgeVirtual(d)) > 0 {
		return true
	}
	f := familyOf(d.Addr)
	devices := d.Interfaces
	if len(devices) == 0 {
		devices = []string{""}
	}
	for _, device := range devices {
		bases := m.translations(f, device)
		if len(bases) == 0 {
			continue
		}
		began := time.Now()
		name, index := m.links.inputDevice(device)
		w := &walker{chains: m.chains, packets: variants(f, d, name, index, m.isLocal(d.Addr), false, m.loose)}
		w.through(bases)
		m.judging.Add(int64(time.Since(began)))
		if slices.ContainsFunc(w.found, func(f Finding) bool { return f.ID == DNAT }) {
			return true
		}
	}
	return false
}

// MaySendElsewhere is false if no destination of the address's family is sent elsewhere.
func (m *Machine) MaySendElsewhere(a netip.Addr) bool {
	return m.ChoosesListeners() || len(m.virtual) > 0 || len(m.translations(familyOf(a), "")) > 0
}

// translations are the chains by which destinations are translated; those without rules are left out.
func (m *Machine) translations(f family, device string) []base {
	return slices.DeleteFunc(m.basesOf(f, device, false), func(b base) bool { return !b.nat || len(b.chain.rules) == 0 })
}

func (m *Machine) judge(d Destination) Verdict {
	f := familyOf(d.Addr)
	found := append(m.judgeVirtual(d), m.judgePrograms(f)...)
	devices := d.Interfaces
	if len(devices) == 0 {
		devices = []string{""}
	}
	for _, device := range devices {
		found = append(found, m.links.judge(device)...)
		found = append(found, m.judgeRules(f, d, device)...)
	}
	return verdict(append(found, m.unreadable...))
}

func (m *Machine) judgeRules(f family, d Destination, device string) []Finding {
	name, index := m.links.inputDevice(device)
	untracked := true
	var found []Finding
	for _, answers := range []bool{false, true} {
		w := &walker{chains: m.chains, packets: variants(f, d, name, index, m.isLocal(d.Addr), answers, m.loose)}
		w.through(m.basesOf(f, device, answers))
		found = append(found, w.found...)
		for _, p := range w.packets {
			untracked = untracked && p.state == ctUntracked
		}
	}
	if !untracked {
		found = append(m.natHooks(f), found...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// rank puts the most important first.
func rank(f Finding) int {
	if i := slices.Index([]string{DirectServer, VirtualServer, DNAT, SYNProxy, TProxy, Queue, NATHooks}, f.ID); i >= 0 {
		return i
	}
	return math.MaxInt
}

// isLocal says whether an address is this machine's; all addresses are those that it has.
func (m *Machine) isLocal(a netip.Addr) match {
	if a.IsUnspecified() {
		return yes
	}
	if m.local == nil {
		return maybe
	}
	return matched(slices.ContainsFunc(m.local, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) }))
}

// natHooks: chains of NAT, even empty ones, register the hooks of NAT; together with connection
// tracking these take the socket off an adopted connection's first packet (docs/decisions).
func (m *Machine) natHooks(f family) []Finding {
	const why = "connection tracking with NAT: the kernel takes the socket off an adopted connection's first packet"
	if !m.tracks() {
		return nil
	}
	for _, c := range m.nft.chains {
		if c.typ == "nat" && c.of(f) {
			return []Finding{{NATHooks, fmt.Sprintf("%s (nftables table %s %s)", why, c.family, c.table),
				fmt.Sprintf("nft list table %s %s", c.family, c.table)}}
		}
	}
	for _, t := range m.legacy {
		if t.family == f && t.name == "nat" {
			return []Finding{{NATHooks, fmt.Sprintf("%s (%s table nat)", why, f.legacyTool()), f.legacyTool() + "-save -t nat"}}
		}
	}
	return nil
}

// tracks says whether connections may be tracked: a rule asks for it, or some are.
func (m *Machine) tracks() bool {
	tracks := m.nft.tracks
	for _, t := range m.legacy {
		tracks = tracks || t.tracks()
	}
	return tracks || m.tracked
}
