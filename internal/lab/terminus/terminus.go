// SPDX-License-Identifier: Apache-2.0

// Package terminus runs the scenarios of the Terminus paper: internet providers made of network
// namespaces, bots that spoof and reflect, and patrols, border managers and filter managers that
// are the tidegate binary, started as users start it. It must never load their programs itself.
package terminus

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/role/filterman"
)

// Options are what `tidegate-lab terminus` shows.
type Options struct {
	Topology string // fig2, fig3, legacy or all
	IPv6     bool
	Exe      string // the tidegate binary; empty: the one that FindTidegate finds
	Progress func(string, ...any)
}

// Topologies returns the values of --topology.
func Topologies() []string { return []string{"fig2", "fig3", "legacy", "all"} }

// Row is the expected and the observed result of one scenario.
type Row struct {
	Topology       string  `json:"topology"`
	Scenario       string  `json:"scenario"`
	Expected       string  `json:"expected"`
	Observed       string  `json:"observed"`
	OK             bool    `json:"ok"`
	FilteredAfterS float64 `json:"filtered_after_s"` // from the first packet of the attack to the last that arrived; 0: not filtered
	LegitSuccess   float64 `json:"legit_success"`    // share of legitimate requests answered; -1: none were made
}

// terminus is a network with all nodes running.
type terminus struct {
	*Network
	detector *detector
	api      *filterman.Client
	mu       sync.Mutex
	verdicts map[netip.Addr]filterman.Verdict
	progress func(string, ...any)
}

// Run makes the network, runs the scenarios of a topology, and always removes the
// network again.
func Run(ctx context.Context, o Options) (rows []Row, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	if _, err := rig.Clean(); err != nil {
		return nil, fmt.Errorf("clean up after dead labs: %w", err)
	}
	if o.IPv6 && !rig.HaveIPv6() {
		return nil, errors.New("--ipv6: this kernel has no IPv6; omit the option")
	}
	if o.Exe == "" {
		if o.Exe, err = rig.FindTidegate(); err != nil {
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
	t := &terminus{Network: net, verdicts: map[netip.Addr]filterman.Verdict{}, progress: o.Progress}
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
		row := Row{Topology: s.topology, Scenario: s.name, Expected: s.expected, LegitSuccess: -1}
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

// tellManager sends the detector's report to the filter manager and records the answer.
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

// cleanUp revokes all filters and forgets what was seen.
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
	for _, mount := range rig.BpfMounts() {
		if c, err := plane.OpenPatrolCounters(mount, t.nodes[node].instance); err == nil {
			return c[name]
		}
	}
	return 0
}

// attackFor is how long an attack lasts.
const attackFor = 2 * time.Second

// attack floods the server and records the result.
type attack struct {
	ns, src  string
	client   string // namespace of the client that is measured; "": none
	measured func() *asker
}

// attackOutcome is what was seen of an attack.
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

// play runs an attack for its time, and the measured client with it.
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
	if a.src == addrServer { // the reflection attack: the packets that arrive are the reflector's answers
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
		c.stop() // requests under way count
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

// conclude records the observation and whether the row is as expected.
func (r *Row) conclude(o attackOutcome, observed string, ok bool) {
	r.Observed, r.OK, r.FilteredAfterS, r.LegitSuccess = observed, ok, o.filtered, o.success
}
