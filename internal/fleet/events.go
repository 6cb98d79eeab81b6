// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// EventsStream is the stream of all nodes' events, a subject for each node.
const EventsStream = "tidegate-events"

const (
	eventsPrefix  = "tidegate.events."
	eventsLive    = 7 * 24 * time.Hour
	eventsOfANode = 1000     // older ones give way to newer ones, of that node alone
	eventBytes    = 16 << 10 // of one event
)

// initEvents creates the stream. Of an existing one it corrects what the rights of nodes and the length of the record depend on; its events,
// replicas and storage stay.
func (o *Operator) initEvents(ctx context.Context, replicas int) error {
	c := jetstream.StreamConfig{Name: EventsStream, Description: "what happened at tidegate's nodes", Subjects: []string{eventsPrefix + "*"}, MaxAge: eventsLive,
		MaxMsgsPerSubject: eventsOfANode, MaxMsgSize: eventBytes, Replicas: replicas}
	_, err := o.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with other settings
		err = o.correctEvents(ctx, &c)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", EventsStream, explain(err))
	}
	return nil
}

func (o *Operator) correctEvents(ctx context.Context, want *jetstream.StreamConfig) error {
	s, err := o.js.Stream(ctx, EventsStream)
	if err != nil {
		return err
	}
	c := s.CachedInfo().Config
	c.Subjects, c.MaxAge, c.MaxMsgsPerSubject, c.MaxMsgSize = want.Subjects, want.MaxAge, want.MaxMsgsPerSubject, want.MaxMsgSize
	c.AllowRollup, c.Discard = false, jetstream.DiscardOld // a header of one node's event, or a full stream, would take the others' events away
	_, err = o.js.UpdateStream(ctx, c)
	return err
}

// Publish stores an event of this node. Without an answer of the servers it is an error, and the event may be stored all the same.
func (m *Member) Publish(ctx context.Context, event []byte) error {
	select { // an instance has its first event before it has joined
	case <-m.joined:
	case <-ctx.Done():
		return ctx.Err()
	}
	l := m.link.Load()
	if l == nil {
		return errors.New("the fleet's servers are not connected")
	}
	return l.store(ctx, eventsPrefix+m.node, event)
}

// NodeEvent is an event with the node that it is of, as the servers know it.
type NodeEvent struct {
	Node     string
	Received time.Time
	Event    []byte
}

// Events calls take for the events since a time, the oldest first, and with follow for those to come until ctx ends.
func (o *Operator) Events(ctx context.Context, since time.Time, follow bool, take func(NodeEvent) error) error {
	asking, cancel := context.WithTimeout(ctx, 2*serverTime)
	defer cancel()
	consumer, err := o.js.OrderedConsumer(asking, EventsStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errors.New("the stream of events is not there: create it with `tidegate fleet init`")
	}
	if err != nil {
		return explain(err)
	}
	if consumer.CachedInfo().NumPending == 0 && !follow {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return explain(err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		msg, err := messages.Next()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return explain(err)
		}
		about, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := take(NodeEvent{Node: strings.TrimPrefix(msg.Subject(), eventsPrefix), Received: about.Timestamp, Event: msg.Data()}); err != nil {
			return err
		}
		if about.NumPending == 0 && !follow {
			return nil
		}
	}
}
