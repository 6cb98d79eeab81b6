// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tidegate/internal/config"
)

// lone is one server, with buckets.
func lone(t *testing.T) (*cluster, *Operator) {
	t.Helper()
	c := newLoneServer(t)
	o := c.operator()
	await(t, "the buckets", func() bool {
		short, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		return o.Init(short, 1) == nil
	})
	return c, o
}

// network carries connections to a server until it is cut: then nothing arrives any more, and nobody is told. Once it has healed, it carries new
// connections; those from before the cut stay dead, as behind a firewall that has forgotten them, or while TCP backs off.
type network struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	dead     chan struct{} // closed when the connections made until then are cut off
	made     int
}

func newNetwork(t *testing.T, to string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: l, dead: make(chan struct{})}
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			mu.Lock()
			open = append(open, near, far)
			mu.Unlock()
			n.mu.Lock()
			dead, cut := n.dead, n.cut
			n.made++
			n.mu.Unlock()
			if cut {
				continue // never answered
			}
			carry := func(a, b net.Conn) {
				buf := make([]byte, 32<<10)
				for {
					got, err := a.Read(buf)
					select {
					case <-dead:
						return
					default:
					}
					if _, werr := b.Write(buf[:got]); err != nil || werr != nil {
						a.Close()
						b.Close()
						return
					}
				}
			}
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return n
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	if cut {
		close(n.dead)
	} else {
		n.dead = make(chan struct{})
	}
}

// connections is how many were made.
func (n *network) connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made
}

func (n *network) url() string { return "nats://" + n.listener.Addr().String() }

