// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Options of a fleet under a carpet of SYNs.
type Options struct {
	Gates    int
	Servers  int           // NATS servers, 1 or 3
	Routers  int           // that speak BGP with the first two gates
	Rate     load.Rate     // of the flood, all gates together
	Every    time.Duration // between two requests to a gate
	Timeout  time.Duration // of a request
	Calm     time.Duration // of the gates' detectors; production has 30 s
	Patience time.Duration // how long nodes have to know something
	Tidegate string        // the program; empty: the one that FindTidegate finds
	Progress func(string, ...any)
}

// DefaultOptions are those of the command.
func DefaultOptions() Options {
	return Options{Gates: 20, Servers: 3, Routers: 2, Rate: 20_000, Every: 200 * time.Millisecond, Timeout: 5 * time.Second, Calm: 5 * time.Second, Patience: time.Minute,
		Progress: func(string, ...any) {}}
}

// Bounds of the options: each gate takes a namespace, a process of some 100 MiB, and a part of the flood.
const (
	maxGates = 40
	maxRate  = 200_000
)

// Validate checks the options; an error names the option, its value, and valid values.
func (o *Options) Validate() error {
	switch {
	case o.Gates < 2 || o.Gates > maxGates:
		return fmt.Errorf("--gates %d: want 2 to %d", o.Gates, maxGates)
	case o.Servers != 1 && o.Servers != 3:
		return fmt.Errorf("--servers %d: want 1 or 3; of two, the death of one leaves no majority", o.Servers)
	case o.Routers < 0 || o.Routers > 4:
		return fmt.Errorf("--routers %d: want 0 to 4", o.Routers)
	case o.Rate < 1000 || o.Rate > maxRate:
		return fmt.Errorf("--rate %s: want 1000 to %d SYNs a second, all gates together", o.Rate, maxRate)
	}
	return nil
}

// Row is when those concerned knew of an event.
type Row struct {
	Event string    `json:"event"`
	At    float64   `json:"at_s"` // since the clients began
	Who   string    `json:"who"`  // nodes, routers
	When  Spread    `json:"when"`
	Each  []float64 `json:"each_ms"`
}

// Result is what the lab has seen.
type Result struct {
	Gates    int            `json:"gates"`
	Servers  int            `json:"nats_servers"`
	Routers  int            `json:"routers"`
	Rate     float64        `json:"syns_per_s"` // sent, all gates together
	SYNs     uint64         `json:"syns"`
	Kernel   string         `json:"kernel"`
	CPU      string         `json:"cpu"`
	Cores    int            `json:"cores"`
	Rows     []Row          `json:"rows"`
	Requests int            `json:"requests"`
	Served   int            `json:"served"`
	Errors   map[string]int `json:"errors,omitempty"`
	Upgraded string         `json:"upgraded"` // gate1's version, before and after
}

// Passed reports whether everybody knew everything in time and every request was served.
func (r *Result) Passed() bool {
	return r.Served == r.Requests && r.Requests > 0 && !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.When.Known != row.When.All })
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d gates, %d NATS servers, %d routers, %.0f SYN/s over all gates; %d cores of %s, Linux %s\n\n", r.Gates, r.Servers, r.Routers, r.Rate, r.Cores, r.CPU, r.Kernel)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "AT s\tFIRST ms\tMEDIAN ms\tLAST ms\tKNOW\t  EVENT, WHO\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%.1f\t%.0f\t%.0f\t%.0f\t%d/%d\t  %s\t\n", row.At, row.When.First, row.When.Median, row.When.Last, row.When.Known, row.When.All, row.Event+": "+row.Who)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ngate1 was upgraded: %s\n", r.Upgraded)
	share := 0.0
	if r.Requests > 0 {
		share = 100 * float64(r.Served) / float64(r.Requests)
	}
	_, err := fmt.Fprintf(w, "legitimate requests served: %d of %d (%.4g %%)%s\n", r.Served, r.Requests, share, failures(r.Errors))
	return err
}

func failures(errs map[string]int) string {
	if len(errs) == 0 {
		return ""
	}
	return fmt.Sprintf("; failed: %v", errs)
}

// gate is one `tidegate run`.
type gate struct {
	*host
	name string
	conf string
	proc *rig.Process
}

