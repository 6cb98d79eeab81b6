// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	claimEvery    = time.Second         // while no more than unhurried nodes are heard; of twice as many, each second time
	unhurried     = 50
	claimSeldom   = 20 // times claimEvery: no node speaks less often
	claimBytes    = 64 << 10
	claimVersion  = 1
)

// ClaimLives is for how long what a node says counts, unless it says something else, if it speaks each second; if less often, longer in proportion.
const ClaimLives = 5 * time.Second

// Claims are what a node sees of its services.
type Claims struct {
	Version  int                   `json:"version"`
	Every    int                   `json:"every"` // so many seconds it speaks, at least
	Services []detect.ServiceClaim `json:"services"`
	// Sources are proven ones, where the fleet has a limit for all nodes together.
	Sources *SourceSummary `json:"sources,omitempty"`
}

// initAttacks creates the stream. One that exists is replaced by one with these settings: it holds nothing that is worth keeping.
func (o *Operator) initAttacks(ctx context.Context, replicas int) error {
	c := jetstream.StreamConfig{Name: AttacksStream, Description: "what tidegate's nodes see of attacks", Subjects: []string{attackPrefix + "*"}, Storage: jetstream.MemoryStorage,
		MaxAge: claimSeldom * ClaimLives, MaxMsgsPerSubject: 1, MaxMsgSize: claimBytes, Replicas: replicas,
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
func decodeClaims(value []byte) (*Claims, error) {
	c := &Claims{}
	if len(value) > claimBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(value), claimBytes)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
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
	if c.Sources != nil && !c.Sources.valid(maxClaimedSources) {
		return nil, errors.New("what it says of sources cannot be true")
	}
	if c.Every < 1 || c.Every > claimSeldom {
		return nil, fmt.Errorf("it speaks every %d s; 1 to %d are possible", c.Every, claimSeldom)
	}
	return c, nil
}

// Share has the member tell the other nodes what tell returns (nothing, if that is empty), once a second in a fleet that is not large, and give hear what they say, and for how long it
// counts. It is called before Run, and both functions from other goroutines.
func (m *Member) Share(tell func() []detect.ServiceClaim, hear func(node string, claims []detect.ServiceClaim, life time.Duration)) {
	m.tell, m.hear = tell, hear
}

// speaksEvery is how seldom a node speaks that hears so many others, in seconds: so that no node has more than about unhurried messages to read each second.
func speaksEvery(others int64) int {
	return int(min(claimSeldom, max(1, (others+unhurried-1)/unhurried)))
}

// attacked is what claims say is attacked.
func attacked(claims []detect.ServiceClaim) (list []string) {
	for i := range claims {
		if claims[i].On {
			list = append(list, claims[i].Service)
		}
		for _, p := range claims[i].Prefixes {
			if p.On {
				list = append(list, claims[i].Service+" "+p.Prefix.String())
			}
		}
	}
	slices.Sort(list)
	return list
}

// tellOthers publishes until ctx ends. What cannot be stored is not sent later: it would be outdated.
func (m *Member) tellOthers(ctx context.Context, l *link) {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	last, silent := "", 0
	var said []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		services, every, sources := m.tell(), speaksEvery(m.others.Load()), m.sources.tell(m.others.Load())
		now := attacked(services)
		if silent++; silent < every && slices.Equal(now, said) || len(services) == 0 && sources == nil || !l.conn.IsConnected() { // that it is attacked is said at once
			continue
		}
		silent, said = 0, now
		value, err := json.Marshal(Claims{Version: claimVersion, Every: every, Services: services[:min(len(services), detect.MaxClaimedServices)], Sources: sources})
		if err == nil {
			err = l.store(ctx, attackPrefix+m.node, value)
		}
		if ctx.Err() != nil {
			return
		}
		cause := ""
		if err != nil {
			cause = err.Error()
		}
		if cause != "" && cause != last { // once for each cause
			m.log.Warn("the other nodes of the fleet cannot be told of attacks; this node decides by what it sees: run `tidegate fleet init` once more, and give the node's account the rights in docs/fleet.md", "error", err)
		}
		last = cause
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
	spoke := map[string]time.Time{}
	count := time.NewTicker(claimEvery)
	defer count.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-count.C:
			maps.DeleteFunc(spoke, func(_ string, at time.Time) bool { return time.Since(at) > claimSeldom*ClaimLives })
			m.others.Store(int64(len(spoke)))
		case msg := <-said:
			node := strings.TrimPrefix(msg.Subject, attacksPrefix)
			if node == m.node {
				continue
			}
			claims, err := decodeClaims(msg.Data)
			if err == nil {
				if len(spoke) < detect.MaxGates {
					spoke[node] = time.Now()
				}
				life := time.Duration(claims.Every) * ClaimLives
				m.hear(node, claims.Services, life)
				if claims.Sources != nil {
					m.sources.hear(node, claims.Sources, time.Now().Add(life))
				}
				continue
			}
			if !refused[node] && len(refused) < detect.MaxGates { // once for each node
				refused[node] = true
				m.log.Warn("what a node of the fleet says of attacks is refused", "node", node, "error", err)
			}
		}
	}
}
