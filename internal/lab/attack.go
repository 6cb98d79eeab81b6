// SPDX-License-Identifier: Apache-2.0

package lab

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
)

// Measured is what one attack yielded.
type measured struct {
	load     loadResult
	flood    FloodStats
	arrived  uint64 // SYNs at the server's port
	answered uint64 // frames that came back and died at the attacker
	synRecv  int
	state    *ProxyState
}

// attack runs the flood, and in the midst of it the clients. The flood goes on
// until the last request has ended.
func (env *runEnv) attack(ctx context.Context, t *Topology, f *Flood, srv *Process, def defence) (*measured, error) {
	cl, err := env.startClient(ctx, t)
	if err != nil {
		return nil, err
	}
	defer cl.proc.Stop(0)
	m := &measured{}
	memory, _ := def.(stateful)
	if t.box == nil {
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
		wg.Go(func() { m.flood, floodErr = f.Run(floodCtx, env.opts.Rate) })
	}
	loadCtx, stopWatch := context.WithCancel(floodCtx)
	defer stopWatch()
	wg.Go(func() { m.synRecv = env.watch(loadCtx, t) })
	if memory != nil {
		wg.Go(func() { m.state = watchState(floodCtx, memory) })
	}
	m.load, err = cl.run(ctx, floodHead)
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
		return nil, fmt.Errorf("web server ended during the attack: %w", srv.Failure())
	default:
	}
	rx1, err1 := t.FloodPort.RxPackets()
	ans1, err2 := t.Answers()
	m.arrived, m.answered = rx1-rx0, ans1-ans0
	return m, errors.Join(err1, err2)
}

// Watch returns the peak number of half-open connections and says now and then
// how far the flood is.
func (env *runEnv) watch(ctx context.Context, t *Topology) (peak int) {
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
		if n, err := t.Server.synRecv(); err == nil {
			peak = max(peak, n)
		}
		if i%8 == 0 {
			rx, _ := t.FloodPort.RxPackets()
			env.Progress("%s: %.0f s, %d SYNs, %d half-open", env.opts.Defence,
				time.Since(begin).Seconds(), rx-rx0, peak)
		}
	}
}

// Client is the load child, ready to go.
type client struct {
	proc  *Process
	stdin io.WriteCloser
	out   *bufio.Reader
}

// StartClient starts the child, which proves that the service answers.
func (env *runEnv) startClient(ctx context.Context, t *Topology) (*client, error) {
	o := env.opts
	if err := t.Client.SetSysctls(clientSysctls(o)...); err != nil {
		return nil, err
	}
	requests := o.Requests
	if requests == 0 {
		requests = max(1, int(o.Load*o.Duration.Seconds()))
	}
	cfg, err := json.Marshal(loadConfig{
		Target: serviceAddr(o.IPv6), Sources: clientSources(o.Clients, o.IPv6),
		Rate: o.Load, Requests: requests, Timeout: o.Timeout, ClientCloses: o.ClientCloses,
		Retries: o.Retries, KeepConnect: o.KeepConnect,
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
	p, err := StartProcess(t.Client, env.Pin.Client, inR, outW, env.Self, childClient)
	inR.Close()
	outW.Close()
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	c := &client{proc: p, stdin: inW, out: bufio.NewReader(outR)}
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

// clientSysctls shape the clients' TCP.
func clientSysctls(o Options) [][2]string {
	timestamps := "1"
	if o.NoTimestamps {
		timestamps = "0"
	}
	s := [][2]string{
		{"net.ipv4.tcp_timestamps", timestamps},
		// A client that closed first may use its port again after a second.
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

// run waits for the flood to have done its worst, starts the load and reads the result.
func (c *client) run(ctx context.Context, head time.Duration) (loadResult, error) {
	var res loadResult
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

// readLine reads one line from the child, or ends it when ctx ends.
func (c *client) readLine(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.proc.Cmd.Process.Kill() })
	defer stop()
	line, err := c.out.ReadBytes('\n')
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return line, err
}

// abort ends the child and returns why it failed, if it says.
func (c *client) abort(ctx context.Context) error {
	select {
	case <-c.proc.Exited:
	case <-time.After(time.Second):
		_ = c.proc.Cmd.Process.Kill()
		<-c.proc.Exited
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.proc.Failure()
}
