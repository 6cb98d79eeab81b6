// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A stream of events that exists with other settings is corrected: its bounds and what nodes may do to the events of others. Its events stay, and
// what the operator has chosen: storage and description.
func TestInitCorrectsTheStreamOfEvents(t *testing.T) {
	o := newLoneServer(t).operator()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	old, err := o.js.CreateStream(ctx, jetstream.StreamConfig{Name: EventsStream, Description: "chosen", Subjects: []string{eventsPrefix + "gate1"}, MaxAge: time.Hour,
		AllowRollup: true, Discard: jetstream.DiscardNew, Storage: jetstream.MemoryStorage, MaxMsgs: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.js.Publish(ctx, eventsPrefix+"gate1", []byte(`{"kind":"started"}`)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds what the first has left
		if err := o.Init(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	info, err := old.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := info.Config
	if !reflect.DeepEqual(c.Subjects, []string{eventsPrefix + "*"}) || c.MaxAge != eventsLive || c.MaxMsgsPerSubject != eventsOfANode || c.MaxMsgSize != eventBytes {
		t.Errorf("subjects %v, age %v, of a node %d, size %d", c.Subjects, c.MaxAge, c.MaxMsgsPerSubject, c.MaxMsgSize)
	}
	if c.AllowRollup || c.Discard != jetstream.DiscardOld {
		t.Errorf("a node may take the events of others away: roll-up %v, discard %v", c.AllowRollup, c.Discard)
	}
	if c.Description != "chosen" || c.Storage != jetstream.MemoryStorage || c.MaxMsgs != 50_000 || info.State.Msgs != 1 {
		t.Errorf("what was chosen is lost: %q, %v, %d messages at most, %d events", c.Description, c.Storage, c.MaxMsgs, info.State.Msgs)
	}
	if _, err := o.js.Publish(ctx, eventsPrefix+"gate2", []byte("{}")); err != nil {
		t.Errorf("an event of another node: %v", err)
	}
}
