// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Speaker makes the requests of many nodes over one connection, to show what their reports alone cost servers. No gate uses it: its user
// has to be in the operator's account.
type Speaker struct {
	conn  *nats.Conn
	heard chan uint64
}

// NewSpeaker connects.
func NewSpeaker(a Access) (*Speaker, error) {
	conn, err := nats.Connect(strings.Join(a.Servers, ","), append(a.options(), nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(again int) time.Duration { return backoff(2*time.Second, again-1) }))...)
	if err != nil {
		return nil, err
	}
	s := &Speaker{conn: conn, heard: make(chan uint64, 64)}
	_, err = conn.Subscribe(storedSubject, func(m *nats.Msg) {
		if e, err := repeated(m); err == nil {
			select {
			case s.heard <- e.number:
			default:
			}
		}
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Heard has the numbers of revisions as the servers repeat them.
func (s *Speaker) Heard() <-chan uint64 { return s.heard }

// Close ends the connection.
func (s *Speaker) Close() { s.conn.Close() }

// Turn is what a node does every ReportEvery: it asks for the newest revision, and reports.
func (s *Speaker) Turn(ctx context.Context, r Report) error {
	l := &link{s.conn, r.Node}
	e, err := l.newest(ctx)
	if err == nil && e == nil {
		err = errors.New("there is no revision yet")
	}
	if err != nil {
		return err
	}
	r.Revision, r.At = e.number, time.Now().UTC()
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("node %s: %w", r.Node, err)
	}
	return l.report(ctx, value)
}
