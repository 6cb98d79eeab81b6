// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// A bridge leaves addresses and TTL alone, so a repeated test run, which meets its
// own output, measures the same path each time: sequence numbers run on.
const (
	segmentRepeat = 100_000
	tableFlows    = 1_000_000
)

// segmentFrame is an ACK of a live connection from the lab's client 0 to its
// service, with a TTL that lasts.
func (b *proxyBench) segmentFrame(clientPort uint16) []byte {
	f := ackFrame()
	copy(f[0:], b.box.LegitPort.MAC)
	copy(f[6:], b.box.ClientPort.MAC)
	copy(f[14+12:], []byte{198, 18, 16, 1, 198, 18, 0, 80})
	binary.BigEndian.PutUint16(f[14+20:], clientPort)
	return f
}

// segmentTurn is a turn of a program with that frame, as if it had come in by the clients' port.
func (b *proxyBench) segmentTurn(frame []byte) func(*ebpf.Program) (float64, error) {
	ctx := make([]byte, 24) // struct xdp_md
	binary.LittleEndian.PutUint32(ctx[4:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(ctx[12:], uint32(b.box.LegitPort.Index))
	return func(prog *ebpf.Program) (took float64, err error) {
		err = b.box.Proxy.Do(func() error {
			ns, err := testRun(prog, frame, ctx, segmentRepeat)
			took = float64(ns)
			return err
		})
		return took, err
	}
}

// testRun is BPF_PROG_TEST_RUN with a context, which says where the frame came in,
// and the mean duration of one repetition.
func testRun(prog *ebpf.Program, frame, ctx []byte, repeat uint32) (uint32, error) {
	attr := struct {
		fd, retval, sizeIn, sizeOut uint32
		dataIn, dataOut             uint64
		repeat, duration            uint32
		ctxSizeIn, ctxSizeOut       uint32
		ctxIn, ctxOut               uint64
		flags, cpu, batch           uint32
		_                           uint32
	}{fd: uint32(prog.FD()), sizeIn: uint32(len(frame)), dataIn: uint64(uintptr(unsafe.Pointer(&frame[0]))), repeat: repeat,
		ctxSizeIn: uint32(len(ctx)), ctxIn: uint64(uintptr(unsafe.Pointer(&ctx[0])))}
	const bpfProgTestRun = 10
	errno := unix.EINTR
	for errno == unix.EINTR { // Go wakes its threads by signals
		_, _, errno = unix.Syscall(unix.SYS_BPF, bpfProgTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	}
	runtime.KeepAlive(frame)
	runtime.KeepAlive(ctx)
	if errno != 0 {
		return 0, fmt.Errorf("BPF_PROG_TEST_RUN: %w", errno)
	}
	if attr.retval != 4 { // XDP_REDIRECT
		return 0, fmt.Errorf("the program returned %d instead of forwarding", attr.retval)
	}
	return attr.duration, nil
}

// putFlow adds a translated connection to the table.
func putFlow(p *plane.Proxy, frame []byte) error {
	return p.PutFlows4([]plane.FlowKey4{flowKey(frame)}, []plane.Flow{readyFlow()})
}

func flowKey(frame []byte) plane.FlowKey4 {
	ip := frame[14:]
	return plane.FlowKey4{Client: binary.LittleEndian.Uint32(ip[12:]), Server: binary.LittleEndian.Uint32(ip[16:]),
		Ports: binary.LittleEndian.Uint32(ip[20:])}
}

func readyFlow() plane.Flow {
	return plane.Flow{SeqDelta: 0x12345678, TsDelta: 0x9abcdef, Service: 1, State: 2, Flags: 1}
}

// segmentProxies are a bridge that translates the frame's connection, and one that forwards what its source sends.
func (b *proxyBench) segmentProxies(frame []byte) (cookie, auth *plane.Proxy, err error) {
	defer func() {
		for _, p := range []*plane.Proxy{cookie, auth} {
			if err != nil && p != nil {
				p.Close()
			}
		}
	}()
	if cookie, err = b.newBridge(config.StrategyCookie, 1<<20); err != nil {
		return nil, nil, err
	}
	if auth, err = b.newBridge(config.StrategyAuthFull, 1<<20); err != nil {
		return cookie, nil, err
	}
	if err := putFlow(cookie, frame); err != nil {
		return cookie, auth, err
	}
	xdp, _ := auth.Programs()
	syn := synFrame("v4", nil)
	copy(syn[26:], frame[26:34])
	putSums(syn)
	ack, err := b.answered(xdp, syn)
	if err == nil {
		_, err = b.through(xdp, ack, b.box.LegitPort.Index, xdpTx) // a reset, and the source is verified
	}
	return cookie, auth, err
}

// answered sends a SYN without timestamps to a bridge, and returns the ACK that its answer asks for.
func (b *proxyBench) answered(xdp *ebpf.Program, syn []byte) ([]byte, error) {
	synack, err := b.through(xdp, syn, b.box.LegitPort.Index, xdpTx)
	if err != nil {
		return nil, err
	}
	ack := slices.Clone(syn[:54])
	ack[17], ack[46], ack[47] = 40, 0x50, 0x10
	binary.BigEndian.PutUint32(ack[38:], binary.BigEndian.Uint32(syn[38:])+1)
	binary.BigEndian.PutUint32(ack[42:], binary.BigEndian.Uint32(synack[38:])+1)
	putSums(ack)
	return ack, nil
}

// through runs a frame through an XDP program in the kernel, as if it had come in by that port.
func (b *proxyBench) through(prog *ebpf.Program, frame []byte, port int, want uint32) ([]byte, error) {
	out, got, err := b.verdict(prog, frame, port)
	if err == nil && got != want {
		err = fmt.Errorf("the program returned %d, want %d", got, want)
	}
	return out, err
}

// verdict is what a program makes of a frame, and returns for it; always on the same CPU, as of the frames of one queue.
func (b *proxyBench) verdict(prog *ebpf.Program, frame []byte, port int) (out []byte, got uint32, err error) {
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256),
		Context: struct{ Data, DataEnd, DataMeta, Ingress, Queue, Egress uint32 }{DataEnd: uint32(len(frame)), Ingress: uint32(port)}}
	err = b.box.Proxy.Do(func() error {
		if err := toOneCPU(); err != nil {
			return err
		}
		got, err = prog.Run(&run)
		return err
	})
	return run.DataOut, got, err
}

// toOneCPU moves the calling thread to the first CPU on which it may run.
func toOneCPU() error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	return unix.SchedSetaffinity(0, &one)
}

