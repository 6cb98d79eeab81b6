// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"tidegate/internal/role/filterman"
)

// The scenarios of Terminus, sections II and III, each with its expected result.

type scenario struct {
	topology, name, expected string
	run                      func(context.Context, *Row) error
}

// legitOK is the share of legitimate requests that must be answered.
const legitOK = 0.99

func (t *terminus) scenarios() []scenario {
	list := []scenario{
		{"fig2", "II bot at a Terminus provider", "filtered at its own border patrol within 2 s; clients served", t.bot},
		{"fig2", "III.A legacy traffic has lower priority", "under overload clients with the codepoint are served, those without are not", t.priority},
		{"fig2", "III.C.1 spoofing from a legacy provider", "arrives without the codepoint; no filter is requested; the real client is served", t.spoofLegacy},
		{"fig2", "III.C.2 spoofing from a legacy provider that checks sources", "nothing arrives", t.spoofChecked},
		{"fig2", "III.C.3 spoofing from another Terminus provider", "nothing arrives; dropped by that provider's patrol", t.spoofOther},
		{"fig2", "III.C.4 spoofing from the same provider, another patrol", "nothing arrives; dropped by that patrol", t.spoofBeside},
		{"fig2", "III.C.5 spoofing behind the client's own patrol", "indistinguishable: filtered at that patrol; clients elsewhere are served", t.spoofSame},
		{"fig3", "III.D reflection, request arrives with the codepoint", "the egress patrol blocks unmarked packets; the server's own queries are answered", t.reflection},
		{"legacy", "III.D reflection, request arrives without the codepoint", "the reflector's answers lose the codepoint; clients are served", t.reflectionLegacy},
		{"fig2", "II offender reported by the server's gate", "one with the codepoint is filtered at its own border patrol within 3 s, one without is refused; clients served", t.gate},
		{"fig2", "III.E managers die", "filters stay, forwarding continues, a restarted patrol has its filters within 1 s", t.death},
	}
	return list
}

func (t *terminus) bot(ctx context.Context, row *Row) error {
	before := t.counter("pa", "filter_blocked")
	o, err := t.play(ctx, attack{ns: "a-bot", src: addrBot, client: "c-client"})
	if err != nil {
		return err
	}
	blocked := t.counter("pa", "filter_blocked") - before
	row.conclude(o, fmt.Sprintf("%d of %d packets arrived, %d blocked at A's patrol, filter %s", o.sight.count, o.sent, blocked, o.verdict.State),
		o.filtered > 0 && o.filtered < 2 && blocked > 0 && o.success >= legitOK && o.verdict.State == filterman.Installed)
	return nil
}

func (t *terminus) priority(ctx context.Context, row *Row) error {
	legacy := t.webClient("h-att") // H's customer as an honest client
	defer legacy.stop()
	begin := time.Now()
	o, err := t.play(ctx, attack{ns: "b-att", src: addrB, client: "a-client"})
	if err != nil {
		return err
	}
	legacy.stop() // requests under way count
	without := legacy.success(begin.Add(time.Second), time.Now().Add(-clientWait/2))
	row.conclude(o, fmt.Sprintf("served: %.0f %% with the codepoint, %.0f %% without", 100*o.success, 100*without),
		o.success >= legitOK && without < 0.8)
	return nil
}

func (t *terminus) spoofLegacy(ctx context.Context, row *Row) error {
	o, err := t.play(ctx, attack{ns: "b-att", src: addrClient, client: "a-client"})
	if err != nil {
		return err
	}
	row.conclude(o, fmt.Sprintf("%d arrived, %d with the codepoint, filter %s", o.sight.count, o.sight.trueSource, o.verdict.State),
		o.sight.count > 0 && o.sight.trueSource == 0 && o.verdict.State == filterman.Refused && o.success >= legitOK)
	return nil
}

// nothingArrives is the result of three of the five spoofing scenarios.
func (t *terminus) nothingArrives(ctx context.Context, row *Row, ns, patrol string) error {
	before := uint64(0)
	if patrol != "" {
		before = t.counter(patrol, "drop_spoofed")
	}
	o, err := t.play(ctx, attack{ns: ns, src: addrClient, client: "a-client"})
	if err != nil {
		return err
	}
	observed, dropped := fmt.Sprintf("%d of %d arrived", o.sight.count, o.sent), uint64(1)
	if patrol != "" {
		dropped = t.counter(patrol, "drop_spoofed") - before
		observed += fmt.Sprintf(", %d dropped by the patrol", dropped)
	}
	row.conclude(o, observed, o.sight.count == 0 && o.sent > 1000 && dropped > 0 && o.success >= legitOK)
	return nil
}

func (t *terminus) spoofChecked(ctx context.Context, row *Row) error {
	return t.nothingArrives(ctx, row, "h-att", "")
}

