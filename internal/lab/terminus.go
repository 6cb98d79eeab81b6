package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tidegate/internal/filterman"
	"tidegate/internal/plane"
)

// TerminusOptions say what `lab terminus` shows.
type TerminusOptions struct {
	Topology string // fig2, fig3, legacy or all
	IPv6     bool
	Exe      string // the tidegate to run; default this one
	Progress func(string, ...any)
}

// TerminusTopologies lists them.
func TerminusTopologies() []string { return []string{"fig2", "fig3", "legacy", "all"} }

// TerminusRow is what one scenario was expected to do and did.
type TerminusRow struct {
	Topology       string  `json:"topology"`
	Scenario       string  `json:"scenario"`
	Expected       string  `json:"expected"`
	Observed       string  `json:"observed"`
	OK             bool    `json:"ok"`
	FilteredAfterS float64 `json:"filtered_after_s"` // from the first packet of the attack to the last; 0: was not filtered
	LegitSuccess   float64 `json:"legit_success"`    // share of legitimate requests answered; -1: none were made
}

// terminus is a network with everything running.
type terminus struct {
	*TerminusNet
	detector *detector
	api      *filterman.Client
	mu       sync.Mutex
	verdicts map[netip.Addr]filterman.Verdict
	progress func(string, ...any)
}

// RunTerminus makes the network, shows the scenarios of a topology, and takes it
// down again, whatever happened.
func RunTerminus(ctx context.Context, o TerminusOptions) (rows []TerminusRow, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	if _, err := Clean(); err != nil {
		return nil, fmt.Errorf("clean up after dead labs: %w", err)
	}
	if o.IPv6 && !haveIPv6() {
		return nil, errors.New("--ipv6: this kernel has no IPv6; leave the option out")
	}
	if o.Exe == "" {
		if o.Exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	o.Progress("building the network")
	net, err := newTerminusNet(o.Exe, o.IPv6)
	if err != nil {
		return nil, err
	}
	t := &terminus{TerminusNet: net, verdicts: map[netip.Addr]filterman.Verdict{}, progress: o.Progress}
	defer func() { err = errors.Join(err, t.Close()) }()
	o.Progress("starting patrols and managers")
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	t.api = filterman.NewClient(filepath.Join(t.dir, "api.sock"))
	if t.detector, err = t.detect(func(src netip.Addr, trueSource, reflected bool) { t.tellManager(ctx, src, trueSource, reflected) }); err != nil {
		return nil, err
	}
	defer t.detector.close()
	web, err := t.web()
	if err != nil {
		return nil, err
	}
	defer web.Close()
	o.Progress("waiting for the bindings")
	if err := t.awaitBindings(ctx); err != nil {
		return nil, err
	}
	for _, s := range t.scenarios() {
		if o.Topology != "all" && s.topology != o.Topology {
			continue
		}
		o.Progress("%s: %s", s.topology, s.name)
		row := TerminusRow{Topology: s.topology, Scenario: s.name, Expected: s.expected, LegitSuccess: -1}
		if err := s.run(ctx, &row); err != nil {
			return rows, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, row)
		if err := t.cleanUp(ctx); err != nil {
			return rows, err
		}
	}
	return rows, ctx.Err()
}

// tellManager is what the detector says to the filter manager, and its answer.
func (t *terminus) tellManager(ctx context.Context, src netip.Addr, trueSource, reflected bool) {
	r := filterman.Request{Src: hostPrefix(src), Dst: hostPrefix(t.at(addrServer)),
		Witness: filterman.SeenNoTS, Reflected: reflected, Detector: "lab"}
	if trueSource {
		r.Witness = filterman.SeenTS
	}
	v, err := t.api.Add(ctx, []filterman.Request{r})
	verdict := filterman.Verdict{State: filterman.Refused}
	if err != nil {
		verdict.Error = err.Error()
	} else if len(v) == 1 {
		verdict = v[0]
	}
	t.mu.Lock()
	t.verdicts[src] = verdict
	t.mu.Unlock()
}

func (t *terminus) verdict(src string) filterman.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.verdicts[t.at(src)]
}

// cleanUp takes all filters back and forgets what was seen.
func (t *terminus) cleanUp(ctx context.Context) error {
	if t.nodes["fm"].proc == nil {
		return nil
	}
	list, err := t.api.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.State == filterman.Installed {
			if err := t.api.Remove(ctx, e.Src, e.Dst); err != nil {
				return err
			}
		}
	}
	if err := t.detector.awaitQuiet(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.verdicts = map[netip.Addr]filterman.Verdict{}
	t.mu.Unlock()
	t.detector.forget()
	return nil
}