type lab struct {
	o       Options
	w       *rig.Workplace
	net     *network
	gates   []*gate
	nats    *cluster
	op      *fleet.Operator
	exe     string
	clients *clients
	began   time.Time
	res     *Result

	mu      sync.Mutex
	routers []*rig.Process
	learned [][]learned // of each router
	httpd   []*rig.Process
}

// Run builds everything, lets the events happen, and removes everything.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	x := &lab{o: o, exe: o.Tidegate, res: &Result{Gates: o.Gates, Servers: o.Servers, Routers: o.Routers, Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), Cores: runtime.NumCPU()}}
	if x.exe == "" {
		if x.exe, err = rig.FindTidegate(); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(x.exe), "tidegate-bgp")); err != nil && o.Routers > 0 {
		return nil, fmt.Errorf("no tidegate-bgp beside %s: build it with `make build`, or use --routers 0", x.exe)
	}
	if x.w, err = rig.NewWorkplace(x.exe, o.Progress); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.w.Close()) }()
	if x.net, err = newNetwork(x.w.Owner); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.net.close()) }()
	defer x.stop()
	if err := x.build(ctx); err != nil {
		return nil, err
	}
	if err := x.happen(ctx); err != nil {
		return nil, err
	}
	return x.res, nil
}

// stop ends every process, gates first: they take their packet paths down.
func (x *lab) stop() {
	if x.clients != nil {
		x.clients.end()
	}
	if x.op != nil {
		x.op.Close()
	}
	var wg sync.WaitGroup
	for _, g := range x.gates {
		wg.Go(func() {
			if g.proc != nil {
				g.proc.End(syscall.SIGINT, 10*time.Second)
			}
			for _, mount := range rig.BpfMounts() {
				_ = os.RemoveAll(filepath.Join(mount, "tidegate", g.instance))
			}
			files, _ := filepath.Glob(filepath.Join(rig.RunDir, g.instance+"*"))
			for _, f := range files {
				_ = os.RemoveAll(f)
			}
		})
	}
	wg.Wait()
	for _, p := range append(x.routers, x.httpd...) {
		p.Stop(time.Second)
	}
	if x.nats != nil {
		x.nats.close()
	}
}

