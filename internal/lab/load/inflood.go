// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/lab/labbpf"
	"tidegate/internal/lab/rig"
)

// Clients inside the flood (bpf/lab_client.h): the flood's program sends their frames between the flood's,
// through the same port. So the generator cannot delay a client by holding the
// processor, and no pause of the generator drains the victim's queue before a client sends.

// InFlood describes the clients that a flood carries.
type InFlood struct {
	Sources int // addresses
	Retries int // for a request that was reset before it got an answer
	Timeout time.Duration
	Door    labbpf.LabFloodTgDoorCfg // the addresses of the clients
}

// requestText is each client's request; its length is REQUEST_LEN.
const requestText = "GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n"

// setClients sets a collection's variables.
func setClients(spec *ebpf.CollectionSpec, c *InFlood) error {
	cfg := labbpf.LabFloodTgClientCfg{Sources: uint32(c.Sources), Retries: uint32(c.Retries), TimeoutNs: uint64(c.Timeout)}
	for i := range cfg.Request {
		cfg.Request[i] = binary.NativeEndian.Uint32([]byte(requestText[4*i:]))
	}
	return errors.Join(spec.Variables[labbpf.LabFloodVarClientCfg].Set(cfg), spec.Variables[labbpf.LabFloodVarDoorCfg].Set(c.Door))
}

// Door returns the program that hands the clients' answers to the generator's processor; other packets it passes
// or, if they answer the flood, drops.
func (f *Flood) Door() *ebpf.Program { return f.objs.TgLabDoor }

// sunkSYNACKs is the key of map sink_frames (enum tg_sunk in bpf/lab_flood.bpf.c).
const sunkSYNACKs = uint32(1)

// SYNACKs is how many SYN-ACKs to the flood's sources have arrived at the door, on any processor.
func (f *Flood) SYNACKs() (n uint64, err error) {
	var each []uint64
	if err := f.objs.SinkFrames.Lookup(sunkSYNACKs, &each); err != nil {
		return 0, err
	}
	for _, one := range each {
		n += one
	}
	return n, nil
}

// clientQueue is how many answers may wait for the generator's processor. The map's value is struct bpf_cpumap_val.
const clientQueue = 2048

// sizeClientCPU makes room for the generator's processor in the map of the clients' receiver.
func sizeClientCPU(spec *ebpf.CollectionSpec, cpu int) error {
	spec.Maps["client_cpu"].MaxEntries = uint32(cpu + 1)
	return spec.Variables[labbpf.LabFloodVarClientCpuId].Set(uint32(cpu))
}

// receiveClients starts the kernel thread that reads the clients' answers on the generator's processor, between two of its batches.
func (f *Flood) receiveClients() error {
	value := struct{ Qsize, Prog uint32 }{clientQueue, uint32(f.objs.TgLabClient.FD())}
	return rig.PromptThread(fmt.Sprintf("cpumap/%d/", f.cpu), func() error {
		return f.objs.ClientCpu.Put(uint32(f.cpu), value)
	})
}

// Requests is a load of evenly spaced requests.
type Requests struct {
	Count    int
	Rate     float64       // a second
	Head     time.Duration // from the flood's first frame until the first is due
	Response int           // length of the response, head included
}

// RunWithClients sends the flood and the clients' requests, and returns when both have ended.
func (f *Flood) RunWithClients(ctx context.Context, rate Rate, q Requests) (s FloodStats, res *ClientResult, err error) {
	gap := time.Duration(1e9 / q.Rate)
	first, due, err := f.prepareClients(q.Count, q.Head, q.Response, gap, 0)
	if err != nil {
		return s, nil, err
	}
	last := due + int64(q.Count)*gap.Nanoseconds() + f.clients.Timeout.Nanoseconds()
	s, err = f.runEven(ctx, rate, func() (bool, error) {
		var finished uint64
		err := f.objs.ClientFinished.Get(&finished)
		return finished >= uint64(q.Count) || monotonicNs() > last, err
	})
	if err = errors.Join(err, f.countClientFrames(&s), ctx.Err()); err != nil {
		return s, nil, err
	}
	res, err = f.collect(first, first+uint32(q.Count))
	return s, res, err
}

// OneClient is a single client that makes connection after connection.
type OneClient struct {
	For      time.Duration // from when the first is due
	Pause    time.Duration // from the end of one to when the next is due
	Head     time.Duration
	Response int
}

