// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// Witness is how a detector knows that a source is true.
type Witness string

// Witnesses.
const (
	SeenTS      Witness = "ts"        // its packets came with the true-source codepoint
	SeenNoTS    Witness = "no-ts"     // they came without it
	Handshake   Witness = "handshake" // it has completed a handshake with a gate
	SeenUnknown Witness = "unknown"
)

// Request is a filter that a detector requests.
type Request struct {
	Src       netip.Prefix  `json:"src"`
	Dst       netip.Prefix  `json:"dst"`
	Witness   Witness       `json:"witness"`
	Reflected bool          `json:"reflected,omitempty"` // Src is a reflector: request conditionally (Terminus, III.D)
	Expires   time.Duration `json:"expires_ns,omitempty"`
	Floor     uint32        `json:"floor,omitempty"` // packets/s, rounded down to a power of two: the filter expires when it matches fewer
	Detector  string        `json:"detector,omitempty"`
}

// State of a filter at this manager.
type State string

// States.
const (
	Asked     State = "asked"
	Installed State = "installed"
	Partial   State = "partial" // installed by some of several border managers
	Refused   State = "refused"
	Gone      State = "gone" // of one of several border managers: it no longer has the filter
)

// Site is a filter at one border manager.
type Site struct {
	State   State          `json:"state"`
	Code    string         `json:"code,omitempty"` // why it was refused
	BM      netip.AddrPort `json:"border_manager"`
	Proven  bool           `json:"proven"`
	Packets uint64         `json:"packets"`
	Bytes   uint64         `json:"bytes"`

	endpoint upstream.Endpoint
	of       *Entry
}

// Entry is a filter that this manager has requested.
type Entry struct {
	Request
	Site              // of several border managers: the sum of Borders, and no address
	Since   time.Time `json:"since"`
	LastHit time.Time `json:"last_hit"`
	Borders []Site    `json:"borders,omitempty"` // if the source is in the networks of several (wide.go)

	filter ifp.Filter
	dirty  bool // differs from the store
}

// Options of a filter manager.
type Options struct {
	Engine    *Engine
	Authority upstream.Authority
	Own       []netip.Prefix // these six: the first Policy
	Never     []netip.Prefix
	Expires   time.Duration
	Floor     uint32
	Idle      time.Duration
	Proof     bool
	Log       *slog.Logger

	PerMessage int // filters in one message; 0: as many as fit

	Store *Store // keeps the list across restarts; nil: it is lost
}

// Manager keeps the requested filters.
type Manager struct {
	opt        Options
	EVESkipped atomic.Uint64 // lines of Suricata's log that were too long
	mu         sync.Mutex
	entries    map[entryKey]*Entry
	sites      int            // of entries
	dirty      []*Entry       // entries that Keep has to write
	held       map[string]int // sites by detector, of those that are bounded (detectors.go)
	detectors  atomic.Pointer[map[string]*detector]
	policy     atomic.Pointer[Policy]
}

// entryKey is source and destination without pointers: millions of them cost the
// garbage collector nothing.
type entryKey struct {
	src, dst         [16]byte
	srcBits, dstBits uint8
	v4               bool
}

func keyOf(src, dst netip.Prefix) entryKey {
	return entryKey{src.Addr().As16(), dst.Addr().As16(), uint8(src.Bits()), uint8(dst.Bits()), src.Addr().Is4()}
}

// sitesMax bounds the filters that detectors may request, each counted once for each of its border managers.
const sitesMax = 4 << 20

// Reasons not to send a request.
var (
	ErrNotTrue  = errors.New("the source may be somebody else's: its packets carry no true-source codepoint, and no gate has seen its handshake; nothing is asked for (low priority is all that such traffic gets)")
	ErrNotOurs  = errors.New("the destination is not one that this filter manager speaks for; see `own:`")
	ErrNever    = errors.New("the source is excepted by `never:`")
	ErrNoBorder = errors.New("no border manager is known for the source; its network does not take part")
	ErrTooWide  = fmt.Errorf("the source is in the networks of more than %d border managers; name a narrower one", bordersMax)
	ErrTooMany  = errors.New("too many filters; remove some")
)

