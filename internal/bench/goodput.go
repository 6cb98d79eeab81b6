// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/lab/trial"
)

const goodputFor = 700 * time.Millisecond

// measureGoodput uploads over one connection to the server, whose port has no
// programs, empty ones, or the gate's in its receive path.
func measureGoodput(ctx context.Context, opt Options, rig *trial.Stand, res *Result) error {
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return err
	}
	defer yard.Close()
	gate, err := newGate(0)
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := fillSocketFilter(gate); err != nil {
		return err
	}
	xdp, tc := gate.Programs()
	// One connection for all rounds, set up before any program is attached.
	flow, err := newFlow(rig)
	if err != nil {
		return err
	}
	defer flow.close()
	gbps := map[string][]float64{}
	for round := range opt.Rounds + 1 {
		for _, v := range []struct {
			name    string
			xdp, tc *ebpf.Program
		}{{"none", nil, nil}, {"empty", yard.TgBenchPass, yard.TgBenchTc}, {"tidegate", xdp, tc}} {
			off, err := receivePath(rig, v.xdp, v.tc)
			if err != nil {
				return err
			}
			rate, err := flow.run(goodputFor)
			if err := errors.Join(err, off(), ctx.Err()); err != nil {
				return err
			}
			if round > 0 {
				gbps[v.name] = append(gbps[v.name], rate)
			}
		}
	}
	res.GoodputGbps = map[string]float64{}
	for name, values := range gbps {
		res.GoodputGbps[name] = spread(values).Median
		res.Spreads["goodput_gbps "+name] = spread(values)
	}
	overEmpty, overNone := spread(ratios(gbps["tidegate"], gbps["empty"])), spread(ratios(gbps["tidegate"], gbps["none"]))
	res.GoodputRatio, res.GoodputRatioNoXDP = overEmpty.Median, overNone.Median
	res.Spreads["goodput_ratio"], res.Spreads["goodput_ratio_no_xdp"] = overEmpty, overNone
	return nil
}

// receivePath attaches programs to the server's port for clients.
func receivePath(rig *trial.Stand, xdp, tc *ebpf.Program) (off func() error, err error) {
	if xdp == nil {
		return func() error { return nil }, nil
	}
	x, err := rig.AttachXDP(rig.LegitPort, xdp)
	if err != nil {
		return nil, err
	}
	var t link.Link
	err = rig.Server.Do(func() (err error) {
		t, err = link.AttachTCX(link.TCXOptions{Interface: rig.LegitPort.Index, Program: tc,
			Attach: ebpf.AttachTCXIngress})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return func() error { return errors.Join(t.Close(), x.Close()) }, nil
}

// flow is one TCP connection from the client's to the server's namespace.
type flow struct {
	listener       net.Listener
	client, server net.Conn
}

func newFlow(rig *trial.Stand) (f *flow, err error) {
	f = &flow{}
	target := net.TCPAddrFromAddrPort(netip.AddrPortFrom(labAddresses[0], 80))
	err = rig.Server.Do(func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		f.listener, err = lc.Listen(context.Background(), "tcp", target.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	accepted := make(chan error, 1)
	go func() {
		var err error
		f.server, err = f.listener.Accept()
		accepted <- err
	}()
	err = rig.Client.Do(func() (err error) {
		var d net.Dialer
		d.SetMultipathTCP(false)
		d.Timeout = 5 * time.Second
		// BBR paces by its own estimates, which is noise here.
		d.Control = func(_, _ string, c syscall.RawConn) (err error) {
			ctl := c.Control(func(fd uintptr) {
				err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
			})
			return errors.Join(err, ctl)
		}
		f.client, err = d.Dial("tcp", target.String())
		return err
	})
	if err != nil {
		return nil, errors.Join(err, f.listener.Close())
	}
	if err := <-accepted; err != nil {
		return nil, errors.Join(err, f.listener.Close())
	}
	return f, nil
}

// run sends as fast as possible and returns Gbit/s as received.
func (f *flow) run(d time.Duration) (float64, error) {
	type outcome struct {
		bytes int64
		err   error
	}
	sent := make(chan outcome, 1)
	begin := time.Now()
	go func() {
		var o outcome
		buf := make([]byte, 256<<10)
		for o.err == nil && time.Since(begin) < d {
			var n int
			n, o.err = f.client.Write(buf)
			o.bytes += int64(n)
		}
		sent <- o
		if o.err == nil { // wakes the reader, which may have read everything already
			_, _ = f.client.Write([]byte{0})
		}
	}()
	in := make([]byte, 256<<10)
	want := int64(-1)
	for got := int64(0); want < 0 || got < want+1; {
		if err := f.server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return 0, err
		}
		n, err := f.server.Read(in)
		if err != nil {
			return 0, err
		}
		got += int64(n)
		select {
		case o := <-sent:
			if o.err != nil {
				return 0, o.err
			}
			want = o.bytes
		default:
		}
	}
	return float64(want) * 8 / float64(time.Since(begin).Nanoseconds()), nil
}

func (f *flow) close() {
	f.client.Close()
	f.server.Close()
	f.listener.Close()
}
