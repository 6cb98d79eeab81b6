// SPDX-License-Identifier: Apache-2.0

// Package event is the event stream of an instance: a file of JSON lines, a webhook, a command
// and the journal get every event once, in order, across restarts. It must know no role and no packet path, and
// emitting an event must never wait for a taker.
package event

import "time"

// Kind is the subject of an event.
type Kind string

// Kinds of events.
const (
	Started        Kind = "started"
	Stopped        Kind = "stopped"
	ConfigChanged  Kind = "config-changed"
	ReloadRefused  Kind = "reload-refused"
	AttackBegan    Kind = "attack-began"   // mode auto: SYNs are answered from now on
	AttackChanged  Kind = "attack-changed" // the rate has doubled or halved
	AttackEnded    Kind = "attack-ended"
	OffenderProven Kind = "offender-proven" // sources exceed source_limits, by connections that their cookies have proven
	Announced      Kind = "route-announced" // to routers: a route that discards
	Withdrawn      Kind = "route-withdrawn"
	Degraded       Kind = "degraded"  // a condition began
	Recovered      Kind = "recovered" // it ended
)

// Event is one event in the form that takers get.
type Event struct {
	ID       string            `json:"id"`  // the same each time it is sent
	Seq      uint64            `json:"seq"` // of this instance; a gap means lost events
	Time     time.Time         `json:"time"`
	Kind     Kind              `json:"kind"`
	Instance string            `json:"instance"`
	Role     string            `json:"role"`
	Name     string            `json:"condition,omitempty"` // of Degraded and Recovered
	Service  string            `json:"service,omitempty"`
	Message  string            `json:"message"` // for people, with the cure if there is one
	Detail   map[string]string `json:"detail,omitempty"`
}

// Condition is a state that lasts: it makes one event when it begins, and one when it ends.
type Condition struct {
	Name    string            `json:"condition"`
	Service string            `json:"service,omitempty"`
	Subject string            `json:"subject,omitempty"` // the part of the service or the instance: a listener, a family
	Message string            `json:"message"`
	Detail  map[string]string `json:"detail,omitempty"`
}

// key identifies a condition.
func (c *Condition) key() string { return c.Name + "\x00" + c.Service + "\x00" + c.Subject }