// NewManager makes a manager. Call Watch to have it maintain its filters.
func NewManager(opt Options) *Manager {
	m := &Manager{opt: opt, entries: map[entryKey]*Entry{}, held: map[string]int{}}
	m.policy.Store(&Policy{Own: opt.Own, Never: opt.Never, Expires: opt.Expires, Floor: opt.Floor, Idle: opt.Idle, Proof: opt.Proof})
	return m
}

// Add judges a request and sends it. done, which may be nil, is called when the
// border manager has answered; it must not wait.
func (m *Manager) Add(r Request, done func(Entry, error)) error {
	return m.AddAll([]Request{r}, func(e Entry, err error) {
		if done != nil {
			done(e, err)
		}
	})[0]
}

// AddAll does the same for many at once, in full messages. The errors are those of
// judging, one for each request, nil for those that were sent.
func (m *Manager) AddAll(list []Request, done func(Entry, error)) []error {
	return m.addAll(nil, list, done)
}

// addAll adds filters for a detector on another machine, or, if by is nil, of this one.
func (m *Manager) addAll(by *detector, list []Request, done func(Entry, error)) []error {
	errs := make([]error, len(list))
	groups := grouped{}
	now, policy := time.Now(), m.policy.Load()
	var lastKey groupKey
	var last *group
	// One allocation for all, and the lock taken once: that is most of the
	// cost of a list of filters.
	slab := make([]Entry, len(list))
	for i := range list {
		if by != nil {
			list[i].Detector = by.owner()
		}
		errs[i] = m.judge(policy, &slab[i], &list[i], now)
	}
	m.note(by, policy, slab, errs)
	for i := range slab {
		e := &slab[i]
		if errs[i] != nil {
			continue
		}
		for at := range e.sites {
			k := groupKey{at.endpoint.Addr, e.Request.kind(), e.Src.Addr().Is4()}
			if last == nil || k != lastKey {
				lastKey, last = k, groups.of(k, at)
			}
			last.sites = append(last.sites, at)
		}
	}
	for k, g := range groups {
		m.send(k.kind, g, !k.v4, func(part []*Site, o Outcome) { m.installed(part, o, done) })
	}
	return errs
}

type groupKey struct {
	bm   netip.AddrPort
	kind ifp.Type
	v4   bool
}

type group struct {
	bm    upstream.Endpoint
	sites []*Site
}

// grouped are filters by the messages in which they fit together.
type grouped map[groupKey]*group

// of returns the group of a key, a new one for the site's border manager if need be.
func (gs grouped) of(k groupKey, at *Site) *group {
	g := gs[k]
	if g == nil {
		g = &group{bm: at.endpoint}
		gs[k] = g
	}
	return g
}

// judge decides whether to send a request, and writes the filter to e.
func (m *Manager) judge(policy *Policy, e *Entry, r *Request, now time.Time) error {
	r.Src, r.Dst = r.Src.Masked(), r.Dst.Masked()
	if r.Expires == 0 {
		r.Expires = policy.Expires
	}
	if r.Floor == 0 {
		r.Floor = policy.Floor
	}
	f := r.filter()
	if err := f.Check(); err != nil {
		return err
	}
	if r.Witness != SeenTS && r.Witness != Handshake {
		return ErrNotTrue
	}
	if err := policy.allows(r); err != nil {
		return err
	}
	*e = Entry{Request: *r, Since: now, LastHit: now, filter: f}
	if !r.Src.IsSingleIP() {
		return e.placeWide(m.opt.Authority)
	}
	bm, ok := m.opt.Authority.BorderManagerFor(r.Src.Addr())
	if !ok {
		return ErrNoBorder
	}
	e.Site = siteAt(e, bm)
	return nil
}

