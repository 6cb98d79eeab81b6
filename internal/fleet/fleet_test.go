// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
)

const patience = 60 * time.Second

// Fifty nodes on three servers: they follow, whatever is in the bucket and whichever server dies; of two operators one is told that he lost.
func TestFiftyNodes(t *testing.T) {
	const nodes = 50
	c := newCluster(t)
	o := c.operator()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	// A request to a server that dies, or has not met the others yet, is never answered: each is tried again.
	try := func(do func(ctx context.Context) error) bool {
		short, stop := context.WithTimeout(ctx, 2*time.Second)
		defer stop()
		return do(short) == nil
	}
	for range 2 { // the second time they are there
		await(t, "the buckets", func() bool { return try(func(ctx context.Context) error { return o.Init(ctx, 3) }) })
	}
	gates := make([]*memoryGate, nodes)
	var leave []func()
	for i := range gates {
		gates[i] = &memoryGate{}
		leave = append(leave, c.member(fmt.Sprintf("gate%02d", i), gates[i]))
	}
	reported := func(want int) {
		t.Helper()
		await(t, "reports", func() bool {
			return try(func(ctx context.Context) error {
				list, err := o.Nodes(ctx)
				if err == nil && len(list) != want {
					err = errors.New("not all")
				}
				return err
			})
		})
	}
	reported(nodes)
	apply := func(r Revision) uint64 {
		t.Helper()
		now, err := o.Current(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n, err := o.Apply(ctx, r, now.Number)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	everywhere := func(n uint64) {
		t.Helper()
		await(t, fmt.Sprintf("revision %d everywhere", n), func() bool {
			return try(func(ctx context.Context) error {
				list, err := o.Nodes(ctx)
				if err == nil {
					err = o.Await(ctx, n, nil, list, nil)
				}
				return err
			})
		})
	}
	last := func(since time.Time) (d time.Duration) {
		for _, g := range gates {
			d = max(d, g.at.Sub(since))
		}
		return d
	}

	began := time.Now()
	first := apply(Revision{Desired: mode(config.ModeAlways), By: "a"})
	everywhere(first)
	t.Logf("%d nodes have revision %d %v after it was given", nodes, first, last(began).Round(time.Millisecond))
	for i, g := range gates {
		if g.desired.Modes["web"] != config.ModeAlways {
			t.Errorf("gate %d: %+v", i, g.desired)
		}
	}

	// Two operators have seen the same revision.
	off, err := o.Apply(ctx, Revision{Desired: mode(config.ModeOff), By: "b"}, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.operator().Apply(ctx, Revision{Desired: mode(config.ModeMonitor), By: "c"}, first); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "by b") || !strings.Contains(err.Error(), "now off") {
		t.Errorf("the second operator is told: %v", err)
	}

	// Garbage: refused by all, the last good one stays. A node that is slower than the next revision would never have had that one.
	everywhere(off)
	kv, err := o.js.KeyValue(ctx, DesiredBucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, garbage := range []string{"garbage", `{"version":2}`, `{"version":1,"desired":{"modes":{"web":"asleep"}}}`, `{"version":1,"desired":{"deny":["10.0.0.1/8"]}}`} {
		n, err := kv.PutString(ctx, desiredKey, garbage)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "all refuse "+garbage, func() bool {
			list, err := o.Nodes(ctx)
			refused := 0
			for _, node := range list {
				if node.Refused == n && node.Error != "" {
					refused++
				}
			}
			return err == nil && refused == nodes
		})
	}
	for i, g := range gates {
		if g.desired.Modes["web"] != config.ModeOff {
			t.Errorf("after garbage, gate %d has %+v", i, g.desired)
		}
	}

	// A canary that refuses, and one that is away and catches up.
	gates[7].mu.Lock()
	gates[7].refuse = errors.New("no such interface")
	gates[7].mu.Unlock()
	list, err := o.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	canary := apply(Revision{Desired: mode(config.ModeMonitor), By: "a", Only: []string{"gate07"}})
	if err := o.Await(ctx, canary, []string{"gate07"}, list, nil); err == nil || !strings.Contains(err.Error(), "gate07 refuses") || !strings.Contains(err.Error(), "no such interface") {
		t.Errorf("%v", err)
	}
	gates[7].mu.Lock()
	gates[7].refuse = nil
	gates[7].mu.Unlock()
	leave[3]()
	before := gates[3].applied
	missed := apply(Revision{Desired: mode(config.ModeAuto), By: "a"})
	var others []string
	for i := range gates {
		if i != 3 {
			others = append(others, fmt.Sprintf("gate%02d", i))
		}
	}
	if err := o.Await(ctx, missed, others, list, nil); err != nil {
		t.Fatal(err)
	}
	newest := apply(Revision{Desired: mode(config.ModeAlways), By: "a"})
	c.member("gate03", gates[3])
	await(t, "the node that was away catches up", func() bool { return gates[3].Applied() == newest })
	if got := gates[3].applied - before; got != 1 {
		t.Errorf("it applied %d revisions, want the newest alone", got)
	}
	everywhere(newest)

	// One server dies: nothing changes. Two: the operator is told, the nodes go on; when one returns, all goes on.
	c.stop(0)
	c.awaitLeader()
	var n uint64
	change := func(what string, m config.Mode) {
		t.Helper()
		await(t, what, func() bool {
			return try(func(ctx context.Context) error {
				now, err := o.Current(ctx)
				if err == nil {
					n, err = o.Apply(ctx, Revision{Desired: mode(m), By: "a"}, now.Number)
				}
				return err
			})
		})
	}
	change("a change with two servers", config.ModeMonitor)
	everywhere(n)
	c.stop(1)
	alone, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, told := o.Apply(alone, Revision{Desired: mode(config.ModeOff), By: "a"}, n)
	if told == nil || !strings.Contains(told.Error(), "nodes go on") {
		t.Errorf("without a quorum the operator is told: %v", told)
	}
	for i, g := range gates {
		if g.Applied() != n {
			t.Errorf("gate %d has revision %d, want %d", i, g.Applied(), n)
		}
	}
	c.start(1)
	c.awaitLeader()
	change("a change after one has returned", config.ModeAuto)
	everywhere(n)
}

func TestParse(t *testing.T) {
	d, err := Parse([]byte("modes: {web: always, mail: \"off\"}\ndeny: [203.0.113.0/24, '198.51.100.7 until 2030-01-01T00:00:00Z # loud']\nallow: [203.0.113.1]\n"))
	if err != nil || d.Modes["web"] != config.ModeAlways || len(d.Deny) != 2 || len(d.Allow) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	for text, want := range map[string]string{
		"modes: {web: asleep}":       `modes.web: "asleep" is no mode`,
		"deny: [10.0.0.1/8]":         "deny, entry 1: \"10.0.0.1/8\" has bits behind its length",
		"limits: {synack_limit: -1}": "limits.synack_limit: -1 is out of range",
		"limits: {max_flows: 7}":     "a fleet cannot set it; it can set half_open_rate, source_limits.action",
		"unknown: x":                 "unknown field",
		"deny: [" + strings.Repeat("10.0.0.0/8,", 10001) + "]": "more than 10000 entries",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
	a, b := mode(config.ModeAlways), Desired{Modes: map[string]config.Mode{"mail": config.ModeOff}, Deny: []string{"10.0.0.0/8"}}
	if got := strings.Join(Diff(&a, &b), "\n"); got != "mode of mail: as configured, now off\nmode of web: always, now as configured\n+ deny 10.0.0.0/8" {
		t.Error(got)
	}
}

func TestWrong(t *testing.T) {
	now := time.Now()
	node := func(name string, change func(*Node)) Node {
		n := Node{Report: Report{Node: name, Revision: 5, Key: "aa", At: now}, Received: now}
		change(&n)
		return n
	}
	wrong := Wrong(Revision{Number: 5}, []Node{node("good", func(*Node) {}), node("late", func(n *Node) { n.Late = true }), node("skew", func(n *Node) { n.Skew = -9 * time.Second }),
		node("key", func(n *Node) { n.Key = "bb" }), node("old", func(n *Node) { n.Revision = 4 }), node("refuses", func(n *Node) { n.Refused, n.Error = 5, "because" }),
		node("degraded", func(n *Node) { n.Degraded = []string{"keys-stale"} })})
	for name, want := range map[string]string{"late": "no report", "skew": "-9s", "key": "secret that most others do not have", "old": "has revision 4", "refuses": "refuses revision 5: because", "degraded": "keys-stale"} {
		if got := strings.Join(wrong[name], "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(wrong) != 6 {
		t.Errorf("%v", wrong)
	}
}

// Before the announced time a node that does not have the next secret is named, and one that rolls at another time; after it, one that uses another.
func TestSecretLacks(t *testing.T) {
	at := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	s := &Secret{Key: "bbbbbbbb", From: at}
	for _, c := range []struct {
		now       time.Duration // after the roll
		key, next string
		from      time.Duration
		want      string
	}{
		{-time.Hour, "aaaaaaaa", "", 0, "does not have secret bbbbbbbb"},
		{-time.Hour, "aaaaaaaa", "cccccccc", 0, "does not have secret bbbbbbbb"},
		{-time.Hour, "aaaaaaaa", "bbbbbbbb", time.Minute, "announced for 2027-01-31T12:00:00Z: correct next_secret_from"},
		{-time.Hour, "aaaaaaaa", "bbbbbbbb", 0, ""},
		{0, "aaaaaaaa", "bbbbbbbb", 0, ""},
		{time.Hour, "bbbbbbbb", "", 0, ""},
		{time.Hour, "aaaaaaaa", "", 0, "uses secret aaaaaaaa, but the fleet has rolled to bbbbbbbb"},
		{time.Hour, "aaaaaaaa", "bbbbbbbb", 2 * time.Hour, "uses secret aaaaaaaa"},
	} {
		r := Report{Key: c.key, NextKey: c.next, At: at.Add(c.now)}
		if c.next != "" {
			r.NextFrom = at.Add(c.from)
		}
		wrong := Wrong(Revision{Desired: Desired{Secret: s}}, []Node{{Report: r, Received: r.At}})
		if got := strings.Join(wrong[""], "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
