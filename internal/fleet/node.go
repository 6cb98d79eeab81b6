// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/detect"
)

// Gate is the instance that a node changes.
type Gate interface {
	// Applied is the revision that is in force; 0: none. It outlasts the process.
	Applied() uint64
	// Apply brings a state into force, whole or not at all.
	Apply(ctx context.Context, revision uint64, d *Desired) error
	// Report fills in what the gate knows of itself.
	Report(r *Report)
}

// Member keeps a gate at the desired state.
type Member struct {
	access  Access
	node    string
	gate    Gate
	log     *slog.Logger
	retry   time.Duration // the first pause before a failed connection or question is tried again (backoff)
	ping    time.Duration // between two pings; a connection that does not answer pingsOut of them is given up
	refused uint64
	why     string
	last    *entry               // the newest
	link    atomic.Pointer[link] // nil: there is none
	joined  chan struct{}        // closed when there was one
	tell    func() []detect.ServiceClaim
	hear    func(node string, claims []detect.ServiceClaim, life time.Duration)
	others  atomic.Int64 // that have said something lately
	sources sourceWatch
	look    func() (limit float64, rates map[netip.Prefix]float64)
	over    func(limit float64, sources []FleetSource)
}

// pingsOut bounds how long a partition goes unnoticed, with Member.ping: packets that vanish end no connection.
const pingsOut = 2

// NewMember is the node of that name.
func NewMember(a Access, node string, g Gate, log *slog.Logger) *Member {
	return &Member{access: a, node: node, gate: g, log: log, retry: 2 * time.Second, ping: 10 * time.Second, joined: make(chan struct{}), sources: sourceWatch{node: node}}
}

// WatchSources has the member count sources with the other nodes: look returns the limit of a source at all nodes together (0: nobody asks) and what this node has counted since the last
// look, and over is told who is above the limit, if this node is the one to say so. What the others tell is left out but for the words of `quorum` nodes. It is called before Run.
func (m *Member) WatchSources(quorum int, look func() (limit float64, rates map[netip.Prefix]float64), over func(limit float64, sources []FleetSource)) {
	m.sources.quorum, m.look, m.over = max(1, quorum), look, over
}

// watchSources counts until ctx ends.
func (m *Member) watchSources(ctx context.Context) {
	tick := time.NewTicker(sourcesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			limit, rates := m.look()
			if over := m.sources.step(limit, rates, now); len(over) > 0 {
				m.over(limit, over)
			}
		}
	}
}

// Run follows the desired state until ctx ends; it is called once. Whatever happens to the servers, the gate keeps what it has.
func (m *Member) Run(ctx context.Context) {
	again := make(chan struct{}, 1) // what happened while it was cut off is asked for
	ask := func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	complaint := "" // the last; the library runs these functions one after the other
	// Servers that refuse the node are asked again, too: its account may have been removed by mistake. Without IgnoreAuthErrorAbort the library gives up for good.
	conn, err := nats.Connect(strings.Join(m.access.Servers, ","), append(m.access.options(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(again int) time.Duration { return backoff(m.retry, again-1) }), nats.PingInterval(m.ping), nats.MaxPingsOutstanding(pingsOut), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) { // more was stored than was taken: the newest is asked for
				ask()
				return
			}
			if err.Error() != complaint { // once for each cause
				complaint = err.Error()
				m.log.Warn("the fleet's servers complain", "error", err)
			}
		}), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if ctx.Err() == nil {
				m.log.Warn("the fleet's servers are cut off; this node goes on with what it has", "revision", m.gate.Applied(), "error", err)
			}
		}), nats.ReconnectHandler(func(c *nats.Conn) {
			m.log.Info("connected to the fleet", "server", c.ConnectedUrlRedacted())
			complaint = ""
			ask()
		}))...)
	if err != nil { // a file of the certificate, or an address
		m.log.Error("the fleet cannot be joined; this node goes on with what it has", "error", err)
		return
	}
	defer conn.Close()
	l := &link{conn, m.node}
	m.link.Store(l)
	close(m.joined)
	defer m.link.Store(nil)
	var sharing sync.WaitGroup
	defer sharing.Wait()
	if m.look != nil {
		sharing.Go(func() { m.watchSources(ctx) })
	}
	if m.tell != nil {
		sharing.Go(func() { m.tellOthers(ctx, l) })
		sharing.Go(func() { m.hearOthers(ctx, l) })
	}
	last, failed := "", 0
	for ctx.Err() == nil {
		began := time.Now()
		err := m.follow(ctx, l, again)
		if ctx.Err() != nil {
			return
		}
		if failed++; time.Since(began) > 2*reportEvery { // it went well for a while
			failed = 1
		}
		if err != nil && err.Error() != last { // once for each cause
			last = err.Error()
			m.log.Warn("the desired state of the fleet cannot be followed; this node goes on with what it has", "revision", m.gate.Applied(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff(m.retry, failed-1)):
		}
	}
}

// follow applies each revision and reports, until an answer of the servers fails to come.
func (m *Member) follow(ctx context.Context, l *link, again <-chan struct{}) error {
	heard := make(chan *nats.Msg, 64) // what does not fit is found by asking
	sub, err := l.conn.ChanSubscribe(storedSubject, heard)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for ask := true; ; {
		changed := ask
		if ask {
			e, err := l.newest(ctx)
			if err != nil {
				return err
			}
			if e != nil {
				m.take(ctx, e)
			}
		}
		if changed {
			if err := m.report(ctx, l); err != nil {
				return err
			}
		}
		ask = false
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			ask = true
		case <-tick.C:
			m.refused, ask = 0, true // what stood in the way of a refused one may be gone
		case msg := <-heard:
			for len(heard) > 0 { // only the newest counts
				msg = <-heard
			}
			e, err := repeated(msg)
			if err != nil {
				return err
			}
			if m.last != nil && e.number <= m.last.number || !m.take(ctx, e) {
				continue
			}
			if err := m.report(ctx, l); err != nil {
				return err
			}
		}
	}
}

// take applies an entry. It returns false if nothing is to be reported.
func (m *Member) take(ctx context.Context, e *entry) bool {
	m.last = e
	n := e.number // what is to be applied here
	var d *Desired
	s, err := decode(e.value)
	if e.deleted {
		err = fmt.Errorf("the desired state was deleted")
	}
	if err == nil {
		if n, d = s.forNode(m.node, e.number); d == nil {
			return false
		}
	}
	if n == m.gate.Applied() {
		stood := m.refused != 0
		m.refused, m.why = 0, ""
		return stood
	}
	if n == m.refused {
		return false
	}
	if err == nil {
		err = m.gate.Apply(ctx, n, d)
	}
	if err != nil {
		m.refused, m.why = n, err.Error()
		m.log.Error("a revision of the fleet was refused; the last good one stays in force", "revision", n, "in-force", m.gate.Applied(), "error", err)
		return true
	}
	m.refused, m.why = 0, ""
	m.log.Info("a revision of the fleet is in force", "revision", n, "by", s.By)
	return true
}

func (m *Member) report(ctx context.Context, l *link) error {
	r := Report{Node: m.node, Revision: m.gate.Applied(), Refused: m.refused, Error: m.why, At: time.Now().UTC()}
	m.gate.Report(&r)
	r.Sources = m.sources.report()
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return l.report(ctx, value)
}