// siteAt is the site of a filter that is yet to be requested from a border manager.
func siteAt(e *Entry, bm upstream.Endpoint) Site {
	return Site{State: Asked, BM: bm.Addr, endpoint: bm, of: e}
}

// floorWindowS is the period, in seconds, over which a patrol compares a filter's rate with its floor.
const floorWindowS = 10

// filter is the filter that is requested from a border manager.
func (r *Request) filter() ifp.Filter {
	f := ifp.Filter{Src: r.Src, Dst: r.Dst, Action: ifp.Block, Direction: ifp.FromCustomer, ExpiresS: uint32(min(r.Expires/time.Second, ifp.MaxExpiresS))}
	if f.FloorLog2 = ifp.FloorOf(float64(r.Floor)); f.FloorLog2 > 0 {
		f.WindowS = floorWindowS
	}
	if r.Reflected { // docs/ifp.md: CONDITIONAL names victim, then reflector
		f.Src, f.Dst = r.Dst, r.Src
	}
	return f
}

// kind is the type of the request message.
func (r *Request) kind() ifp.Type {
	if r.Reflected {
		return ifp.Conditional
	}
	return ifp.Install
}

// note adds the accepted entries to the list, unless a policy that came into force since they were judged forbids them.
func (m *Manager) note(by *detector, judgedBy *Policy, slab []Entry, errs []error) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	policy := m.policy.Load()
	for i := range slab {
		if errs[i] == nil && policy != judgedBy {
			errs[i] = policy.allows(&slab[i].Request)
		}
		if errs[i] != nil {
			continue
		}
		k, e := keyOf(slab[i].Src, slab[i].Dst), &slab[i]
		old := m.entries[k]
		n := e.siteCount()
		if old != nil {
			n -= old.siteCount()
		}
		if n > 0 && m.sites+n > sitesMax {
			errs[i] = ErrTooMany
			continue
		}
		if by != nil {
			if errs[i] = m.mayAdd(by, e, old, now); errs[i] != nil {
				continue
			}
		}
		if old != nil {
			m.count(old, -1)
		}
		m.entries[k] = e
		m.count(e, 1)
		m.changed(e)
	}
}

