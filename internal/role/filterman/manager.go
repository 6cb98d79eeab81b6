// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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
	Refused   State = "refused"
)

// Entry is a filter that this manager has requested.
type Entry struct {
	Request
	State   State          `json:"state"`
	Code    string         `json:"code,omitempty"` // why it was refused
	BM      netip.AddrPort `json:"border_manager"`
	Proven  bool           `json:"proven"`
	Since   time.Time      `json:"since"`
	LastHit time.Time      `json:"last_hit"`
	Packets uint64         `json:"packets"`
	Bytes   uint64         `json:"bytes"`

	filter   ifp.Filter
	endpoint upstream.Endpoint
	dirty    bool // differs from the store
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
	dirty      []*Entry // entries that Keep has to write
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

// entriesMax bounds the filters that detectors may request.
const entriesMax = 4 << 20

// Reasons not to send a request.
var (
	ErrNotTrue  = errors.New("the source may be somebody else's: its packets carry no true-source codepoint, and no gate has seen its handshake; nothing is asked for (low priority is all that such traffic gets)")
	ErrNotOurs  = errors.New("the destination is not one that this filter manager speaks for; see `own:`")
	ErrNever    = errors.New("the source is excepted by `never:`")
	ErrNoBorder = errors.New("no border manager is known for the source; its network does not take part")
	ErrTooMany  = errors.New("too many filters; remove some")
)

// NewManager makes a manager. Call Watch to have it maintain its filters.
func NewManager(opt Options) *Manager {
	m := &Manager{opt: opt, entries: map[entryKey]*Entry{}}
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
	errs := make([]error, len(list))
	groups := map[groupKey]*group{}
	now, policy := time.Now(), m.policy.Load()
	var lastKey groupKey
	var last *group
	// One allocation for all, and the lock taken once: that is most of the
	// cost of a list of filters.
	slab := make([]Entry, len(list))
	for i := range list {
		errs[i] = m.judge(policy, &slab[i], &list[i], now)
	}
	m.note(policy, slab, errs)
	for i := range slab {
		e := &slab[i]
		if errs[i] != nil {
			continue
		}
		k := groupKey{e.endpoint.Addr, e.Request.kind(), e.Src.Addr().Is4()}
		if last == nil || k != lastKey {
			if lastKey, last = k, groups[k]; last == nil {
				last = &group{bm: e.endpoint}
				groups[k] = last
			}
		}
		last.entries = append(last.entries, e)
	}
	for k, g := range groups {
		m.send(k.kind, g, !k.v4, func(part []*Entry, o Outcome) { m.installed(part, o, done) })
	}
	return errs
}

type groupKey struct {
	bm   netip.AddrPort
	kind ifp.Type
	v4   bool
}

type group struct {
	bm      upstream.Endpoint
	entries []*Entry
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
	bm, ok := m.opt.Authority.BorderManagerFor(r.Src.Addr())
	if !ok {
		return ErrNoBorder
	}
	*e = Entry{Request: *r, State: Asked, BM: bm.Addr, Since: now, LastHit: now, filter: f, endpoint: bm}
	return nil
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
func (m *Manager) note(judgedBy *Policy, slab []Entry, errs []error) {
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
		k := keyOf(slab[i].Src, slab[i].Dst)
		if len(m.entries) >= entriesMax && m.entries[k] == nil {
			errs[i] = ErrTooMany
			continue
		}
		m.entries[k] = &slab[i]
		m.changed(&slab[i])
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
func (m *Manager) send(kind ifp.Type, g *group, ipv6 bool, answered func([]*Entry, Outcome)) {
	per := ifp.PerMessage(ipv6)
	if m.opt.PerMessage > 0 {
		per = min(per, m.opt.PerMessage)
	}
	jobs := make([]Job, 0, (len(g.entries)+per-1)/per)
	filters := make([]ifp.Filter, len(g.entries))
	for i, e := range g.entries {
		filters[i] = e.filter
	}
	for begin := 0; begin < len(g.entries); begin += per {
		end := min(begin+per, len(g.entries))
		part := g.entries[begin:end]
		jobs = append(jobs, Job{Kind: kind, Filters: filters[begin:end], BM: g.bm, Proof: m.policy.Load().Proof && kind != ifp.Stats,
			Done: func(o Outcome) { answered(part, o) }})
	}
	m.opt.Engine.Do(jobs...)
}

// installed records the answer to a message and passes each filter's to done, if there is one.
func (m *Manager) installed(part []*Entry, o Outcome, done func(Entry, error)) {
	errs := make([]error, len(part))
	m.mu.Lock()
	for i, e := range part {
		e.State, e.Proven = Installed, o.Proven
		if errs[i] = o.Err; o.Err == nil && o.Codes[i] != ifp.OK {
			errs[i] = refusal(o.Codes[i], e.Src, e.Dst)
			e.Code = o.Codes[i].String()
		}
		if errs[i] != nil {
			e.State = Refused
			if e.Code == "" {
				e.Code = errs[i].Error()
			}
		}
		m.changed(e)
	}
	if done == nil {
		m.mu.Unlock()
		return
	}
	copies := make([]Entry, len(part)) // the lock once for all: List may hold it for long
	for i, e := range part {
		copies[i] = *e
	}
	m.mu.Unlock()
	for i := range copies {
		done(copies[i], errs[i])
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
	case ifp.TooManyShapes:
		why = fmt.Sprintf(": other networks hold the patrol's places for pairs of prefix lengths such as /%d to /%d; split the filter: %s", src.Bits(), dst.Bits(), open)
	case ifp.OverShare:
		why = fmt.Sprintf(": the patrol has no further place for a pair of prefix lengths such as /%d to /%d, and you hold your share; take back one of yours, or split the filter: %s", src.Bits(), dst.Bits(), open)
	}
	return fmt.Errorf("the border manager says %v%s", code, why)
}

// counted records a filter's counters.
func (m *Manager) counted(e *Entry, s ifp.Stat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s.Code {
	case ifp.NotFound: // expired, or its patrol lost it
		m.forget(e)
	case ifp.OK:
		if s.Packets != e.Packets {
			e.LastHit = time.Now()
		}
		e.Packets, e.Bytes = s.Packets, s.Bytes
	}
}

func (m *Manager) forget(e *Entry) {
	k := keyOf(e.Src, e.Dst)
	if m.entries[k] == e {
		delete(m.entries, k)
		m.changed(e)
	}
}

// List returns the requested filters, in no order.
func (m *Manager) List() []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Entry, 0, len(m.entries))
	for _, e := range m.entries {
		list = append(list, *e)
	}
	return list
}

// ErrUnknown: this manager has not requested the filter.
var ErrUnknown = errors.New("no such filter; `tidegate filter list` shows those that are")

// Remove removes a filter; done as for Add.
func (m *Manager) Remove(src, dst netip.Prefix, done func(Entry, error)) error {
	m.mu.Lock()
	e := m.entries[keyOf(src.Masked(), dst.Masked())]
	m.mu.Unlock()
	if e == nil {
		return ErrUnknown
	}
	m.removeAll([]*Entry{e}, done)
	return nil
}

// removeAll removes filters. Which of the two filters a conditional request
// installed is not known, so both are removed.
func (m *Manager) removeAll(list []*Entry, done func(Entry, error)) {
	for _, e := range list {
		filters := []ifp.Filter{e.filter}
		if e.Reflected {
			filters = e.variants()
		}
		m.opt.Engine.Do(Job{Kind: ifp.Remove, Filters: filters, BM: e.endpoint, Done: func(o Outcome) {
			m.mu.Lock()
			defer m.mu.Unlock()
			err := o.Err
			gone := false
			for _, c := range o.Codes {
				gone = gone || c == ifp.OK || c == ifp.NotFound
			}
			if err == nil && !gone {
				err = fmt.Errorf("the border manager says %v", o.Codes[0])
			}
			if err == nil {
				m.forget(e)
			}
			if done != nil {
				copied := *e
				go done(copied, err)
			}
		}})
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
	groups := map[groupKey]*group{}
	var idle, reflected []*Entry
	limit := m.policy.Load().Idle
	m.mu.Lock()
	for _, e := range m.entries {
		if e.State == Refused && now.Sub(e.Since) > limit {
			m.forget(e)
			continue
		}
		if e.State != Installed {
			continue
		}
		if now.Sub(e.LastHit) > limit {
			idle = append(idle, e)
			continue
		}
		if e.Reflected {
			reflected = append(reflected, e)
			continue
		}
		k := groupKey{e.endpoint.Addr, ifp.Stats, e.Src.Addr().Is4()}
		if groups[k] == nil {
			groups[k] = &group{bm: e.endpoint}
		}
		groups[k].entries = append(groups[k].entries, e)
	}
	m.mu.Unlock()
	if len(idle) > 0 {
		m.opt.Log.Info("removed filters that no longer match anything", "filters", len(idle))
		m.removeAll(idle, nil)
	}
	for k, g := range groups {
		m.send(ifp.Stats, g, !k.v4, func(part []*Entry, o Outcome) {
			for i, s := range o.Stats { // none if there was no answer
				m.counted(part[i], s)
			}
		})
	}
	for _, e := range reflected {
		m.opt.Engine.Do(Job{Kind: ifp.Stats, Filters: e.variants(), BM: e.endpoint, Done: func(o Outcome) {
			if o.Err == nil && len(o.Stats) == 2 {
				s := o.Stats[0]
				if s.Code != ifp.OK {
					s = o.Stats[1]
				}
				m.counted(e, s)
			}
		}})
	}
}