// measureSegments measures segments translated, forwarded, and merely bridged.
func (b *proxyBench) measureSegments() error {
	frame := b.segmentFrame(40000)
	fresh := func() ([]*ebpf.Program, func(), error) {
		cookie, auth, err := b.segmentProxies(frame)
		if err != nil {
			return nil, nil, err
		}
		translated, _ := cookie.Programs()
		forwarded, _ := auth.Programs()
		return []*ebpf.Program{b.yard.TgBenchBridge, translated, forwarded}, func() { cookie.Close(); auth.Close() }, nil
	}
	ns, err := inTurns(b.ctx, b.opt.Rounds, fresh, b.segmentTurn(frame))
	if err != nil {
		return err
	}
	above, forward, bridge := spread(differences(ns[1], ns[0])), spread(differences(ns[2], ns[0])), spread(ns[0])
	b.res.TranslateNs, b.res.ForwardNs, b.res.BridgeNs = above.Median, forward.Median, bridge.Median
	b.res.Spreads["translate_ns"], b.res.Spreads["forward_ns"], b.res.Spreads["bridge_ns"] = above, forward, bridge
	return nil
}

// measureGoodput measures a connection through a plain router and a translated
// one, in turn.
func (b *proxyBench) measureGoodput() error {
	p, err := b.newProxy(config.StrategyCookie, 1<<16)
	if err != nil {
		return err
	}
	defer p.Close()
	xdp, tc := p.Programs()
	flows := map[string]*flow{}
	gbps := map[string][]float64{}
	for round := -1; round <= b.opt.Rounds; round++ {
		for _, v := range []struct {
			name string
			xdp  *ebpf.Program
		}{{"plain", b.yard.TgBenchRoute}, {"translated", xdp}} {
			off, err := b.occupy(v.xdp, tc, b.box.LegitPort, b.box.InnerPort)
			if err != nil {
				return err
			}
			if round < 0 {
				f, err := newFlow(b.rig)
				if err != nil {
					return errors.Join(fmt.Errorf("%s: %w", v.name, err), off())
				}
				defer f.close()
				f.listener.Close() // the next one needs the port
				flows[v.name] = f
			}
			rate, err := flows[v.name].run(goodputFor)
			if err := errors.Join(err, off(), b.ctx.Err()); err != nil {
				return err
			}
			if round > 0 {
				gbps[v.name] = append(gbps[v.name], rate)
			}
		}
	}
	b.res.GoodputGbps = map[string]float64{}
	for name, values := range gbps {
		b.res.GoodputGbps[name] = spread(values).Median
		b.res.Spreads["goodput_gbps "+name] = spread(values)
	}
	ratio := spread(ratios(gbps["translated"], gbps["plain"]))
	b.res.GoodputRatio, b.res.Spreads["goodput_ratio"] = ratio.Median, ratio
	return nil
}

