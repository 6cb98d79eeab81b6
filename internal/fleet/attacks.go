// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/detect"
)

// AttacksStream is the stream of what each node sees of attacks at the moment (docs/decisions/0143): the last word of each, in memory. Whoever writes to it
// writes on the subject of its own name; the servers repeat it where all nodes hear it.
const AttacksStream = "tidegate-attacks"

const (
	attackPrefix  = "tidegate.attack."  // where a node says what it sees
	attacksPrefix = "tidegate.attacks." // where it hears the others
	claimEvery    = time.Second
	claimBytes    = 64 << 10
	claimVersion  = 1
)

// ClaimLives is for how long what a node says counts, unless it says something else.
const ClaimLives = 5 * time.Second

// Claims are what a node sees of its services.
type Claims struct {
	Version  int                   `json:"version"`
	Services []detect.ServiceClaim `json:"services"`
}

// initAttacks creates the stream. One that exists is replaced by one with these settings: it holds nothing that is worth keeping.
func (o *Operator) initAttacks(ctx context.Context, replicas int) error {
	c := jetstream.StreamConfig{Name: AttacksStream, Description: "what tidegate's nodes see of attacks", Subjects: []string{attackPrefix + "*"}, Storage: jetstream.MemoryStorage,
		MaxAge: 2 * ClaimLives, MaxMsgsPerSubject: 1, MaxMsgSize: claimBytes, Replicas: replicas,
		RePublish: &jetstream.RePublish{Source: attackPrefix + "*", Destination: attacksPrefix + "{{wildcard(1)}}"}}
	_, err := o.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with other settings
		if err = o.js.DeleteStream(ctx, AttacksStream); err == nil {
			_, err = o.js.CreateStream(ctx, c)
		}
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", AttacksStream, explain(err))
	}
	return nil
}

// decodeClaims reads what a node says. Whatever it wrote, the result is bounded; whether the rates can be true is for detect to say.
func decodeClaims(value []byte) ([]detect.ServiceClaim, error) {
	var c Claims
	if len(value) > claimBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(value), claimBytes)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if c.Version != claimVersion {
		return nil, fmt.Errorf("version %d; this program knows version %d", c.Version, claimVersion)
	}
	if len(c.Services) > detect.MaxClaimedServices {
		return nil, fmt.Errorf("%d services, at most %d", len(c.Services), detect.MaxClaimedServices)
	}
	for i := range c.Services {
		if !c.Services[i].Valid() {
			return nil, fmt.Errorf("what it says of service %.64q cannot be true", c.Services[i].Service)
		}
	}
	return c.Services, nil
}

// Share has the member tell the other nodes once a second what tell returns (nothing, if that is empty), and give hear what they say. It is called
// before Run, and both functions from other goroutines.
func (m *Member) Share(tell func() []detect.ServiceClaim, hear func(node string, claims []detect.ServiceClaim)) {
	m.tell, m.hear = tell, hear
}

// tellOthers publishes until ctx ends. What cannot be stored is not sent later: it would be outdated.
func (m *Member) tellOthers(ctx context.Context, l *link) {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		services := m.tell()
		if len(services) == 0 || !l.conn.IsConnected() {
			continue
		}
		value, err := json.Marshal(Claims{Version: claimVersion, Services: services[:min(len(services), detect.MaxClaimedServices)]})
		if err == nil {
			err = l.store(ctx, attackPrefix+m.node, value)
		}
		if ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = err.Error()
		}
		if now != "" && now != last { // once for each cause
			m.log.Warn("the other nodes of the fleet cannot be told of attacks; this node decides by what it sees: run `tidegate fleet init` once more, and give the node's account the rights in docs/fleet.md", "error", err)
		}
		last = now
	}
}

// hearOthers takes what the others say until ctx ends.
func (m *Member) hearOthers(ctx context.Context, l *link) {
	said := make(chan *nats.Msg, 4096) // what does not fit is said again in a second
	sub, err := l.conn.ChanSubscribe(attacksPrefix+"*", said)
	if err != nil {
		m.log.Warn("the other nodes of the fleet are not heard; this node decides by what it sees", "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	refused := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-said:
			node := strings.TrimPrefix(msg.Subject, attacksPrefix)
			if node == m.node {
				continue
			}
			claims, err := decodeClaims(msg.Data)
			if err == nil {
				m.hear(node, claims)
				continue
			}
			if !refused[node] && len(refused) < detect.MaxGates { // once for each node
				refused[node] = true
				m.log.Warn("what a node of the fleet says of attacks is refused", "node", node, "error", err)
			}
		}
	}
}
