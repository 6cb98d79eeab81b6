// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
)

// Options of a simulation.
type Options struct {
	Managers    int
	Bindings    int
	Degree      int           // links of a manager, on average
	Delay       time.Duration // of a link, one way
	LinkRate    float64       // bits/s of a link, each way
	Hostile     float64       // part of the managers
	VerifyCost  time.Duration // of one signature, on a manager's only processor
	MessageCost time.Duration // of one message, besides
	Limit       time.Duration // virtual time after which convergence is given up
	Seed        uint64
	Limits      flood.Limits
	Progress    func(format string, args ...any)
}

// DefaultOptions are the issue's: 80,000 bindings, 200 managers, links of 50 ms.
func DefaultOptions() Options {
	return Options{Managers: 200, Bindings: 80000, Degree: 8, Delay: 50 * time.Millisecond, LinkRate: 100e6,
		VerifyCost: 100 * time.Microsecond, MessageCost: 20 * time.Microsecond, Limit: 5 * time.Minute, Seed: 1}
}

// Validate names the option, what is wrong, and what would be right.
func (o *Options) Validate() error {
	switch {
	case o.Managers < 3 || o.Managers > 2000:
		return fmt.Errorf("--managers %d: want 3 to 2000", o.Managers)
	case o.Bindings < 1 || o.Bindings > 200000:
		return fmt.Errorf("--bindings %d: want 1 to 200000", o.Bindings)
	case o.Degree < 2 || o.Degree > 64 || o.Degree >= o.Managers:
		return fmt.Errorf("--degree %d: want 2 to 64, and less than there are managers", o.Degree)
	case o.Delay < 0 || o.Delay > time.Second:
		return fmt.Errorf("--delay %s: want 0 to 1s", o.Delay)
	case !(o.LinkRate >= 1e5 && o.LinkRate <= 1e11):
		return fmt.Errorf("--link-rate %g: want 1e5 to 1e11 bit/s", o.LinkRate)
	case !(o.Hostile >= 0 && o.Hostile <= 0.9):
		return fmt.Errorf("--hostile %g: want 0 to 0.9", o.Hostile)
	}
	return nil
}

// ErrSplit: hostile managers stand between honest ones; no protocol helps.
var ErrSplit = errors.New("the honest managers are not connected with each other; raise --degree or change --seed")

// memoryWanted is what 200 managers with 80,000 bindings are to fit into.
const memoryWanted = 3 << 30

// simulation is one run.
type simulation struct {
	opts   Options
	net    *network
	pop    *population
	honest []*honest // of honest nodes only
	total  int       // records that everybody is to hold in the end
	ctx    context.Context
}

// Run converges from a cold start, sends one update and one revocation, and lets
// an empty manager join.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	// Much is alive and little of it changes: collecting twice as often as needed was
	// a fifth of the time. Near the limit it is collected as often as it takes.
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryWanted))
	wall := time.Now()
	s := &simulation{opts: o, ctx: ctx}
	var err error
	if s.pop, err = populate(o.Bindings, o.Progress); err != nil {
		return nil, err
	}
	if err := s.build(); err != nil {
		return nil, err
	}
	res := &Result{Managers: o.Managers, Bindings: o.Bindings, Degree: o.Degree, DelayMs: ms(o.Delay), LinkMbit: o.LinkRate / 1e6,
		Hostile: len(s.net.nodes) - len(s.honest), VerifyUs: float64(o.VerifyCost) / 1e3, Seed: o.Seed}
	if err := s.coldStart(res); err != nil {
		return nil, err
	}
	if err := s.updates(res); err != nil {
		return nil, err
	}
	s.account(res)
	res.WallSeconds = time.Since(wall).Seconds()
	return res, nil
}

func (s *simulation) build() error {
	o := s.opts
	s.net = &network{opts: o, byKey: map[binding.Key]*node{}, lib: &library{records: map[binding.Digest]*shelf{}}}
	o.Progress("checking %d signatures", len(s.pop.authority)+len(s.pop.bindings))
	s.net.lib.read(s.pop.authority, s.pop.bindings)
	r := rand.New(rand.NewPCG(o.Seed, 2))
	bad := int(o.Hostile * float64(o.Managers))
	for i, at := range r.Perm(o.Managers) {
		n := &node{key: publicKey(newKey("manager", i)), index: i}
		if at < bad {
			n.hostile = hostileKinds[at%len(hostileKinds)]
		}
		s.net.nodes = append(s.net.nodes, n)
		s.net.byKey[n.key] = n
	}
	for _, n := range s.net.nodes {
		if err := s.equip(n); err != nil {
			return err
		}
	}
	for i, n := range s.net.nodes { // a ring, and chords
		s.net.join(n, s.net.nodes[(i+1)%o.Managers])
	}
	for edges := o.Managers; edges < o.Managers*o.Degree/2; {
		a, b := s.net.nodes[r.IntN(o.Managers)], s.net.nodes[r.IntN(o.Managers)]
		before := len(a.links)
		if s.net.join(a, b); len(a.links) > before {
			edges++
		}
	}
	if !s.connected() {
		return ErrSplit
	}
	return s.deal(r)
}