// occupy attaches programs to the ports that a connection passes.
func (b *proxyBench) occupy(xdp, tc *ebpf.Program, ports ...*rig.Port) (off func() error, err error) {
	var links []link.Link
	off = func() (err error) {
		for _, l := range links {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	for _, at := range ports {
		x, err := b.rig.AttachXDP(at, xdp)
		if err != nil {
			return nil, errors.Join(err, off())
		}
		links = append(links, x)
		err = b.box.Proxy.Do(func() error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: at.Index, Program: tc, Attach: ebpf.AttachTCXIngress})
			if err == nil {
				links = append(links, l)
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(err, off())
		}
	}
	return off, nil
}

// measureTable measures memory and cost with a million flows, and how a swap
// affects the packets that arrive meanwhile.
func (b *proxyBench) measureTable() error {
	p, err := b.newBridge(config.StrategyCookie, 1<<20)
	if err != nil {
		return err
	}
	defer p.Close()
	frame := b.segmentFrame(40000)
	active, err := p.Active("tg_flows4")
	if err != nil {
		return err
	}
	defer active.Close()
	if err := fillFlows(p, frame); err != nil {
		return err
	}
	bytes, err := mapBytes(active)
	if err != nil {
		return err
	}
	b.res.Flows, b.res.TableMiB = tableFlows, float64(bytes)/(1<<20)
	b.res.BytesPerFlow = float64(bytes) / tableFlows
	xdp, _ := p.Programs()
	ns, err := inTurns(b.ctx, b.opt.Rounds, loaded(b.yard.TgBenchBridge, xdp), b.segmentTurn(frame))
	if err != nil {
		return err
	}
	above := spread(differences(ns[1], ns[0]))
	b.res.TranslateFull, b.res.Spreads["translate_ns_full"] = above.Median, above
	return b.measureSwap(p, xdp, frame)
}

func fillFlows(p *plane.Proxy, frame []byte) error {
	const batch = 20_000
	list, values := make([]plane.FlowKey4, batch), make([]plane.Flow, batch)
	key := flowKey(frame)
	for at := 0; at < tableFlows; at += batch {
		for i := range list {
			list[i], values[i] = key, readyFlow()
			n := uint32(at + i)
			list[i].Client = key.Client ^ n>>14<<24 ^ n>>14>>8<<16
			list[i].Ports = key.Ports ^ n&0x3fff
		}
		if err := p.PutFlows4(list, values); err != nil {
			return err
		}
	}
	return nil
}

// mapBytes is what the kernel accounts for a map.
func mapBytes(m *ebpf.Map) (uint64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	bytes, ok := info.Memlock()
	if !ok {
		return 0, errors.New("this kernel does not report the memory of a map")
	}
	return bytes, nil
}

// measureSwap sends single segments and records the longest time that one takes,
// with and without swaps. Userspace's own waits count: it is an upper bound.
func (b *proxyBench) measureSwap(p *plane.Proxy, xdp *ebpf.Program, frame []byte) error {
	longest := func(stop <-chan struct{}) (worst time.Duration) {
		_ = b.box.Proxy.Do(func() error {
			ctx := make([]byte, 24)
			binary.LittleEndian.PutUint32(ctx[4:], uint32(len(frame)))
			binary.LittleEndian.PutUint32(ctx[12:], uint32(b.box.LegitPort.Index))
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				took, err := testRun(xdp, frame, ctx, 1)
				if err != nil {
					return err
				}
				worst = max(worst, time.Duration(took))
			}
		})
		return worst
	}
	during := func(work func() error) (worst, took time.Duration, err error) {
		stop, done := make(chan struct{}), make(chan time.Duration)
		go func() { done <- longest(stop) }()
		begin := time.Now()
		err = work()
		took = time.Since(begin)
		close(stop)
		return <-done, took, err
	}
	worst, took, err := during(p.SwapFlows)
	if err != nil {
		return err
	}
	// The second swap discards a million flows.
	secondSwap, _, err := during(func() error {
		err := p.SwapFlows()
		time.Sleep(500 * time.Millisecond) // the kernel frees them after that
		return err
	})
	if err != nil {
		return err
	}
	idle, _, err := during(func() error { time.Sleep(took + 500*time.Millisecond); return nil })
	b.res.SwapStall = float64(max(worst, secondSwap).Nanoseconds()) / 1e6
	b.res.SwapBaseline = float64(idle.Nanoseconds()) / 1e6
	b.res.SwapTakes = float64(took.Nanoseconds()) / 1e6
	return err
}