func coveredBy(p netip.Prefix, list []netip.Prefix) bool {
	for _, q := range list {
		if q.Bits() <= p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func overlaps(p netip.Prefix, list []netip.Prefix) bool {
	for _, q := range list {
		if q.Overlaps(p) {
			return true
		}
	}
	return false
}

// send puts a group's filters into messages; answered is called for each message.
func (m *Manager) send(kind ifp.Type, g *group, ipv6 bool, answered func([]*Site, Outcome)) {
	per := ifp.PerMessage(ipv6)
	if m.opt.PerMessage > 0 {
		per = min(per, m.opt.PerMessage)
	}
	jobs := make([]Job, 0, (len(g.sites)+per-1)/per)
	filters := make([]ifp.Filter, len(g.sites))
	for i, at := range g.sites {
		filters[i] = at.of.filter
	}
	for begin := 0; begin < len(g.sites); begin += per {
		end := min(begin+per, len(g.sites))
		part := g.sites[begin:end]
		jobs = append(jobs, Job{Kind: kind, Filters: filters[begin:end], BM: g.bm, Proof: m.policy.Load().Proof && kind != ifp.Stats,
			Done: func(o Outcome) { answered(part, o) }})
	}
	m.opt.Engine.Do(jobs...)
}

// installed records the answer to a message. A filter whose border managers have all answered is passed to done, if there is one.
func (m *Manager) installed(part []*Site, o Outcome, done func(Entry, error)) {
	errs := make([]error, len(part))
	var copies []Entry
	m.mu.Lock()
	if done != nil {
		copies = make([]Entry, len(part)) // the lock once for all: List may hold it for long
	}
	for i, at := range part {
		e := at.of
		at.State, at.Proven = Installed, o.Proven
		if errs[i] = o.Err; o.Err == nil && o.Codes[i] != ifp.OK {
			errs[i] = refusal(o.Codes[i], e.Src, e.Dst)
			at.Code = o.Codes[i].String()
		}
		if errs[i] != nil {
			at.State = Refused
			if at.Code == "" {
				at.Code = errs[i].Error()
			}
		}
		if e.Borders != nil {
			errs[i] = e.sum()
		}
		m.changed(e)
		if done != nil {
			copies[i] = e.copied()
		}
	}
	m.mu.Unlock()
	for i := range copies {
		if copies[i].State != Asked {
			done(copies[i], errs[i])
		}
	}
}

// refusal explains a code to the requester of this filter.
func refusal(code ifp.Code, src, dst netip.Prefix) error {
	why := ""
	open := "/32, /24 or /0 to /32 always has a place"
	if src.Addr().Is6() {
		open = "/128, /64 or /0 to /128 always has a place"
	}
	switch code {
	case ifp.TableFull:
		why = ": the patrol's table is full, and your network holds its share of it; remove filters that matter less"
	case ifp.TooManyShapes:
		why = fmt.Sprintf(": other networks hold the patrol's places for pairs of prefix lengths such as /%d to /%d; split the filter: %s", src.Bits(), dst.Bits(), open)
	case ifp.OverShare:
		why = fmt.Sprintf(": the patrol has no further place for a pair of prefix lengths such as /%d to /%d, and you hold your share; take back one of yours, or split the filter: %s", src.Bits(), dst.Bits(), open)
	}
	return fmt.Errorf("the border manager says %v%s", code, why)
}

// counted records a border manager's counters of a filter.
func (m *Manager) counted(at *Site, s ifp.Stat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := at.of
	switch s.Code {
	case ifp.NotFound: // expired, or its patrol lost it
		at.State = Gone
		if e.Borders != nil {
			_ = e.sum()
			m.changed(e)
		}
		if e.State == Gone {
			m.forget(e)
		}
	case ifp.OK:
		if s.Packets != at.Packets {
			e.LastHit = time.Now()
		}
		at.Packets, at.Bytes = s.Packets, s.Bytes
		if e.Borders != nil {
			_ = e.sum()
		}
	}
}

func (m *Manager) forget(e *Entry) {
	k := keyOf(e.Src, e.Dst)
	if m.entries[k] == e {
		delete(m.entries, k)
		m.count(e, -1)
		m.changed(e)
	}
}

// count enters an entry's sites (1), or strikes them out (-1).
func (m *Manager) count(e *Entry, sign int) {
	n := sign * e.siteCount()
	m.sites += n
	if strings.HasPrefix(e.Detector, remote) {
		if m.held[e.Detector] += n; m.held[e.Detector] == 0 {
			delete(m.held, e.Detector)
		}
	}
}

// List returns the requested filters, in no order.
func (m *Manager) List() []Entry { return m.listOf(nil) }

// listOf returns the filters of a detector, or all if by is nil.
func (m *Manager) listOf(by *detector) []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.entries)
	if by != nil {
		n = m.held[by.owner()]
	}
	list := make([]Entry, 0, n)
	for _, e := range m.entries {
		if by == nil || e.Detector == by.owner() {
			list = append(list, e.copied())
		}
	}
	return list
}

// ErrUnknown: this manager has not requested the filter.
var ErrUnknown = errors.New("no such filter; `tidegate filter list` shows those that are")

// Remove removes a filter; done as for Add.
func (m *Manager) Remove(src, dst netip.Prefix, done func(Entry, error)) error {
	return m.remove(nil, src, dst, done)
}

// remove removes a filter for a detector, which may remove only its own.
func (m *Manager) remove(by *detector, src, dst netip.Prefix, done func(Entry, error)) error {
	m.mu.Lock()
	e := m.entries[keyOf(src.Masked(), dst.Masked())]
	m.mu.Unlock()
	if e == nil || by != nil && e.Detector != by.owner() {
		return ErrUnknown
	}
	m.removeAll([]*Entry{e}, time.Now(), done)
	return nil
}