func (s *simulation) equip(n *node) error {
	seed := s.opts.Seed<<16 + uint64(n.index)
	switch n.hostile {
	case "":
		h, err := newHonest(s.net, n, s.pop, seed, s.opts.Limits)
		if err != nil {
			return err
		}
		n.act = h
		s.honest = append(s.honest, h)
	case replayer, withholder:
		h, err := newHonest(s.net, n, s.pop, seed, s.opts.Limits)
		if err != nil {
			return err
		}
		n.act = &twisted{honest: h, kind: n.hostile, pop: s.pop, rand: rand.New(rand.NewPCG(seed, 3))}
	default:
		n.act = newLiar(s.net, n, n.hostile, s.pop, seed)
	}
	return nil
}

// connected tells whether honest managers reach each other over honest ones.
func (s *simulation) connected() bool {
	seen := map[*node]bool{s.honest[0].node: true}
	todo := []*node{s.honest[0].node}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		for _, l := range n.links {
			if l.to.hostile == "" && !seen[l.to] {
				seen[l.to] = true
				todo = append(todo, l.to)
			}
		}
	}
	return len(seen) == len(s.honest)
}

// deal gives each authority, with all that it signed, to one honest manager.
func (s *simulation) deal(r *rand.Rand) error {
	for i, a := range s.pop.authority {
		h := s.honest[(i+r.IntN(2))%len(s.honest)]
		list := append([]*binding.Record{a}, s.pop.bindings[i*perISP:min((i+1)*perISP, len(s.pop.bindings))]...)
		for _, rec := range list {
			if _, err := h.store.Admit(rec.Raw(), begin); err != nil {
				return fmt.Errorf("simulation: %w", err)
			}
		}
		s.total += len(list)
	}
	return nil
}

// coldStart connects everybody at once and waits until every honest manager holds
// every record.
func (s *simulation) coldStart(res *Result) error {
	var times []time.Duration
	done := map[*honest]bool{}
	for _, h := range s.honest {
		h.onRecord = func(*binding.Record) {
			if !done[h] && h.store.Len() == s.total {
				done[h] = true
				times = append(times, max(s.net.now, h.node.busyUntil))
			}
		}
	}
	for _, n := range s.net.nodes {
		s.net.schedule(&event{at: time.Duration(n.index) * tickEvery / time.Duration(len(s.net.nodes)), node: n})
	}
	s.reconnect()
	next := time.Second
	for s.net.now < s.opts.Limit && len(times) < len(s.honest) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.net.run(min(next, s.opts.Limit), func() bool { return len(times) == len(s.honest) })
		if s.net.now >= next {
			next += time.Second
			s.opts.Progress("cold start: %s virtual, %d of %d managers complete, %s records held on average", s.net.now.Round(time.Second),
				len(times), len(s.honest), s.held())
		}
	}
	res.Cold = spread(times, len(s.honest))
	for _, h := range s.honest {
		h.onRecord = nil
		res.ColdBytes += float64(h.node.bytesIn) / float64(len(s.honest))
		st := h.engine.Stats()
		res.ColdAsked += float64(st.Asked) / float64(len(s.honest))
	}
	for _, r := range s.pop.bindings {
		res.RecordBytes += float64(len(r.Raw()))
	}
	return s.compareStores(len(times) == len(s.honest))
}

func (s *simulation) held() string {
	sum := 0
	for _, h := range s.honest {
		sum += h.store.Len()
	}
	return fmt.Sprint(sum / len(s.honest))
}

// compareStores: whoever is complete holds the same, by its hashes.
func (s *simulation) compareStores(complete bool) error {
	if !complete {
		return nil
	}
	want := s.honest[0].store.Roots()
	for _, h := range s.honest {
		if h.store.Roots() != want {
			return fmt.Errorf("simulation: managers 0 and %d hold the same number of records, and not the same ones", h.node.index)
		}
	}
	return nil
}