// RunWithOneClient sends the flood and one client's requests for as long as that. A request that was under way at the end is not part of the result.
func (f *Flood) RunWithOneClient(ctx context.Context, rate Rate, q OneClient) (s FloodStats, res *ClientResult, err error) {
	most := int(q.For/q.Pause) + 1
	if q.Pause <= 0 || most > int(f.objs.ClientConns.MaxEntries())/2 {
		return s, nil, fmt.Errorf("one client for %s with pauses of %s: its connections are too many to be remembered", q.For, q.Pause)
	}
	first, due, err := f.prepareClients(most, q.Head, q.Response, 0, q.Pause)
	if err != nil {
		return s, nil, err
	}
	end := due + q.For.Nanoseconds()
	s, err = f.runEven(ctx, rate, func() (bool, error) { return monotonicNs() > end, nil })
	var next uint32
	if err = errors.Join(err, f.countClientFrames(&s), f.objs.ClientNext.Get(&next), f.objs.ClientEnd.Set(next), ctx.Err()); err != nil {
		return s, nil, err
	}
	if next != first {
		var c labbpf.LabFloodTgClientConn
		if err := f.objs.ClientConns.Lookup((next-1)%f.objs.ClientConns.MaxEntries(), &c); err != nil {
			return s, nil, err
		}
		if c.DoneNs == 0 && int64(c.DueNs)+f.clients.Timeout.Nanoseconds() > end || int64(c.DoneNs) > end {
			next--
		}
	}
	res, err = f.collect(first, next)
	return s, res, err
}

// prepareClients makes this many requests due; returned are the number of the first and when it is due.
func (f *Flood) prepareClients(count int, head time.Duration, response int, gap, pause time.Duration) (first uint32, due int64, err error) {
	o := &f.objs
	if err := o.ClientEnd.Get(&first); err != nil {
		return 0, 0, err
	}
	due = monotonicNs() + head.Nanoseconds()
	return first, due, errors.Join(o.ClientFirst.Set(first), o.ClientScan.Set(first), o.ClientDueNs.Set(uint64(due)), o.ClientGapNs.Set(uint64(gap)),
		o.ClientPauseNs.Set(uint64(pause)), o.ClientExpect.Set(uint32(response)), o.ClientFinished.Set(uint64(0)), o.ClientFrames.Set(uint64(0)),
		o.ClientEnd.Set(first+uint32(count)))
}

// countClientFrames adds the clients' frames to what was sent.
func (f *Flood) countClientFrames(s *FloodStats) error {
	var overflow, lost uint64
	if err := errors.Join(f.objs.ClientFrames.Get(&s.ClientFrames), f.objs.QueueLostClient.Get(&lost), f.objs.ClientOverflow.Get(&overflow)); err != nil {
		return err
	}
	s.ClientFrames += lost
	if overflow > 0 {
		return fmt.Errorf("the generator's own queue of clients' frames overflowed %d times", overflow)
	}
	return nil
}

// States of enum tg_client_state in bpf/lab_client.h.
const (
	clientDone  = 3
	clientReset = 4
	clientBad   = 5
)

// collect reads the results of the requests.
func (f *Flood) collect(first, end uint32) (*ClientResult, error) {
	r := &ClientResult{Requests: int(end - first), Errors: map[string]int{}}
	connect, latency := newTimes(), newTimes()
	var lagMax time.Duration
	for i := first; i != end; i++ {
		var c labbpf.LabFloodTgClientConn
		if err := f.objs.ClientConns.Lookup(i%f.objs.ClientConns.MaxEntries(), &c); err != nil {
			return nil, err
		}
		r.Retried += int(c.Retries)
		lagMax = max(lagMax, time.Duration(c.SentNs-c.DueNs))
		took := f.clients.Timeout
		if c.ConnectedNs > 0 {
			recordTime(connect, time.Duration(c.ConnectedNs-c.DueNs))
		} else {
			recordTime(connect, took)
		}
		late := time.Duration(c.DoneNs-c.DueNs) > f.clients.Timeout
		switch {
		case c.State == clientDone && !late:
			r.OK++
			took = time.Duration(c.DoneNs - c.DueNs)
		case c.State == clientReset:
			r.Errors["reset"]++
		case c.State == clientBad:
			r.Errors["bad_response"]++
		case c.ConnectedNs == 0:
			r.Errors["connect_timeout"]++
		default:
			r.Errors["response_timeout"]++
		}
		recordTime(latency, took)
	}
	r.Connect, r.Latency, r.LagMax = quantiles(connect), quantiles(latency), Round3(lagMax.Seconds()*1e3)
	return r, nil
}

// ResponseLen makes one request over a socket and returns the length of the response; it
// retries until the service answers or ctx ends.
func ResponseLen(ctx context.Context, n *rig.Namespace, from netip.Addr, to netip.AddrPort) (size int, err error) {
	for ctx.Err() == nil {
		err = n.Do(func() error {
			d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
			d.SetMultipathTCP(false)
			c, err := d.DialContext(ctx, "tcp", to.String())
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			if _, err := io.WriteString(c, requestText); err != nil {
				return err
			}
			all, err := io.ReadAll(c)
			if err != nil {
				return err
			}
			var r response
			if complete, err := r.add(all); err != nil || !complete {
				return errBadResponse
			}
			size = len(all)
			return nil
		})
		if err == nil {
			return size, nil
		}
	}
	return 0, fmt.Errorf("the service does not answer even without a flood: %w", err)
}