// removeAll removes filters, each from all its border managers. Which of the two filters a conditional request
// installed is not known, so both are removed.
func (m *Manager) removeAll(list []*Entry, now time.Time, done func(Entry, error)) {
	for _, e := range list {
		filters := []ifp.Filter{e.filter}
		if e.Reflected {
			filters = e.variants()
		}
		r := &removal{e: e, left: e.siteCount(), expired: e.Expires > 0 && now.Sub(e.Since) > e.Expires, done: done}
		for at := range e.sites {
			m.opt.Engine.Do(Job{Kind: ifp.Remove, Filters: filters, BM: at.endpoint, Done: func(o Outcome) { m.removed(r, at, o) }})
		}
	}
}

// removal of one filter; with the manager's mu.
type removal struct {
	e    *Entry
	left int // border managers that have not answered
	err  error
	done func(Entry, error)

	expired bool // it is gone whatever they answer
}

// removed records a border manager's answer. The answer of one that has refused the filter anyway does not matter.
func (m *Manager) removed(r *removal, at *Site, o Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := o.Err
	gone := at.State == Refused || at.State == Gone
	for _, c := range o.Codes {
		gone = gone || c == ifp.OK || c == ifp.NotFound
	}
	if err == nil && !gone {
		err = fmt.Errorf("the border manager says %v", o.Codes[0])
	}
	if gone {
		at.State = Gone
	} else if r.err == nil {
		r.err = err
	}
	if r.left--; r.left > 0 {
		return
	}
	if r.err == nil || r.expired {
		m.forget(r.e)
	} else if r.e.Borders != nil {
		_ = r.e.sum()
		m.changed(r.e)
	}
	if r.done != nil {
		copied := r.e.copied()
		go r.done(copied, r.err)
	}
}

// variants are the two filters that a conditional request may have become.
func (e *Entry) variants() []ifp.Filter {
	a, b := e.filter, e.filter
	a.Action, a.Direction = ifp.BlockTS0, ifp.ToCustomer
	b.Src, b.Dst, b.Action, b.Direction = e.filter.Dst, e.filter.Src, ifp.ClearTS, ifp.FromCustomer
	return []ifp.Filter{a, b}
}

// Tick requests the counters of all filters and removes those not hit for long.
func (m *Manager) Tick(now time.Time) {
	groups := grouped{}
	var idle []*Entry
	var reflected []*Site
	limit := m.policy.Load().Idle
	m.mu.Lock()
	for _, e := range m.entries {
		if e.State == Refused && now.Sub(e.Since) > limit {
			m.forget(e)
			continue
		}
		if e.State != Installed && e.State != Partial {
			continue
		}
		if now.Sub(e.LastHit) > limit {
			idle = append(idle, e)
			continue
		}
		for at := range e.sites {
			if at.State != Installed {
				continue
			}
			if e.Reflected {
				reflected = append(reflected, at)
				continue
			}
			g := groups.of(groupKey{at.endpoint.Addr, ifp.Stats, e.Src.Addr().Is4()}, at)
			g.sites = append(g.sites, at)
		}
	}
	m.mu.Unlock()
	if len(idle) > 0 {
		m.opt.Log.Info("removed filters that no longer match anything", "filters", len(idle))
		m.removeAll(idle, now, nil)
	}
	for k, g := range groups {
		m.send(ifp.Stats, g, !k.v4, func(part []*Site, o Outcome) {
			for i, s := range o.Stats { // none if there was no answer
				m.counted(part[i], s)
			}
		})
	}
	for _, at := range reflected {
		m.opt.Engine.Do(Job{Kind: ifp.Stats, Filters: at.of.variants(), BM: at.endpoint, Done: func(o Outcome) {
			if o.Err == nil && len(o.Stats) == 2 {
				s := o.Stats[0]
				if s.Code != ifp.OK {
					s = o.Stats[1]
				}
				m.counted(at, s)
			}
		}})
	}
}
