// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bytes"
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

// Request is a filter that a detector requests.
type Request struct {
	Src       netip.Prefix  `json:"src"`
	Dst       netip.Prefix  `json:"dst"`
	Witness   Witness       `json:"witness"`
	Reflected bool          `json:"reflected,omitempty"` // Src is a reflector: request conditionally (Terminus, III.D)
	Floor     uint32        `json:"floor,omitempty"`     // packets/s, rounded down to a power of two: the filter expires when it matches fewer
	Expires   time.Duration `json:"expires_ns,omitempty"`
	Detector  string        `json:"detector,omitempty"`
}

// Site is a filter at one border manager.
type Site struct {
	State   State           `json:"state"`
	Proven  bool            `json:"proven"`
	Code    string          `json:"code,omitempty"` // why it was refused
	BM      *netip.AddrPort `json:"border_manager"` // never nil, never written to
	Packets uint64          `json:"packets"`
	Bytes   uint64          `json:"bytes"`

	endpoint *upstream.Endpoint // shared: never written to
	of       *Entry
}

// Entry is a filter that this manager has requested.
type Entry struct {
	Request
	Site            // of several border managers: the sum of Borders, and no address
	Since   Instant `json:"since"`
	LastHit Instant `json:"last_hit"`
	Borders []Site  `json:"borders,omitempty"` // if the source is in the networks of several (wide.go)

	dirty bool // differs from the store
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
	entries    *entryList
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
	m := &Manager{opt: opt, entries: newEntryList(), held: map[string]int{}}
	m.policy.Store(&Policy{Own: opt.Own, Never: opt.Never, Expires: opt.Expires, Floor: opt.Floor, Idle: opt.Idle, Proof: opt.Proof})
	return m
}

// Add judges a request and sends it. done, which may be nil, is called when the
// border manager has answered; it must not wait.
func (m *Manager) Add(r Request, done func(Entry, error)) error {
	return m.AddAll([]Request{r}, func(e *Entry, err error) {
		if done != nil {
			go done(e.copied(), err)
		}
	})[0]
}

// AddAll does the same for many at once, in full messages. The errors are those of
// judging, one for each request, nil for those that were sent. done is called with the manager's lock held, so that no
// filter is copied for it: it must not keep the entry, call the manager or wait.
func (m *Manager) AddAll(list []Request, done func(*Entry, error)) []error {
	return m.addAll(nil, list, done)
}

// addAll adds filters for a detector on another machine, or, if by is nil, of this one.
func (m *Manager) addAll(by *detector, list []Request, done func(*Entry, error)) []error {
	errs := make([]error, len(list))
	groups := grouped{}
	now, policy := InstantOf(time.Now()), m.policy.Load()
	var lastKey groupKey
	var last *group
	// One allocation for all, and the lock taken once: that is most of the
	// cost of a list of filters.
	slab := make([]Entry, len(list))
	touchPages(slab)
	before := previous{bm: &upstream.Endpoint{}}
	for i := range list {
		if by != nil {
			list[i].Detector = by.owner()
		}
		errs[i] = m.judge(policy, &slab[i], &list[i], now, &before)
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

// previous is what requests before had, which is often what the next one has.
type previous struct {
	bm   *upstream.Endpoint
	ours netip.Prefix // a destination that this manager speaks for
}

// judge decides whether to send a request, and writes the filter to e, which is empty.
func (m *Manager) judge(policy *Policy, e *Entry, r *Request, now Instant, before *previous) error {
	if !r.Src.IsSingleIP() || !r.Dst.IsSingleIP() {
		r.Src, r.Dst = r.Src.Masked(), r.Dst.Masked()
	}
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
	if r.Dst != before.ours {
		if !coveredBy(r.Dst, policy.Own) {
			return ErrNotOurs
		}
		before.ours = r.Dst
	}
	if err := policy.allowsFrom(r.Src); err != nil {
		return err
	}
	e.Request, e.Since, e.LastHit = *r, now, now
	if !r.Src.IsSingleIP() {
		return e.placeWide(m.opt.Authority)
	}
	bm, ok := m.opt.Authority.BorderManagerFor(r.Src.Addr())
	if !ok {
		return ErrNoBorder
	}
	if bm.Addr != before.bm.Addr || !bytes.Equal(bm.Key, before.bm.Key) {
		fresh := bm
		before.bm = &fresh
	}
	e.Site = siteAt(e, before.bm)
	return nil
}

// siteAt is the site of a filter that is yet to be requested from a border manager.
func siteAt(e *Entry, bm *upstream.Endpoint) Site {
	return Site{State: Asked, BM: &bm.Addr, endpoint: bm, of: e}
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
	var places []entryPlace
	for i := range slab {
		if i%aheadMax == 0 {
			places = m.entries.lookAhead(slab[i:])
		}
		if errs[i] == nil && policy != judgedBy {
			errs[i] = policy.allows(&slab[i].Request)
		}
		if errs[i] != nil {
			continue
		}
		p, e := &places[i%aheadMax], &slab[i]
		old := m.entries.getAt(p)
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
		m.entries.putAt(p, e)
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

func (m *Manager) forget(e *Entry) {
	k := keyOf(e.Src, e.Dst)
	if m.entries.get(k) == e {
		m.entries.remove(k)
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
	n := m.entries.len()
	if by != nil {
		n = m.held[by.owner()]
	}
	list := make([]Entry, 0, n)
	for e := range m.entries.all() {
		if by == nil || e.Detector == by.owner() {
			list = append(list, e.copied())
		}
	}
	return list
}
