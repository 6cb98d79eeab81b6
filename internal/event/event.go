// SPDX-License-Identifier: Apache-2.0

// Package event is the one stream of what happens to an instance: a file of JSON lines, a webhook, a command
// and the journal get every event once, in order, across restarts. It must know no role and no packet path, and
// whoever emits an event must never wait for anybody who takes it.
package event

import "time"

// Kind says what an event is about.
type Kind string

// Kinds of events.
const (
	Started       Kind = "started"
	Stopped       Kind = "stopped"
	ConfigChanged Kind = "config-changed"
	ReloadRefused Kind = "reload-refused"
	AttackBegan   Kind = "attack-began"   // mode auto: SYNs are answered from now on
	AttackChanged Kind = "attack-changed" // it has doubled or halved
	AttackEnded   Kind = "attack-ended"
	Degraded      Kind = "degraded"  // a condition began
	Recovered     Kind = "recovered" // it has ended
)

// Event is one of them, as it is written to whoever takes it.
type Event struct {
	ID       string            `json:"id"`  // the same however often it is sent
	Seq      uint64            `json:"seq"` // of this instance; a gap is what was lost
	Time     time.Time         `json:"time"`
	Kind     Kind              `json:"kind"`
	Instance string            `json:"instance"`
	Role     string            `json:"role"`
	Name     string            `json:"condition,omitempty"` // of Degraded and Recovered
	Service  string            `json:"service,omitempty"`
	Message  string            `json:"message"` // for people, with the cure where there is one
	Detail   map[string]string `json:"detail,omitempty"`
}

// Condition is something that lasts: one event when it begins, and one when it ends.
type Condition struct {
	Name    string            `json:"condition"`
	Service string            `json:"service,omitempty"`
	Subject string            `json:"subject,omitempty"` // what of the service, or of the instance: a listener, a family
	Message string            `json:"message"`
	Detail  map[string]string `json:"detail,omitempty"`
}

// key is what tells conditions apart.
func (c *Condition) key() string { return c.Name + "\x00" + c.Service + "\x00" + c.Subject }