// counter reads one counter of a patrol.
func (t *terminus) counter(node, name string) uint64 {
	for _, mount := range bpfMounts() {
		if c, err := plane.OpenPatrolCounters(mount, t.nodes[node].instance); err == nil {
			return c[name]
		}
	}
	return 0
}

// attackFor is how long an attack goes on.
const attackFor = 2 * time.Second

// attack floods the server and watches what comes of it.
type attack struct {
	ns, src  string
	client   string // namespace of the client that is measured; "": none
	measured func() *asker
}

// outcome is what was seen of an attack.
type attackOutcome struct {
	sight    sighting
	filtered float64 // seconds
	success  float64
	verdict  filterman.Verdict
	sent     uint64
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// play runs an attack for its time, the measured client beside it.
func (t *terminus) play(ctx context.Context, a attack) (o attackOutcome, err error) {
	var c *asker
	if a.measured != nil {
		c = a.measured()
		defer c.stop()
	} else if a.client != "" {
		c = t.webClient(a.client)
		defer c.stop()
	}
	dst, srcPort, dstPort, payload := addrServer, uint16(4321), uint16(portFlooded), floodPayload
	watch := a.src
	if a.src == addrServer { // the reflection attack: the reflector's answers are what comes
		dst, srcPort, dstPort, payload, watch = addrRefl, portFlooded, portReflect, queryPayload, addrRefl
	}
	begin := time.Now()
	f, err := t.flood(a.ns, a.src, dst, srcPort, dstPort, payload)
	if err != nil {
		return o, err
	}
	err = sleep(ctx, attackFor)
	end := time.Now()
	o.sent = f.stop()
	if err != nil {
		return o, err
	}
	if c != nil {
		c.stop() // what it has under way shall count
	}
	o.sight, o.verdict = t.detector.of(t.at(watch)), t.verdict(watch)
	from := begin
	if o.sight.count > 0 && end.Sub(o.sight.last) > quietForTrust {
		o.filtered = o.sight.last.Sub(o.sight.first).Seconds()
		from = o.sight.last.Add(100 * time.Millisecond)
	}
	if c != nil {
		o.success = c.success(from, end.Add(-clientWait/2))
	} else {
		o.success = -1
	}
	return o, nil
}

// conditions join what must hold into a row.
func (r *TerminusRow) conclude(o attackOutcome, observed string, ok bool) {
	r.Observed, r.OK, r.FilteredAfterS, r.LegitSuccess = observed, ok, o.filtered, o.success
}

type scenario struct {
	topology, name, expected string
	run                      func(context.Context, *TerminusRow) error
}

// legitOK is the share of legitimate requests that must be answered.
const legitOK = 0.99

func (t *terminus) scenarios() []scenario {
	list := []scenario{
		{"fig2", "II bot at a Terminus provider", "filtered at its own border patrol within 2 s; clients served", t.bot},
		{"fig2", "III.A legacy traffic has lower priority", "under overload clients with the codepoint are served, those without are not", t.priority},
		{"fig2", "III.C.1 spoofing from a legacy provider", "arrives without the codepoint; no filter is asked for; the real client is served", t.spoofLegacy},
		{"fig2", "III.C.2 spoofing from a legacy provider that checks sources", "nothing arrives", t.spoofChecked},
		{"fig2", "III.C.3 spoofing from another Terminus provider", "nothing arrives; dropped by that provider's patrol", t.spoofOther},
		{"fig2", "III.C.4 spoofing from the same provider, another patrol", "nothing arrives; dropped by that patrol", t.spoofBeside},
		{"fig2", "III.C.5 spoofing behind the client's own patrol", "cannot be told apart: filtered at that patrol; clients elsewhere are served", t.spoofSame},
		{"fig3", "III.D reflection, request arrives with the codepoint", "the egress patrol blocks what is not marked; the server's own queries are answered", t.reflection},
		{"legacy", "III.D reflection, request arrives without the codepoint", "the reflector's answers lose the codepoint; clients are served", t.reflectionLegacy},
		{"fig2", "II offender that the server's gate reports", "one with the codepoint is filtered at its own border patrol within 3 s, one without is refused; clients served", t.gate},
		{"fig2", "III.E managers die", "filters stay, forwarding goes on, a patrol that comes back has its filters within 1 s", t.death},
	}
	return list
}

func (t *terminus) bot(ctx context.Context, row *TerminusRow) error {
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

func (t *terminus) priority(ctx context.Context, row *TerminusRow) error {
	legacy := t.webClient("h-att") // H's customer as an honest client
	defer legacy.stop()
	begin := time.Now()
	o, err := t.play(ctx, attack{ns: "b-att", src: addrB, client: "a-client"})
	if err != nil {
		return err
	}
	legacy.stop() // what it has under way shall count
	without := legacy.success(begin.Add(time.Second), time.Now().Add(-clientWait/2))
	row.conclude(o, fmt.Sprintf("served: %.0f %% with the codepoint, %.0f %% without", 100*o.success, 100*without),
		o.success >= legitOK && without < 0.8)
	return nil
}

func (t *terminus) spoofLegacy(ctx context.Context, row *TerminusRow) error {
	o, err := t.play(ctx, attack{ns: "b-att", src: addrClient, client: "a-client"})
	if err != nil {
		return err
	}
	row.conclude(o, fmt.Sprintf("%d arrived, %d with the codepoint, filter %s", o.sight.count, o.sight.trueSource, o.verdict.State),
		o.sight.count > 0 && o.sight.trueSource == 0 && o.verdict.State == filterman.Refused && o.success >= legitOK)
	return nil
}

// nothingArrives is what three of the five scenarios come to.
func (t *terminus) nothingArrives(ctx context.Context, row *TerminusRow, ns, patrol string) error {
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

func (t *terminus) spoofChecked(ctx context.Context, row *TerminusRow) error {
	return t.nothingArrives(ctx, row, "h-att", "")
}

func (t *terminus) spoofOther(ctx context.Context, row *TerminusRow) error {
	return t.nothingArrives(ctx, row, "c-att", "pc")
}

func (t *terminus) spoofBeside(ctx context.Context, row *TerminusRow) error {
	return t.nothingArrives(ctx, row, "a2-att", "pa2")
}

func (t *terminus) spoofSame(ctx context.Context, row *TerminusRow) error {
	victim := t.webClient("a-client")
	defer victim.stop()
	o, err := t.play(ctx, attack{ns: "a-bot", src: addrClient, client: "c-client"})
	if err != nil {
		return err
	}
	own := victim.success(o.sight.last.Add(100*time.Millisecond), time.Now().Add(-clientWait/2))
	row.conclude(o, fmt.Sprintf("%d of %d arrived, filter %s; the client behind that patrol is served to %.0f %%",
		o.sight.count, o.sent, o.verdict.State, 100*own),
		o.filtered > 0 && o.filtered < 2 && o.success >= legitOK && own < 0.01)
	return nil
}

// reflect begins the reflector and waits until the server can ask it.
func (t *terminus) reflector() (io.Closer, error) { return t.reflect("a-refl", addrRefl) }

func (t *terminus) reflection(ctx context.Context, row *TerminusRow) error {
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

// reflectionLegacy: the way from the filter manager to A leads through F, which is
// legacy; the way back does not.
func (t *terminus) reflectionLegacy(ctx context.Context, row *TerminusRow) error {
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

// death kills every process and sees what goes on without them.
func (t *terminus) death(ctx context.Context, row *TerminusRow) error {
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
	again, err := t.play(ctx, attack{ns: "a-bot", src: addrBot, client: "a-client"})
	if err != nil {
		return err
	}
	blocked = t.counter("pa", "filter_blocked") - blocked
	leaked := t.detector.of(t.at(addrBot)).count - before
	begin := time.Now()
	for _, name := range names { // patrols first would be enough; all come back
		if err := t.run(t.nodes[name]); err != nil {
			return err
		}
	}
	if err := t.nodes["pa"].await(ctx); err != nil {
		return err
	}
	back := time.Since(begin)
	for _, name := range names {
		if err := t.nodes[name].await(ctx); err != nil {
			return err
		}
	}
	third, err := t.play(ctx, attack{ns: "a-bot", src: addrBot})
	if err != nil {
		return err
	}
	leakedAgain := t.detector.of(t.at(addrBot)).count - before - leaked
	o.success = again.success
	row.conclude(o, fmt.Sprintf("without any process: %d of %d arrived, %d blocked; the patrol was back after %.2f s; then %d of %d arrived",
		leaked, again.sent, blocked, back.Seconds(), leakedAgain, third.sent),
		o.filtered > 0 && leaked == 0 && blocked > 0 && again.success >= legitOK && back < time.Second && leakedAgain == 0)
	return nil
}