// A partition drops packets and closes no connection. The node goes on with what it has; healed, it notices that its connection is dead and catches up
// with the newest revision alone.
func TestPartition(t *testing.T) {
	c, o := lone(t)
	n := newNetwork(t, strings.TrimPrefix(c.urls[0], "nats://"))
	g := &memoryGate{}
	m := NewMember(Access{Servers: []string{n.url()}, Name: "gate1"}, "gate1", g, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if m.ping*pingsOut > time.Minute {
		t.Errorf("a node notices a partition after %v", m.ping*pingsOut)
	}
	m.retry, m.ping = 50*time.Millisecond, 100*time.Millisecond
	run(t, m)
	first := give(t, o, mode(config.ModeAlways))
	await(t, "the first revision", func() bool { return g.Applied() == first })
	n.set(true)
	var last uint64
	for range 3 {
		give(t, o, mode(config.ModeMonitor))
		last = give(t, o, mode(config.ModeAuto))
	}
	await(t, "the node tries to connect again", func() bool { return n.connections() > 1 })
	if g.Applied() != first {
		t.Errorf("cut off, the node has revision %d, want %d", g.Applied(), first)
	}
	n.set(false)
	await(t, "the newest revision", func() bool { return g.Applied() == last })
	if g.applied != 2 {
		t.Errorf("the node applied %d revisions, want the first and the newest", g.applied)
	}
}

// Servers that refuse a node for a while, because its account was removed by mistake or their certificates do not fit, have it back once they let it in.
func TestRefusedForAWhile(t *testing.T) {
	c := newLoneServer(t)
	admit := func(users ...*server.User) {
		t.Helper()
		c.stop(0)
		c.opts[0].Users = users
		c.start(0)
	}
	operator, node := &server.User{Username: "operator", Password: "o"}, &server.User{Username: "gate1", Password: "g"}
	admit(operator, node)
	as := func(u *server.User, address string) string {
		return "nats://" + u.Username + ":" + u.Password + "@" + strings.TrimPrefix(address, "nats://")
	}
	o, err := Connect(Access{Servers: []string{as(operator, c.urls[0])}, Name: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	await(t, "the buckets", func() bool { return o.Init(t.Context(), 1) == nil })
	first := give(t, o, mode(config.ModeAlways))
	n := newNetwork(t, strings.TrimPrefix(c.urls[0], "nats://"))
	g := &memoryGate{}
	m := NewMember(Access{Servers: []string{as(node, n.url())}, Name: "gate1"}, "gate1", g, slog.New(slog.NewTextHandler(t.Output(), nil)))
	m.retry = 50 * time.Millisecond
	run(t, m)
	await(t, "the first revision", func() bool { return g.Applied() == first })
	admit(operator)
	tries := n.connections()
	await(t, "the node tries again and again", func() bool { return n.connections() >= tries+4 })
	admit(operator, node)
	await(t, "the operator is back", o.conn.IsConnected)
	last := give(t, o, mode(config.ModeMonitor))
	await(t, "the newest revision", func() bool { return g.Applied() == last })
}

// A question that went to a server which died is never answered: for the reports it is asked again, however long the caller would wait.
func TestQuestionIsAskedAgain(t *testing.T) {
	c, o := lone(t)
	n := give(t, o, mode(config.ModeAlways))
	run(t, c.newMember("gate1", &memoryGate{}))
	await(t, "a report", func() bool {
		list, err := o.Nodes(t.Context())
		return err == nil && len(list) == 1
	})
	if _, err := o.conn.Subscribe("lost.>", func(*nats.Msg) {}); err != nil { // somebody is there, and says nothing
		t.Fatal(err)
	}
	for what, ask := range map[string]func(context.Context, *Operator) error{
		"status": func(ctx context.Context, o *Operator) error { _, err := o.Nodes(ctx); return err },
		"await":  func(ctx context.Context, o *Operator) error { return o.Await(ctx, n, []string{"gate1"}, nil, nil) },
	} {
		var lost atomic.Int32
		dial := func(network, address string) (net.Conn, error) {
			conn, err := net.Dial(network, address)
			return losingConn{conn, &lost}, err
		}
		asking, err := Connect(Access{Servers: c.urls, Name: "operator", Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		asking.quiet = 200 * time.Millisecond
		ctx, stop := context.WithTimeout(t.Context(), patience/2)
		if err := ask(ctx, asking); err != nil || lost.Load() < 2 {
			t.Errorf("%s: %v; %d questions were asked", what, err, lost.Load())
		}
		stop()
		asking.Close()
	}
}

// What waits for reports ends with its connection: the library gives one up whose servers are away for minutes, or refuse it.
func TestWaitEndsWithItsConnection(t *testing.T) {
	c, o := lone(t)
	n := give(t, o, mode(config.ModeAlways))
	asking := c.operator()
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	progress, applied := make(chan struct{}), false
	ended := make(chan error, 1)
	go func() {
		ended <- asking.Await(ctx, n, []string{"gate1", "gate2"}, nil, func(int, int) {
			if !applied {
				applied = true
				close(progress)
			}
		})
	}()
	run(t, c.newMember("gate1", &memoryGate{}))
	<-progress // it waits for gate2, which does not come
	asking.Close()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the connection to the servers has ended") {
			t.Errorf("it ended with: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on without a connection")
	}
}

// losingConn loses the first question for a consumer.
type losingConn struct {
	net.Conn
	asked *atomic.Int32
}

func (c losingConn) Write(b []byte) (int, error) {
	const question = "$JS.API.CONSUMER.CREATE"
	if bytes.Contains(b, []byte(question)) && c.asked.Add(1) == 1 {
		_, err := c.Conn.Write(bytes.Replace(b, []byte(question), []byte("lost.API.CONSUMER.CREAT"), 1))
		return len(b), err
	}
	return c.Conn.Write(b)
}

// A node that is slow to apply holds nobody up, and applies the newest of what came meanwhile, not each.
func TestSlowNode(t *testing.T) {
	c, o := lone(t)
	slow := &slowGate{began: make(chan struct{}, 1000), goOn: make(chan struct{})}
	run(t, c.newMember("slow", slow))
	quick := &memoryGate{}
	run(t, c.newMember("quick", quick))
	last := give(t, o, mode(config.ModeAlways))
	<-slow.began
	for range 100 { // more than wait in the node
		give(t, o, mode(config.ModeMonitor))
		last = give(t, o, mode(config.ModeAuto))
	}
	await(t, "the quick node", func() bool { return quick.Applied() == last })
	close(slow.goOn)
	begin := time.Now()
	await(t, "the slow node", func() bool { return slow.Applied() == last })
	if d := time.Since(begin); d > reportEvery/2 {
		t.Errorf("the slow node has the newest %v after it was free: it waited for its next report", d)
	}
	if slow.applied > 5 {
		t.Errorf("the slow node applied %d revisions", slow.applied)
	}
}

// slowGate applies once it may.
type slowGate struct {
	memoryGate
	began, goOn chan struct{}
}

func (g *slowGate) Apply(ctx context.Context, n uint64, d *Desired) error {
	g.began <- struct{}{}
	<-g.goOn
	return g.memoryGate.Apply(ctx, n, d)
}

// What `tidegate fleet status` says of reports that the servers have: a clock that is an epoch off, another secret, and an end without a farewell.
func TestStatusNamesTheNode(t *testing.T) {
	c, o := lone(t)
	for i := range 5 {
		g := &oddGate{key: "0a0a0a0a"}
		switch i {
		case 1:
			g.skew = -8 * time.Second
		case 2:
			g.key = "0b0b0b0b"
		}
		run(t, c.newMember(fmt.Sprint("gate", i), g))
	}
	n := give(t, o, mode(config.ModeAlways))
	if err := o.Await(t.Context(), n, []string{"gate0", "gate1", "gate2", "gate3", "gate4"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	nodes, err := o.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now, err := o.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := Wrong(now, nodes)
	for name, want := range map[string]string{"gate1": "its clock differs by -8s", "gate2": "has a secret that most others do not have"} {
		if len(wrong[name]) != 1 || !strings.Contains(wrong[name][0], want) {
			t.Errorf("%s: %q, want %q", name, wrong[name], want)
		}
	}
	if len(wrong) != 2 {
		t.Errorf("named: %v", wrong)
	}
}

// oddGate reports another clock and key.
type oddGate struct {
	memoryGate
	skew time.Duration
	key  string
}

func (g *oddGate) Report(r *Report) {
	g.memoryGate.Report(r)
	r.Key, r.At = g.key, r.At.Add(g.skew)
}

func give(t *testing.T, o *Operator, d Desired) uint64 {
	t.Helper()
	now, err := o.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := o.Apply(t.Context(), Revision{Desired: d, By: "o"}, now.Number)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run runs a node until the test ends.
func run(t *testing.T, m *Member) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