func (t *terminus) spoofOther(ctx context.Context, row *Row) error {
	return t.nothingArrives(ctx, row, "c-att", "pc")
}

func (t *terminus) spoofBeside(ctx context.Context, row *Row) error {
	return t.nothingArrives(ctx, row, "a2-att", "pa2")
}

func (t *terminus) spoofSame(ctx context.Context, row *Row) error {
	victim := t.webClient("a-client")
	defer victim.stop()
	o, err := t.play(ctx, attack{ns: "a-bot", src: addrClient, client: "c-client"})
	if err != nil {
		return err
	}
	own := victim.success(o.sight.last.Add(100*time.Millisecond), time.Now().Add(-clientWait/2))
	row.conclude(o, fmt.Sprintf("%d of %d arrived, filter %s; %.0f %% of requests of the client behind that patrol are served",
		o.sight.count, o.sent, o.verdict.State, 100*own),
		o.filtered > 0 && o.filtered < 2 && o.success >= legitOK && own < 0.01)
	return nil
}

// reflector starts the reflector.
func (t *terminus) reflector() (io.Closer, error) { return t.reflect("a-refl", addrRefl) }

func (t *terminus) reflection(ctx context.Context, row *Row) error {
	r, err := t.reflector()
	if err != nil {
		return err
	}
	defer r.Close()
	before := t.counter("pa", "filter_blocked_ts0")
	o, err := t.play(ctx, attack{ns: "b-att", src: addrServer, measured: func() *asker { return t.queryClient(addrRefl) }})
	if err != nil {
		return err
	}
	blocked := t.counter("pa", "filter_blocked_ts0") - before
	row.conclude(o, fmt.Sprintf("%d answers to %d forged queries arrived, %d queries blocked by the egress patrol",
		o.sight.count, o.sent, blocked), o.filtered > 0 && o.filtered < 2 && blocked > 0 && o.success >= legitOK)
	return nil
}

// reflectionLegacy: the path from the filter manager to A leads through F, which is
// legacy; the path back does not.
func (t *terminus) reflectionLegacy(ctx context.Context, row *Row) error {
	if err := t.route("G", addrBMA+"/32", "F"); err != nil {
		return err
	}
	r, err := t.reflector()
	if err != nil {
		return err
	}
	defer r.Close()
	before := t.counter("pa", "filter_cleared")
	c := t.webClient("c-client")
	defer c.stop()
	begin := time.Now()
	o, err := t.play(ctx, attack{ns: "b-att", src: addrServer})
	if err != nil {
		return err
	}
	o.success = c.success(begin.Add(time.Second), time.Now().Add(-clientWait/2))
	cleared := t.counter("pa", "filter_cleared") - before
	row.conclude(o, fmt.Sprintf("%d answers arrived, %d with the codepoint, %d lost it at A's patrol",
		o.sight.count, o.sight.trueSource, cleared),
		cleared > 0 && o.sight.trueSource >= detectAfter/2 && o.sight.trueSource < o.sight.count/2 && o.success >= legitOK)
	return nil
}

// death kills every process and measures what continues without them.
func (t *terminus) death(ctx context.Context, row *Row) error {
	o, err := t.play(ctx, attack{ns: "a-bot", src: addrBot})
	if err != nil {
		return err
	}
	names := make([]string, 0, len(t.nodes))
	for name, n := range t.nodes {
		n.kill()
		names = append(names, name)
	}
	slices.Sort(names)
	before := t.detector.of(t.at(addrBot)).count
	blocked := t.counter("pa", "filter_blocked")
	second, err := t.play(ctx, attack{ns: "a-bot", src: addrBot, client: "a-client"})
	if err != nil {
		return err
	}
	blocked = t.counter("pa", "filter_blocked") - blocked
	leaked := t.detector.of(t.at(addrBot)).count - before
	begin := time.Now()
	pa := t.nodes["pa"] // by itself: eight others would start on the same processors
	if err := t.run(pa); err != nil {
		return err
	}
	if err := pa.await(ctx); err != nil {
		return err
	}
	back := time.Since(begin)
	for _, name := range names {
		if name != pa.name {
			if err := t.run(t.nodes[name]); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if err := t.nodes[name].await(ctx); err != nil {
			return err
		}
	}
	third, err := t.play(ctx, attack{ns: "a-bot", src: addrBot})
	if err != nil {
		return err
	}
	leakedAfter := t.detector.of(t.at(addrBot)).count - before - leaked
	o.success = second.success
	row.conclude(o, fmt.Sprintf("without processes: %d of %d arrived, %d blocked; the patrol was back after %.2f s; then %d of %d arrived",
		leaked, second.sent, blocked, back.Seconds(), leakedAfter, third.sent),
		o.filtered > 0 && leaked == 0 && blocked > 0 && second.success >= legitOK && back < time.Second && leakedAfter == 0)
	return nil
}
