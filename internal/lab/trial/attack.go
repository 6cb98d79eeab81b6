// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/sampler"
)

// Measured is the result of one attack.
type Measured struct {
	Load     load.ClientResult
	Flood    load.FloodStats
	Arrived  uint64 // SYNs at the server's port
	Answered uint64 // answers that reached the attacker's sink
	SynRecv  int
	// Instructions of the flood's processor, in whose softirq the server works; 0: this machine cannot count them.
	Instructions uint64
	state        *ProxyState
}

// attack runs the flood, with the clients in the middle of it. The flood continues
// until the last request has ended.
func (env *Env) attack(ctx context.Context, t *rig.Topology, f *load.Flood, srv *rig.Process, def defences.Defence) (*Measured, error) {
	cl, err := env.StartClient(ctx, t)
	if err != nil {
		return nil, err
	}
	defer cl.Proc.Stop(0)
	m := &Measured{}
	memory, _ := def.(defences.Stateful)
	if t.Box == nil {
		memory = nil
	}
	rx0, err := t.FloodPort.RxPackets()
	if err != nil {
		return nil, err
	}
	ans0, err := t.Answers()
	if err != nil {
		return nil, err
	}
	floodCtx, stopFlood := context.WithCancel(ctx)
	defer stopFlood()
	var wg sync.WaitGroup
	defer wg.Wait()
	var floodErr error
	if env.opts.Rate > 0 {
		wg.Go(func() {
			m.Instructions, floodErr = sampler.Instructions(env.Pin.Flood, func() (err error) {
				m.Flood, err = f.Run(floodCtx, env.opts.Rate)
				return err
			})
		})
	}
	loadCtx, stopWatch := context.WithCancel(floodCtx)
	defer stopWatch()
	wg.Go(func() { m.SynRecv = env.Watch(loadCtx, t) })
	if memory != nil {
		wg.Go(func() { m.state = watchState(floodCtx, memory) })
	}
	m.Load, err = cl.Run(ctx, FloodHead)
	stopWatch()
	if memory != nil && err == nil {
		env.hold(ctx, t)
	}
	stopFlood()
	wg.Wait()
	if err := errors.Join(err, floodErr); err != nil {
		return nil, err
	}
	select {
	case <-srv.Exited:
		return nil, fmt.Errorf("web server exited during the attack: %w", srv.Failure())
	default:
	}
	rx1, err1 := t.FloodPort.RxPackets()
	ans1, err2 := t.Answers()
	m.Arrived, m.Answered = rx1-rx0, ans1-ans0
	return m, errors.Join(err1, err2)
}

// Watch returns the peak number of half-open connections and logs the flood's
// progress.
func (env *Env) Watch(ctx context.Context, t *rig.Topology) (peak int) {
	begin := time.Now()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	rx0, _ := t.FloodPort.RxPackets()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return peak
		case <-tick.C:
		}
		if n, err := t.Server.SynRecv(); err == nil {
			peak = max(peak, n)
		}
		if i%8 == 0 {
			rx, _ := t.FloodPort.RxPackets()
			env.Progress("%s: %.0f s, %d SYNs, %d half-open", env.opts.Defence,
				time.Since(begin).Seconds(), rx-rx0, peak)
		}
	}
}

// Client is the load child, ready to start.
type Client struct {
	Proc  *rig.Process
	stdin io.WriteCloser
	out   *bufio.Reader
}

// StartClient starts the child, which checks that the service answers.
func (env *Env) StartClient(ctx context.Context, t *rig.Topology) (*Client, error) {
	o := env.opts
	if err := t.Client.SetSysctls(clientSysctls(o)...); err != nil {
		return nil, err
	}
	requests := o.Requests
	if requests == 0 {
		requests = max(1, int(o.Load*o.Duration.Seconds()))
	}
	cfg, err := json.Marshal(load.ClientConfig{
		Target: rig.ServiceAddr(o.IPv6), Sources: rig.ClientSources(o.Clients, o.IPv6),
		Rate: o.Load, Requests: requests, Timeout: o.Timeout, ClientCloses: o.ClientCloses,
		Retries: o.Retries, KeepConnect: o.KeepConnect, Urgent: o.Urgent,
	})
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p, err := rig.StartProcess(t.Client, env.Pin.Client, inR, outW, env.Self, load.ClientChild)
	inR.Close()
	outW.Close()
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	c := &Client{Proc: p, stdin: inW, out: bufio.NewReader(outR)}
	go func() {
		<-p.Exited
		inW.Close()
	}()
	if _, err := inW.Write(append(cfg, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("client: %w", err), c.abort(ctx))
	}
	line, err := c.readLine(ctx)
	if err != nil || string(line) != "ready\n" {
		return nil, errors.Join(fmt.Errorf("client is not ready: %q", line), c.abort(ctx))
	}
	return c, nil
}

// clientSysctls configure the clients' TCP.
func clientSysctls(o Options) [][2]string {
	timestamps := "1"
	if o.NoTimestamps {
		timestamps = "0"
	}
	s := [][2]string{
		{"net.ipv4.tcp_timestamps", timestamps},
		// A client that closed first may reuse its port after a second.
		{"net.ipv4.tcp_tw_reuse", "1"},
	}
	if o.Ports > 0 {
		first := 65536 - 4096 - o.Ports
		if first < 1024 {
			first = 1024
		}
		s = append(s, [2]string{"net.ipv4.ip_local_port_range", strconv.Itoa(first) + " " + strconv.Itoa(first+o.Ports-1)})
	}
	return s
}

// Run waits for head, while the flood fills queues, starts the load and reads the result.
func (c *Client) Run(ctx context.Context, head time.Duration) (load.ClientResult, error) {
	var res load.ClientResult
	select {
	case <-time.After(head):
	case <-ctx.Done():
		return res, ctx.Err()
	}
	if _, err := io.WriteString(c.stdin, "go\n"); err != nil {
		return res, errors.Join(fmt.Errorf("client: %w", err), c.abort(ctx))
	}
	line, err := c.readLine(ctx)
	if err != nil {
		return res, errors.Join(err, c.abort(ctx))
	}
	if err := json.Unmarshal(line, &res); err != nil {
		return res, fmt.Errorf("client's result: %w", err)
	}
	return res, nil
}

// readLine reads one line from the child; if ctx ends first, it ends the child.
func (c *Client) readLine(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Proc.Cmd.Process.Kill() })
	defer stop()
	line, err := c.out.ReadBytes('\n')
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return line, err
}

// abort ends the child and returns why it failed, if it reports that.
func (c *Client) abort(ctx context.Context) error {
	select {
	case <-c.Proc.Exited:
	case <-time.After(time.Second):
		_ = c.Proc.Cmd.Process.Kill()
		<-c.Proc.Exited
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Proc.Failure()
}
