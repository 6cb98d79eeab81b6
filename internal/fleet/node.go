// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	retry   time.Duration
	refused uint64
	why     string
	last    jetstream.KeyValueEntry // the newest
}

// NewMember is the node of that name.
func NewMember(a Access, node string, g Gate, log *slog.Logger) *Member {
	return &Member{access: a, node: node, gate: g, log: log, retry: 2 * time.Second}
}

// Run follows the desired state until ctx ends. Whatever happens to the servers, the gate keeps what it has.
func (m *Member) Run(ctx context.Context) {
	conn, err := nats.Connect(strings.Join(m.access.Servers, ","), append(m.access.options(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(m.retry), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if ctx.Err() == nil {
				m.log.Warn("the fleet's servers are cut off; this node goes on with what it has", "revision", m.gate.Applied(), "error", err)
			}
		}), nats.ReconnectHandler(func(c *nats.Conn) { m.log.Info("connected to the fleet", "server", c.ConnectedUrlRedacted()) }))...)
	if err != nil { // a file of the certificate, or an address
		m.log.Error("the fleet cannot be joined; this node goes on with what it has", "error", err)
		return
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		m.log.Error("the fleet cannot be joined", "error", err)
		return
	}
	last := ""
	for ctx.Err() == nil {
		err := m.follow(ctx, js)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != last { // once for each cause
			last = err.Error()
			m.log.Warn("the desired state of the fleet cannot be followed; this node goes on with what it has", "revision", m.gate.Applied(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(m.retry):
		}
	}
}

// follow applies each revision and reports, until the watch ends.
func (m *Member) follow(ctx context.Context, js jetstream.JetStream) error {
	desired, err := js.KeyValue(ctx, DesiredBucket)
	if err != nil {
		return explain(err)
	}
	nodes, err := js.KeyValue(ctx, NodesBucket)
	if err != nil {
		return explain(err)
	}
	w, err := desired.Watch(ctx, desiredKey)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = w.Stop() }()
	if err := m.report(ctx, nodes); err != nil {
		return err
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if m.refused != 0 { // what stood in its way may be gone
				m.refused = 0
				m.take(ctx, m.last)
			}
		case e, open := <-w.Updates():
			if !open {
				return errors.New("the watch has ended")
			}
			if e == nil || !m.take(ctx, e) {
				continue
			}
		}
		if err := m.report(ctx, nodes); err != nil {
			return err
		}
	}
}

// take applies an entry. It returns false if nothing is to be reported.
func (m *Member) take(ctx context.Context, e jetstream.KeyValueEntry) bool {
	n := e.Revision()
	m.last = e
	if n == m.gate.Applied() || n == m.refused {
		return false
	}
	s, err := decode(e.Value())
	if e.Operation() != jetstream.KeyValuePut {
		err = fmt.Errorf("the desired state was deleted")
	}
	if err == nil && len(s.Only) > 0 && !slices.Contains(s.Only, m.node) {
		return false // for others as yet
	}
	if err == nil {
		err = m.gate.Apply(ctx, n, &s.Desired)
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

func (m *Member) report(ctx context.Context, nodes jetstream.KeyValue) error {
	r := Report{Node: m.node, Revision: m.gate.Applied(), Refused: m.refused, Error: m.why, At: time.Now().UTC()}
	m.gate.Report(&r)
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := nodes.Put(ctx, m.node, value); err != nil {
		return fmt.Errorf("report: %w", explain(err))
	}
	return nil
}
