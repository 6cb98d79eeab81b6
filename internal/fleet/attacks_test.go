// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/detect"
)

// ear is what a node has heard.
type ear struct {
	mu    sync.Mutex
	heard map[string][]detect.ServiceClaim
	times map[string]int
}

func (e *ear) hear(node string, c []detect.ServiceClaim, _ time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard == nil {
		e.heard, e.times = map[string][]detect.ServiceClaim{}, map[string]int{}
	}
	e.heard[node] = c
	e.times[node]++
}

func (e *ear) of(node string) (times int, rate float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.heard[node]; len(c) > 0 {
		rate = c[0].Missing
	}
	return e.times[node], rate
}

func says(rate float64) func() []detect.ServiceClaim {
	return func() []detect.ServiceClaim {
		return []detect.ServiceClaim{{Service: "web", Claim: detect.Claim{Missing: rate}, Prefixes: []detect.PrefixClaim{{Prefix: netip.MustParsePrefix("203.0.113.7/32"), On: true}}}}
	}
}

func (c *cluster) sharer(name string, tell func() []detect.ServiceClaim, e *ear, log *slog.Logger) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	m := c.newMember(name, &memoryGate{})
	m.log = log
	m.Share(tell, e.hear)
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	var once sync.Once
	leave = func() { once.Do(func() { cancel(); <-done }) }
	c.t.Cleanup(leave)
	return leave
}

// Each node hears the others and not itself, again after a server has died, and nothing of one that has nothing to say. Garbage is refused.
func TestNodesTellOneAnother(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	o := c.operator()
	if err := o.Init(ctx, 3); err != nil {
		t.Fatal(err)
	}
	ears := make([]ear, 4)
	log := &lines{}
	for i := range 3 {
		tell := says(float64(i + 1))
		if i == 2 {
			tell = func() []detect.ServiceClaim { return nil }
		}
		c.sharer(fmt.Sprintf("gate%d", i), tell, &ears[i], slog.New(slog.NewTextHandler(log, nil)))
	}
	await(t, "all are heard", func() bool {
		_, a := ears[0].of("gate1")
		_, b := ears[1].of("gate0")
		_, d := ears[2].of("gate0")
		return a == 2 && b == 1 && d == 1
	})
	for i := range 3 {
		if n, _ := ears[i].of(fmt.Sprintf("gate%d", i)); n != 0 {
			t.Errorf("gate%d hears itself", i)
		}
		if n, _ := ears[i].of("gate2"); n != 0 {
			t.Errorf("gate2 has nothing to say, and gate%d hears it", i)
		}
	}
	c.stop(0)
	c.awaitLeader()
	before, _ := ears[2].of("gate1")
	await(t, "they are heard without a server", func() bool { n, _ := ears[2].of("gate1"); return n > before })

	for what, garbage := range map[string]string{"no JSON": "{", "a later version": `{"version":2}`, "a rate": `{"version":1,"every":1,"services":[{"service":"web","uncompleted_per_second":-1}]}`,
		"a field": `{"version":1,"every":1,"drop":true}`, "for ever": `{"version":1,"every":1000000}`, "never": `{"version":1}`} {
		node := strings.ReplaceAll(what, " ", "_")
		await(t, "garbage is stored", func() bool {
			_, err := o.js.Publish(ctx, attackPrefix+node, []byte(garbage))
			return err == nil
		})
		await(t, what+" is refused", func() bool { return log.has("node=" + node) })
		if n, _ := ears[2].of(node); n != 0 {
			t.Errorf("%s is believed", what)
		}
	}
}

// Init replaces a stream that exists with other settings; a node says what to do where there is none.
func TestInitOfAttacks(t *testing.T) {
	c := newLoneServer(t)
	o := c.operator()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	log := &lines{}
	ears := make([]ear, 2)
	c.sharer("gate0", says(1), &ears[0], slog.New(slog.NewTextHandler(log, nil)))
	await(t, "a node without the stream", func() bool { return log.has("tidegate fleet init") })
	if _, err := o.js.CreateStream(ctx, jetstream.StreamConfig{Name: AttacksStream, Subjects: []string{attackPrefix + "*"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := o.Init(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	c.sharer("gate1", says(1), &ears[1], slog.New(slog.DiscardHandler))
	await(t, "both are heard", func() bool {
		a, _ := ears[0].of("gate1")
		b, _ := ears[1].of("gate0")
		return a > 0 && b > 0
	})
	s, err := o.js.Stream(ctx, AttacksStream)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config; got.Storage != jetstream.MemoryStorage || got.MaxMsgsPerSubject != 1 || got.MaxAge > claimSeldom*ClaimLives || got.MaxAge < time.Second {
		t.Errorf("%+v", got)
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), what)
}

// The more nodes are heard, the less often each speaks: none has more than about fifty messages to read each second, up to a thousand nodes.
func TestLargeFleetsSpeakLess(t *testing.T) {
	for others, want := range map[int64]int{0: 1, 19: 1, 50: 1, 51: 2, 100: 2, 1000: 20, 9999: 20} {
		if got := speaksEvery(others); got != want {
			t.Errorf("with %d others a node speaks every %d s, want %d", others, got, want)
		}
	}
}

// A node that hears many speaks seldom, but says at once that it is attacked, and that it is not any more.
func TestAttackIsSaidAtOnce(t *testing.T) {
	c := newLoneServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := c.operator()
	if err := o.Init(ctx, 1); err != nil {
		t.Fatal(err)
	}
	m := c.newMember("gate0", &memoryGate{})
	var asked, on atomic.Int64
	m.Share(func() []detect.ServiceClaim {
		asked.Add(1)
		return []detect.ServiceClaim{{Service: "web", On: on.Load() == 1, Claim: detect.Claim{Missing: 1}}}
	}, func(string, []detect.ServiceClaim, time.Duration) {})
	heard, err := o.conn.SubscribeSync(attacksPrefix + "gate0")
	if err == nil {
		err = o.conn.FlushWithContext(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	running, leave := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); m.Run(running) }()
	defer func() { leave(); <-done }()
	await(t, "a large fleet is heard", func() bool { // what is said before it listens, it does not hear
		for i := range 1000 {
			if _, err := o.js.Publish(ctx, fmt.Sprintf("%sother%d", attackPrefix, i), []byte(`{"version":1,"every":20}`)); err != nil {
				t.Fatal(err)
			}
		}
		return m.others.Load() == 1000
	})
	next := func() *Claims {
		t.Helper()
		msg, err := heard.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		said, err := decodeClaims(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	for _, want := range []int64{1, 0} {
		on.Store(want)
		before := asked.Load()
		for {
			said := next()
			if said.Every == 20 && said.Services[0].On == (want == 1) {
				break
			}
		}
		if took := asked.Load() - before; took > 5 {
			t.Errorf("on %d was said after %d seconds", want, took)
		}
	}
}
