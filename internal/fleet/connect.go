// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Names of the buckets, and of the key of the desired state.
const (
	DesiredBucket = "tidegate-desired"
	NodesBucket   = "tidegate-nodes"
	desiredKey    = "all"
)

const (
	history      = 64               // revisions that can be rolled back to
	reportEvery  = 10 * time.Second // and at each change
	reportLives  = 24 * time.Hour   // a node that says nothing for so long is forgotten
	reportIsLate = 3 * reportEvery
)

// Access is how the servers are reached.
type Access struct {
	Servers       []string
	CA, Cert, Key string // files
	Name          string // of the connection
	// Dial makes connections; nil: from where this process is.
	Dial func(network, address string) (net.Conn, error)
}

// dialer makes a function a dialer of the NATS library.
type dialer func(network, address string) (net.Conn, error)

// Dial connects.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

func (a Access) options() []nats.Option {
	opts := []nats.Option{nats.Name(a.Name), nats.Timeout(5 * time.Second)}
	if a.CA != "" {
		opts = append(opts, nats.RootCAs(a.CA))
	}
	if a.Cert != "" {
		opts = append(opts, nats.ClientCert(a.Cert, a.Key))
	}
	if a.Dial != nil {
		opts = append(opts, nats.SetCustomDialer(dialer(a.Dial)))
	}
	return opts
}

// Operator changes the desired state and reads reports.
type Operator struct {
	conn  *nats.Conn
	js    jetstream.JetStream
	quiet time.Duration // after which a question about the reports is asked again
}

// Connect connects an operator.
func Connect(a Access) (*Operator, error) {
	conn, err := nats.Connect(strings.Join(a.Servers, ","), a.options()...)
	if err != nil {
		return nil, fmt.Errorf("no NATS server of %s answers: %w; the nodes go on with what they have", strings.Join(a.Servers, ", "), err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Operator{conn, js, quietWatch}, nil
}

// Close ends the connection.
func (o *Operator) Close() { o.conn.Close() }

// Init creates the buckets, the stream of events and that of attacks, each on so many servers. Of existing ones it corrects only what the rights of nodes depend on.
func (o *Operator) Init(ctx context.Context, replicas int) error {
	for _, c := range []jetstream.KeyValueConfig{
		{Bucket: DesiredBucket, Description: "what tidegate's nodes shall do", History: history, Replicas: replicas},
		{Bucket: NodesBucket, Description: "what tidegate's nodes do", History: 1, TTL: reportLives, Replicas: replicas},
	} {
		_, err := o.js.CreateKeyValue(ctx, c)
		if errors.Is(err, jetstream.ErrBucketExists) {
			err = nil
		}
		if err == nil {
			err = o.restrict(ctx, c.Bucket)
		}
		if err != nil {
			return fmt.Errorf("bucket %s: %w", c.Bucket, explain(err))
		}
	}
	if err := o.initEvents(ctx, replicas); err != nil {
		return err
	}
	return o.initAttacks(ctx, replicas)
}

// restrict forbids what a header of a node's report could do to the reports of others (Nats-Rollup), and has the servers repeat each desired state
// that they store where nodes can hear it.
func (o *Operator) restrict(ctx context.Context, bucket string) error {
	s, err := o.js.Stream(ctx, streamOf(bucket))
	if err != nil {
		return err
	}
	c := s.CachedInfo().Config
	repeat := bucket == DesiredBucket && c.RePublish == nil
	if !c.AllowRollup && !repeat {
		return nil
	}
	c.AllowRollup = false
	if repeat {
		c.RePublish = &jetstream.RePublish{Source: subjectOf(DesiredBucket, desiredKey), Destination: storedSubject}
	}
	_, err = o.js.UpdateStream(ctx, c)
	return err
}

// errNoPeers is JSClusterNoPeersErrF of nats-server.
const errNoPeers jetstream.ErrorCode = 10005

// explain says what to do about an error of the servers.
func explain(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode == errNoPeers:
		return fmt.Errorf("fewer servers than --replicas asks for have found each other: start the others, or, if they have just been started, try again in a few seconds (%w)", err)
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return errors.New("the buckets are not there: create them with `tidegate fleet init`")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("the servers are connected, but too few of them are there to decide (JetStream has no quorum), or this user may not: %w; the nodes go on with what they have", err)
	}
	return err
}