// reconnect takes up every link that is down, now and every five seconds.
func (s *simulation) reconnect() {
	for _, n := range s.net.nodes {
		for _, l := range n.links {
			if l.from.index < l.to.index {
				s.net.connect(l)
			}
		}
	}
	s.net.schedule(&event{at: s.net.now + 5*time.Second, do: s.reconnect})
}

// updates lets everything settle and then measures one record's way, a few times over.
func (s *simulation) updates(res *Result) error {
	s.net.run(s.net.now+10*time.Second, nil)
	idle := s.bytesIn()
	s.net.run(s.net.now+10*time.Second, nil)
	res.IdleBytesPerS = float64(s.bytesIn()-idle) / 10 / float64(len(s.honest))
	r := rand.New(rand.NewPCG(s.opts.Seed, 4))
	const rounds = 10
	for i := range rounds {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		isp := r.IntN(len(s.pop.isps))
		rec := valid(memberRecord(isp, r.IntN(min(perISP, len(s.pop.bindings)-isp*perISP)), uint64(10+i)))
		if i == rounds-1 { // the last one is a revocation
			rec.Revoked, rec.Prefixes, rec.Endpoints = true, nil, nil
			rec.NotAfter = rec.NotBefore + int64(binding.MinRevocation/time.Second)
		}
		signed, err := binding.Sign(rec, s.pop.isps[isp])
		if err != nil {
			return err
		}
		got, err := s.oneUpdate(signed, s.honest[r.IntN(len(s.honest))])
		if err != nil {
			return err
		}
		s.opts.Progress("update %d of %d: at every honest manager after %s virtual", i+1, rounds, got.Max)
		res.Updates = append(res.Updates, got)
	}
	return s.compareStores(true)
}

func (s *simulation) bytesIn() (sum uint64) {
	for _, h := range s.honest {
		sum += h.node.bytesIn
	}
	return sum
}

func (s *simulation) oneUpdate(r *binding.Record, at *honest) (Spread, error) {
	start := s.net.now
	var times []time.Duration
	for _, h := range s.honest {
		h.onRecord = func(got *binding.Record) {
			if got.Digest() == r.Digest() {
				times = append(times, max(s.net.now, h.node.busyUntil)-start)
			}
		}
	}
	if _, err := at.engine.Publish(r.Raw(), s.net.time(start)); err != nil {
		return Spread{}, fmt.Errorf("simulation: %w", err)
	}
	s.net.flush(at.node, start)
	s.net.run(start+time.Minute, func() bool { return len(times) == len(s.honest) })
	for _, h := range s.honest {
		h.onRecord = nil
	}
	if len(times) < len(s.honest) {
		return spread(times, len(s.honest)), nil
	}
	s.net.run(s.net.now+2*time.Second, nil)
	return spread(times, len(s.honest)), nil
}

// account adds up what the honest managers counted.
func (s *simulation) account(res *Result) {
	res.Refused, res.Closed = map[string]uint64{}, map[string]uint64{}
	for _, h := range s.honest {
		st := h.engine.Stats()
		for code, n := range st.Refused {
			if n > 0 {
				res.Refused[binding.Code(code).String()] += n
			}
		}
		for why, n := range st.Closed {
			if n > 0 {
				res.Closed[flood.Reason(why).String()] += n
			}
		}
		res.PushIgnored += st.PushIgnored
		res.Unanswered += st.Unanswered
	}
	for _, h := range s.honest {
		for _, l := range h.node.links {
			if l.to.hostile == "" {
				if h.engine.Banned(l.to.key) {
					res.HonestBanned++
				}
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	res.HeapMiB = float64(m.HeapAlloc) / (1 << 20)
	res.SystemMiB = float64(m.Sys) / (1 << 20)
	res.VirtualSeconds = s.net.now.Seconds()
	res.SignaturesChecked, res.SignaturesAsked = s.net.lib.checked, s.net.lib.asked
}

func spread(times []time.Duration, want int) Spread {
	sp := Spread{Reached: len(times), Of: want}
	if len(times) == 0 {
		return sp
	}
	slices.Sort(times)
	sp.Median, sp.Max = times[len(times)/2], times[len(times)-1]
	sp.MedianMs, sp.MaxMs = ms(sp.Median), ms(sp.Max)
	return sp
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