func (x *lab) build(ctx context.Context) error {
	o := x.o
	var names []string
	for i := range o.Gates {
		h, err := x.net.add(fmt.Sprintf("gate%d", i+1))
		if err != nil {
			return err
		}
		x.gates = append(x.gates, &gate{host: h, name: fmt.Sprintf("gate%d", i+1)})
		names = append(names, x.gates[i].name)
		p, err := rig.StartProcess(h.ns, -1, nil, nil, x.w.Self, "_httpd", "1000")
		if err != nil {
			return err
		}
		x.httpd = append(x.httpd, p)
	}
	var places []place
	for i := range o.Servers {
		h, err := x.net.add(fmt.Sprintf("nats%d", i+1))
		if err != nil {
			return err
		}
		places = append(places, place{ns: h.ns, addr: h.addr, client: 4222, cluster: 6222, monitor: 8222})
	}
	var err error
	if x.nats, err = newCluster(x.w.Self, x.w.Dir, places, names); err != nil {
		return err
	}
	for i := range places {
		if err := x.nats.start(i); err != nil {
			return err
		}
	}
	speaking := 0
	if o.Routers > 0 {
		speaking = min(2, o.Gates)
	}
	var routers []netip.Addr
	for i := range o.Routers {
		h, err := x.net.add(fmt.Sprintf("router%d", i+1))
		if err != nil {
			return err
		}
		routers = append(routers, h.addr)
		if err := x.startRouter(i, h, speaking); err != nil {
			return err
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	if err := os.WriteFile(filepath.Join(x.w.Dir, "secret"), []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		return err
	}
	if err := x.connect(ctx); err != nil {
		return err
	}
	o.Progress("%d NATS servers are ready; %d gates start", o.Servers, o.Gates)
	for i, g := range x.gates {
		g.conf = filepath.Join(x.w.Dir, g.name+".yaml")
		text := fmt.Sprintf(`instance: %s
interfaces: [tg-net]
secret_file: %s
services: [{name: web, ports: [%d], mode: monitor}]
fleet: {servers: [%s], node: %s, ca_file: %[6]s/ca.pem, cert_file: %[6]s/%[5]s.pem, key_file: %[6]s/%[5]s.key}
`, g.instance, filepath.Join(x.w.Dir, "secret"), rig.ServicePort, quoted(x.nats.urls(i)), g.name, x.w.Dir)
		if i < speaking {
			var peers []string
			for _, r := range routers {
				peers = append(peers, fmt.Sprintf("{address: %s, as: %d, local_address: %s, hops: 8}", r, routersAS, g.addr))
			}
			text += fmt.Sprintf("bgp: {as: %d, router_id: %s, service_prefixes: [203.0.113.0/24], own: [203.0.113.0/24], settle: 0s}\nbgp_peers: [%s]\n", gatesAS, g.addr, strings.Join(peers, ", "))
		}
		if err := os.WriteFile(g.conf, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return x.startGates(ctx)
}

func quoted(list []string) string {
	for i := range list {
		list[i] = strconv.Quote(list[i])
	}
	return strings.Join(list, ", ")
}

func (x *lab) startRouter(i int, h *host, speaking int) error {
	args := []string{x.w.Self, routerChild, h.addr.String()}
	for _, g := range x.gates[:speaking] {
		args = append(args, g.addr.String())
	}
	r, w := io.Pipe()
	p, err := rig.StartProcess(h.ns, -1, nil, w, args...)
	if err != nil {
		return err
	}
	x.routers, x.learned = append(x.routers, p), append(x.learned, nil)
	go func() {
		<-p.Exited
		w.Close()
	}()
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			var l learned
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				x.mu.Lock()
				x.learned[i] = append(x.learned[i], l)
				x.mu.Unlock()
			}
		}
	}()
	return nil
}

// connect connects the operator, who is in the hub.
func (x *lab) connect(ctx context.Context) (err error) {
	x.nats.dial = func(network, address string) (c net.Conn, err error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		err = x.net.hub.Do(func() (err error) {
			c, err = d.Dial(network, address)
			return err
		})
		return c, err
	}
	x.op, err = x.nats.operator(ctx, x.o.Patience)
	return err
}

// startGates starts gates, as many at once as there are processors.
func (x *lab) startGates(ctx context.Context) error {
	errs := make([]error, len(x.gates))
	slots := make(chan struct{}, max(2, runtime.NumCPU()))
	var wg sync.WaitGroup
	for i, g := range x.gates {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				errs[i] = x.startGate(ctx, g, x.exe)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func (x *lab) startGate(ctx context.Context, g *gate, exe string) (err error) {
	ready := rig.NewLineWaiter(rig.ReadyLine)
	if g.proc, err = rig.StartProcess(g.ns, -1, nil, ready, exe, "run", "-c", g.conf, "--detector-calm", x.o.Calm.String()); err != nil {
		return err
	}
	select {
	case <-ready.Seen:
		return nil
	case <-g.proc.Exited:
		return fmt.Errorf("%s ended before it was ready: %w", g.name, errors.Join(g.proc.Failure()))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("%s: not ready after %v: %s", g.name, rig.ReadyTimeout, g.proc.Stderr.String())
	}
}

// reports are the nodes' reports, read over a connection from the hub.
func (x *lab) reports(ctx context.Context) ([]fleet.Node, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	return x.op.Nodes(ctx)
}

// until polls the reports until each of the gates is as wanted, and returns when each said so, by its own clock, which is this machine's.
func (x *lab) until(ctx context.Context, wanted func(fleet.Node) bool) map[string]time.Time {
	at := map[string]time.Time{}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(at) < len(x.gates); time.Sleep(20 * time.Millisecond) {
		list, err := x.reports(ctx)
		if err != nil {
			continue
		}
		for _, n := range list {
			if _, known := at[n.Report.Node]; !known && wanted(n) {
				at[n.Report.Node] = n.At
			}
		}
	}
	return at
}

// row notes when those concerned knew.
func (x *lab) row(event, who string, happened time.Time, all int, at []time.Time) {
	var after []time.Duration
	for _, t := range at {
		after = append(after, max(0, t.Sub(happened)))
	}
	r := Row{Event: event, Who: who, At: happened.Sub(x.began).Seconds(), When: spread(all, after)}
	for _, d := range after { // sorted by spread
		r.Each = append(r.Each, float64(d.Microseconds())/1e3)
	}
	x.res.Rows = append(x.res.Rows, r)
	x.o.Progress("%s: %s: %v", event, who, r.When)
}

func values(m map[string]time.Time) (list []time.Time) {
	for _, t := range m {
		list = append(list, t)
	}
	return list
}

// happen lets everything happen.
func (x *lab) happen(ctx context.Context) (err error) {
	o := x.o
	joined := x.until(ctx, func(fleet.Node) bool { return true })
	if len(joined) != len(x.gates) {
		return errors.Join(ctx.Err(), fmt.Errorf("%d of %d gates have reported to the fleet within %v", len(joined), len(x.gates), o.Patience), x.nats.alive())
	}
	if err := x.awaitRoutes(ctx); err != nil {
		return err
	}
	x.clients = &clients{hub: x.net.hub, every: o.Every, timeout: o.Timeout}
	for _, g := range x.gates {
		x.clients.gates = append(x.clients.gates, netip.AddrPortFrom(g.addr, rig.ServicePort))
	}
	x.began = time.Now()
	x.clients.start(ctx)

	// A desired state.
	state := fleet.Desired{Modes: map[string]config.Mode{"web": config.ModeAuto}}
	if err := x.revise(ctx, "a desired state is applied (mode auto)", state, time.Time{}); err != nil {
		return err
	}

	// The flood.
	var floods load.FloodSet
	defer func() { err = errors.Join(err, floods.Close()) }()
	for _, g := range x.gates {
		f, err := load.NewFlood(g.hubPort, g.ownPort, load.FloodOptions{Target: netip.AddrPortFrom(g.addr, rig.ServicePort), CPU: -1})
		if err != nil {
			return err
		}
		floods = append(floods, f)
	}
	flooding, endFlood := context.WithCancel(ctx)
	defer endFlood()
	var flood sync.WaitGroup
	var sent load.FloodStats
	var floodErr error
	floodBegan := time.Now()
	flood.Go(func() { sent, floodErr = floods.Run(flooding, o.Rate) })
	x.eventsOf(ctx, "the flood begins", event.AttackBegan, floodBegan)

	// A NATS server dies.
	died := time.Now()
	if o.Servers > 1 {
		x.nats.kill(0)
	}
	state.Deny = []string{"203.0.113.77 # after the death"}
	what := "a NATS server is killed, and a prefix denied at once"
	if o.Servers == 1 {
		what = "a prefix is denied"
	}
	if err := x.revise(ctx, what, state, died); err != nil {
		endFlood()
		flood.Wait()
		return err
	}
	if err := x.upgrade(ctx); err != nil {
		endFlood()
		flood.Wait()
		return err
	}

	endFlood()
	flood.Wait()
	ended := time.Now()
	if floodErr != nil {
		return floodErr
	}
	x.res.SYNs, x.res.Rate = sent.Frames, float64(sent.Frames)/sent.Wall.Seconds()
	x.eventsOf(ctx, "the flood ends", event.AttackEnded, ended)
	x.clients.end()
	x.res.Requests, x.res.Served, x.res.Errors = x.clients.made, x.clients.ok, x.clients.errs
	if x.res.Requests == 0 {
		return errors.New("the clients made no request")
	}
	return errors.Join(ctx.Err(), x.nats.alive())
}

// revise applies a state; began is when what it is measured from happened, zero: the moment before it is applied.
func (x *lab) revise(ctx context.Context, what string, d fleet.Desired, began time.Time) error {
	if began.IsZero() {
		began = time.Now()
	}
	n, err := apply(ctx, x.op, d, x.o.Patience)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	at := x.until(ctx, func(r fleet.Node) bool { return r.Revision >= n })
	x.row(what, "gates have it in force", began, len(x.gates), values(at))
	return ctx.Err()
}

// eventsOf waits until each gate has had an event of a kind, and notes when, and when the NATS servers had it.
func (x *lab) eventsOf(ctx context.Context, what string, kind event.Kind, since time.Time) {
	at, received := map[string]time.Time{}, map[string]time.Time{}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(at) < len(x.gates); time.Sleep(50 * time.Millisecond) {
		short, stop := context.WithTimeout(ctx, 5*time.Second)
		_ = x.op.Events(short, since, false, func(e fleet.NodeEvent) error {
			var ev event.Event
			if json.Unmarshal(e.Event, &ev) != nil || ev.Kind != kind || ev.Time.Before(since) {
				return nil
			}
			if _, there := at[e.Node]; !there {
				at[e.Node], received[e.Node] = ev.Time, e.Received
			}
			return nil
		})
		stop()
	}
	x.row(what, "gates have noticed", since, len(x.gates), values(at))
	x.row(what, "the operator can see it of so many gates", since, len(x.gates), values(received))
}

// upgrade stops gate1 and starts another version in its place.
func (x *lab) upgrade(ctx context.Context) error {
	g := x.gates[0]
	exe, before, after, err := nextVersion(ctx, x.exe, filepath.Join(x.w.Dir, "next"))
	if err != nil {
		return err
	}
	stopped := time.Now()
	g.proc.End(syscall.SIGTERM, 20*time.Second) // the packet path stays in place
	if err := x.startGate(ctx, g, exe); err != nil {
		return err
	}
	started := time.Now()
	seen := x.until1(ctx, func(n fleet.Node) bool { return n.Report.Node == g.name && n.Version == after && n.At.After(stopped) })
	x.row("gate1 is stopped and started in another version", "`fleet status` shows it", stopped, 1, seen)
	x.res.Upgraded = before + " to " + after
	if x.o.Routers == 0 {
		return ctx.Err()
	}
	gone, back := x.routes(ctx, g.addr, stopped, started)
	x.row("gate1 is stopped and started in another version", "routers have withdrawn its route", stopped, x.o.Routers, gone)
	x.row("gate1 is stopped and started in another version", "routers have its route again", stopped, x.o.Routers, back)
	return ctx.Err()
}

func (x *lab) until1(ctx context.Context, wanted func(fleet.Node) bool) []time.Time {
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		list, _ := x.reports(ctx)
		for _, n := range list {
			if wanted(n) {
				return []time.Time{n.At}
			}
		}
	}
	return nil
}

// awaitRoutes waits until each router has learned the prefix from each gate that announces it.
func (x *lab) awaitRoutes(ctx context.Context) error {
	if x.o.Routers == 0 {
		return nil
	}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		known := 0
		for i := range x.routers {
			for _, g := range x.gates[:2] {
				if _, there := x.last(i, g.addr, false, time.Time{}); there {
					known++
				}
			}
		}
		if known == 2*x.o.Routers {
			return nil
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("the routers have not learned the gates' prefix within %v", x.o.Patience))
}

// last is when a router first heard something of a gate after a time.
func (x *lab) last(router int, of netip.Addr, withdrawn bool, after time.Time) (time.Time, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.learned[router] {
		if l.From == of.String() && l.Withdrawn == withdrawn && l.At.After(after) {
			return l.At, true
		}
	}
	return time.Time{}, false
}

// routes waits until each router has lost a gate's route and learned it again.
func (x *lab) routes(ctx context.Context, of netip.Addr, stopped, started time.Time) (gone, back []time.Time) {
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(gone)+len(back) < 2*len(x.routers); time.Sleep(20 * time.Millisecond) {
		gone, back = nil, nil
		for i := range x.routers {
			at, lost := x.last(i, of, true, stopped)
			if !lost {
				continue
			}
			gone = append(gone, at)
			if at, again := x.last(i, of, false, at); again {
				back = append(back, at)
			}
		}
	}
	return gone, back
}

// nextVersion makes a copy of the program whose version is another: the same code, with other letters where its version stands.
func nextVersion(ctx context.Context, exe, dir string) (path, before, after string, err error) {
	out, err := exec.CommandContext(ctx, exe, "version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		return "", "", "", fmt.Errorf("%s version: %q: %w", exe, out, err)
	}
	before = words[1]
	after = strings.Repeat("N", min(4, len(before))) + before[min(4, len(before)):]
	if len(before) < 5 { // not stamped: too short to be found
		return exe, before, before, nil
	}
	image, err := os.ReadFile(exe)
	if err != nil {
		return "", "", "", err
	}
	changed := bytes.ReplaceAll(image, []byte(before), []byte(after))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", "", err
	}
	path = filepath.Join(dir, "tidegate")
	if err := os.WriteFile(path, changed, 0o700); err != nil {
		return "", "", "", err
	}
	err = os.Symlink(filepath.Join(filepath.Dir(exe), "tidegate-bgp"), filepath.Join(dir, "tidegate-bgp"))
	return path, before, after, err
}
