// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/config"
)

// cluster is three NATS servers with JetStream, which only this machine reaches.
type cluster struct {
	t    testing.TB
	opts []*server.Options
	up   []*server.Server
	urls []string
}

func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, up: make([]*server.Server, 3)}
	ports := freePorts(t, 6)
	var routes []*url.URL
	for i := range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[3+i])})
	}
	for i := range 3 {
		c.opts = append(c.opts, &server.Options{ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[3+i]}, Routes: routes})
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	for i := range 3 {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.up {
			c.stop(i)
		}
	})
	await(t, "a leader that sees all servers", func() bool {
		return slices.ContainsFunc(c.up, func(s *server.Server) bool { return len(s.JetStreamClusterPeers()) == len(c.up) })
	})
	return c
}

// newLoneServer is a cluster of one.
func newLoneServer(t testing.TB) *cluster {
	t.Helper()
	port := freePorts(t, 1)[0]
	c := &cluster{t: t, up: make([]*server.Server, 1), urls: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)},
		opts: []*server.Options{{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}}}
	c.start(0)
	t.Cleanup(func() { c.stop(0) })
	return c
}

func (c *cluster) start(i int) {
	c.t.Helper()
	opts := *c.opts[i]
	s, err := server.NewServer(&opts)
	if err != nil {
		c.t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(patience) {
		c.t.Fatal("a NATS server does not start")
	}
	c.up[i] = s
}

func (c *cluster) stop(i int) {
	if s := c.up[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.up[i] = nil
	}
}

func (c *cluster) awaitLeader() {
	c.t.Helper()
	await(c.t, "a leader", func() bool {
		for _, s := range c.up {
			if s != nil && s.JetStreamIsLeader() {
				return true
			}
		}
		return false
	})
}

func (c *cluster) operator() *Operator {
	c.t.Helper()
	o, err := Connect(Access{Servers: c.urls, Name: "operator"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(o.Close)
	return o
}

func await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// memoryGate is a gate that has what it is told.
type memoryGate struct {
	mu       sync.Mutex
	revision uint64
	desired  Desired
	refuse   error
	degraded []string
	applied  int
	at       time.Time
}

func (g *memoryGate) Applied() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.revision
}

func (g *memoryGate) Apply(_ context.Context, n uint64, d *Desired) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return g.refuse
	}
	g.revision, g.desired, g.at = n, *d, time.Now()
	g.applied++
	return nil
}

func (g *memoryGate) Report(r *Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Version, r.Role, r.Modes, r.Degraded, r.Key = "test", "host", g.desired.Modes, g.degraded, "k"
}

func (c *cluster) member(name string, g *memoryGate) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	m := c.newMember(name, g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	var once sync.Once
	leave = func() { once.Do(func() { cancel(); <-done }) }
	c.t.Cleanup(leave)
	return leave
}

func (c *cluster) newMember(name string, g Gate) *Member {
	m := NewMember(Access{Servers: c.urls, Name: name}, name, g, slog.New(slog.DiscardHandler))
	m.retry = 50 * time.Millisecond
	return m
}

func mode(m config.Mode) Desired { return Desired{Modes: map[string]config.Mode{"web": m}} }
