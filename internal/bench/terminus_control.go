package bench

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/borderman"
	"tidegate/internal/filterman"
	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/patrol"
	"tidegate/internal/upstream"
)

// Control planes against dummies, as the paper measured them: the dummy does the
// bare minimum and has the other CPU.

// partConfig tells a counterpart, over its standard input, what to be.
type partConfig struct {
	Kind    string // bm, fm+patrol, bm-of-patrol
	CPU     int
	Peer    netip.AddrPort // whom to speak to
	Seed    keys.Secret    // its identity
	PeerKey []byte
	Count   int // filters or requests
	PerMsg  int
}

// partReply is what it says on its standard output.
type partReply struct {
	Addr netip.AddrPort
	Rate float64
}

// RunTerminusPart is the body of the hidden child.
func RunTerminusPart(in io.Reader, out io.Writer) error {
	var c partConfig
	r := bufio.NewReader(in)
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return err
	}
	if err := pinAll(c.CPU); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	switch c.Kind {
	case "bm":
		return dummyBM(enc)
	case "patrol":
		return dummyPatrol(&c, enc)
	case "fm":
		return dummyFM(&c, enc)
	case "bm-of-patrol":
		return dummyBMOfPatrol(&c, enc)
	}
	return fmt.Errorf("no part %q", c.Kind)
}

// pinAll binds this process to a CPU: its threads and those to come.
func pinAll(cpu int) error {
	runtime.GOMAXPROCS(1)
	return setAffinity(func(s *unix.CPUSet) { s.Set(cpu) })
}

func setAffinity(fill func(*unix.CPUSet)) error {
	var set unix.CPUSet
	fill(&set)
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// alone runs the part that is measured on one CPU and gives the process back.
func alone(cpu int, f func() error) error {
	procs := runtime.GOMAXPROCS(0)
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := pinAll(cpu); err != nil {
		return err
	}
	err := f()
	runtime.GOMAXPROCS(procs)
	return errors.Join(err, setAffinity(func(s *unix.CPUSet) { *s = before }))
}

// controlPart is a running counterpart.
type controlPart struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func (b *terminusBench) startPart(c partConfig) (*controlPart, error) {
	cmd := exec.Command(b.opt.Exe, "bench", "_part")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// Not from a locked thread: Pdeathsig is the thread's, and this goroutine's lives.
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &controlPart{cmd, in, json.NewDecoder(out)}
	if err := json.NewEncoder(in).Encode(c); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *controlPart) reply() (r partReply, err error) {
	if err = p.out.Decode(&r); err != nil {
		return r, fmt.Errorf("the counterpart ended: %w", err)
	}
	return r, nil
}

func (p *controlPart) stop() {
	p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

var benchLoopback = netip.MustParseAddrPort("127.0.0.1:0")

const (
	cpuMeasured = 0
	cpuDummy    = 1
)

// dummyBM answers every request at once: a nonce, then "OK".
func dummyBM(enc *json.Encoder) error {
	udp, err := upstream.ListenUDP(benchLoopback, 0)
	if err != nil {
		return err
	}
	if err := enc.Encode(partReply{Addr: udp.LocalAddr()}); err != nil {
		return err
	}
	in, out := upstream.NewInbox(), udp.NewOutbox()
	codes := make([]ifp.Code, 256)
	for {
		n, err := udp.Read(in)
		if err != nil {
			return err
		}
		for i := range n {
			h, err := ifp.ReadHeader(in.Data(i))
			if err != nil {
				continue
			}
			if h.Nonce == 0 {
				out.Add(in.From(i), func(b []byte) []byte { return ifp.AppendNonce(b, h.Request, 42) })
				continue
			}
			out.Add(in.From(i), func(b []byte) []byte {
				return ifp.AppendResult(b, h.Request, h.Nonce, codes[:min(int(h.Count), len(codes))], nil)
			})
		}
		out.Flush()
	}
}

var benchOwn = netip.MustParsePrefix("198.18.0.0/15")

// measureFM: detectors' requests come in lists of 512, as over its API.
func (b *terminusBench) measureFM() error {
	dummy, err := b.startPart(partConfig{Kind: "bm", CPU: cpuDummy})
	if err != nil {
		return err
	}
	defer dummy.stop()
	at, err := dummy.reply()
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(filterman.GCPercent)) // as the role does
	for _, full := range []bool{false, true} {
		rate := 0.0
		err := alone(cpuMeasured, func() error {
			engine, err := filterman.NewEngine(benchLoopback, 47)
			if err != nil {
				return err
			}
			defer engine.Close()
			authority := &upstream.Static{}
			authority.AddBorder(netip.MustParsePrefix("0.0.0.0/0"), upstream.Endpoint{Addr: at.Addr})
			per := 1
			if full {
				per = 0
			}
			m := filterman.NewManager(filterman.Options{Engine: engine, Authority: authority, Own: []netip.Prefix{benchOwn},
				Expires: time.Minute, Idle: time.Hour, PerMessage: per})
			rate, err = driveManager(m, b.opt.Requests, full)
			return err
		})
		if err != nil {
			return err
		}
		if full {
			b.res.FMFiltersPerS = rate
		} else {
			b.res.FMRequestsPerS = rate
		}
	}
	return nil
}

// driveManager asks for so many filters and waits for all answers.
func driveManager(m *filterman.Manager, count int, full bool) (rate float64, err error) {
	var answered, failed atomic.Int64
	done := make(chan struct{}, 1)
	list := make([]filterman.Request, 0, 2048)
	begin := time.Now()
	for sent := 0; sent < count; {
		list = list[:0]
		for k := 0; k < cap(list) && sent < count; k++ {
			f := benchFilter(sent)
			list = append(list, filterman.Request{Src: f.Src, Dst: f.Dst, Witness: filterman.SeenTS})
			sent++
		}
		for _, err := range m.AddAll(list, func(_ filterman.Entry, err error) {
			if err != nil {
				failed.Add(1)
			}
			if answered.Add(1) == int64(count) {
				done <- struct{}{}
			}
		}) {
			if err != nil {
				return 0, err
			}
		}
	}
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		return 0, fmt.Errorf("%d of %d answered", answered.Load(), count)
	}
	rate = float64(count) / time.Since(begin).Seconds()
	if n := failed.Load(); n > int64(count/1000) {
		return 0, fmt.Errorf("%d of %d requests failed", n, count)
	}
	return rate, nil
}

// dummyPatrol acknowledges whatever comes.
func dummyPatrol(c *partConfig, enc *json.Encoder) error {
	id := upstream.NewIdentity(&c.Seed)
	config, err := id.TLS(c.PeerKey)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return err
	}
	if err := enc.Encode(partReply{Addr: l.Addr().(*net.TCPAddr).AddrPort()}); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			in, message := bufio.NewReaderSize(conn, 1<<17), make([]byte, ifp.MaxStream)
			codes, out := make([]ifp.Code, 4096), make([]byte, 0, 8192)
			for {
				if _, err := io.ReadFull(in, message[:ifp.HeaderLen]); err != nil {
					return
				}
				n := int(message[2])<<8 | int(message[3])
				if _, err := io.ReadFull(in, message[ifp.HeaderLen:n]); err != nil {
					return
				}
				h, err := ifp.ReadHeader(message[:n])
				if err != nil {
					return
				}
				if h.Type == ifp.Stats {
					out = ifp.AppendStatistics(out[:0], 0, 0, make([]ifp.Stat, h.Count))
				} else {
					out = ifp.AppendResult(out[:0], 0, 0, codes[:h.Count], nil)
				}
				if _, err := conn.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

// dummyFM keeps a window of requests open until it has so many results.
func dummyFM(c *partConfig, enc *json.Encoder) error {
	udp, err := upstream.ListenUDP(benchLoopback, 47)
	if err != nil {
		return err
	}
	in, out := upstream.NewInbox(), udp.NewOutbox()
	const window = 1024
	filters := make([]ifp.Filter, c.PerMsg)
	request := func(n, nonce uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			for i := range filters {
				filters[i] = benchFilter((int(n)*c.PerMsg + i) % (benchSources * benchDsts))
			}
			return ifp.AppendRequest(b, ifp.Install, 0, n+1, nonce, filters)
		}
	}
	next, got, lost := uint64(0), 0, 0
	begin := time.Now()
	for ; next < window; next++ {
		out.Add(c.Peer, request(next, 0))
	}
	out.Flush()
	for got < c.Count {
		n, err := udp.Read(in)
		if err != nil {
			return err
		}
		for i := range n {
			h, err := ifp.ReadHeader(in.Data(i))
			if err != nil {
				continue
			}
			switch h.Type {
			case ifp.Nonce:
				out.Add(c.Peer, request(h.Request-1, h.Nonce))
			default:
				if h.Type != ifp.Result {
					lost++
				}
				got++
				out.Add(c.Peer, request(next, 0))
				next++
			}
		}
		out.Flush()
	}
	if lost > c.Count/1000 {
		return fmt.Errorf("%d of %d requests were refused", lost, c.Count)
	}
	return enc.Encode(partReply{Rate: float64(got*c.PerMsg) / time.Since(begin).Seconds()})
}

func (b *terminusBench) measureBM() error {
	var patrolSeed, bmSeed, nonceSeed keys.Secret
	for i, s := range []*keys.Secret{&patrolSeed, &bmSeed, &nonceSeed} {
		s[0], s[1] = byte(i), 0x42 // fixed: nobody else is here
	}
	bmID, patrolID := upstream.NewIdentity(&bmSeed), upstream.NewIdentity(&patrolSeed)
	dummy, err := b.startPart(partConfig{Kind: "patrol", CPU: cpuDummy, Seed: patrolSeed, PeerKey: bmID.Public()})
	if err != nil {
		return err
	}
	defer dummy.stop()
	at, err := dummy.reply()
	if err != nil {
		return err
	}
	authority := &upstream.Static{}
	authority.AddFilter(benchOwn, benchLoopback.Addr())
	return alone(cpuMeasured, func() error {
		m, err := borderman.New(borderman.Options{Listen: benchLoopback, Identity: bmID, Nonces: ifp.NewNonces(&nonceSeed, time.Now()),
			Authority: authority, Codepoint: 47, Log: quietLog(), Patrols: []borderman.Patrol{{Name: "dummy", Addr: at.Addr,
				Key: patrolID.Public(), Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}})
		if err != nil {
			return err
		}
		var done sync.WaitGroup
		done.Go(func() { _ = m.Run() })
		defer func() { m.Close(); done.Wait() }()
		for end := time.Now().Add(10 * time.Second); m.PatrolsUp() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return errors.New("the dummy patrol was not reached")
			}
		}
		for _, per := range []int{1, ifp.PerMessage(false)} {
			fm, err := b.startPart(partConfig{Kind: "fm", CPU: cpuDummy, Peer: m.Addr(), Count: max(b.opt.Requests/per, 2000), PerMsg: per})
			if err != nil {
				return err
			}
			r, err := fm.reply()
			fm.stop()
			if err != nil {
				return err
			}
			if per == 1 {
				b.res.BMRequestsPerS = r.Rate
			} else {
				b.res.BMFiltersPerS = r.Rate
			}
		}
		return nil
	})
}

// dummyBMOfPatrol sends filters to a patrol and waits for their acknowledgements.
func dummyBMOfPatrol(c *partConfig, enc *json.Encoder) error {
	config, err := upstream.NewIdentity(&c.Seed).TLS(c.PeerKey)
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", c.Peer.String(), config)
	if err != nil {
		return err
	}
	begin := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		b, filters := []byte{}, make([]ifp.Filter, c.PerMsg)
		for n := 0; n < c.Count; n += c.PerMsg {
			for i := range filters {
				filters[i] = benchFilter(n + i)
			}
			if b = ifp.AppendRequest(b[:0], ifp.Install, 0, 0, 0, filters); err != nil {
				return
			}
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	})
	in, message := bufio.NewReaderSize(conn, 1<<16), make([]byte, ifp.MaxStream)
	for n := 0; n < c.Count; n += c.PerMsg {
		if _, err := io.ReadFull(in, message[:ifp.HeaderLen+c.PerMsg]); err != nil {
			return err
		}
		for _, code := range message[ifp.HeaderLen : ifp.HeaderLen+c.PerMsg] {
			if ifp.Code(code) != ifp.OK {
				return fmt.Errorf("the patrol says %v", ifp.Code(code))
			}
		}
	}
	rate := float64(c.Count) / time.Since(begin).Seconds()
	wg.Wait()
	return enc.Encode(partReply{Rate: rate})
}

func (b *terminusBench) measurePatrol() error {
	var patrolSeed, bmSeed keys.Secret
	patrolSeed[0], bmSeed[0] = 1, 2
	bmID, patrolID := upstream.NewIdentity(&bmSeed), upstream.NewIdentity(&patrolSeed)
	config, err := patrolID.TLS(bmID.Public())
	if err != nil {
		return err
	}
	return alone(cpuMeasured, func() error {
		count := 2 * b.opt.Requests / 100 * 100
		f, closeAll, err := benchPatrol(count)
		if err != nil {
			return err
		}
		defer closeAll()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c := patrol.ServeControl(f.Table(), l, config, quietLog())
		defer c.Close()
		dummy, err := b.startPart(partConfig{Kind: "bm-of-patrol", CPU: cpuDummy, Peer: l.Addr().(*net.TCPAddr).AddrPort(),
			Seed: bmSeed, PeerKey: patrolID.Public(), Count: count, PerMsg: 100})
		if err != nil {
			return err
		}
		defer dummy.stop()
		r, err := dummy.reply()
		if err != nil {
			return err
		}
		if f.Table().Len() != count {
			return fmt.Errorf("%d of %d filters are installed", f.Table().Len(), count)
		}
		b.res.PatrolInstallsPerS = r.Rate
		return nil
	})
}

// measureEndToEnd: the three real parts in this process, both CPUs.
func (b *terminusBench) measureEndToEnd() error {
	var patrolSeed, bmSeed, nonceSeed keys.Secret
	patrolSeed[0], bmSeed[0], nonceSeed[0] = 1, 2, 3
	bmID, patrolID := upstream.NewIdentity(&bmSeed), upstream.NewIdentity(&patrolSeed)
	config, err := patrolID.TLS(bmID.Public())
	if err != nil {
		return err
	}
	count := 2 * b.opt.Requests
	f, closeAll, err := benchPatrol(count)
	if err != nil {
		return err
	}
	defer closeAll()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c := patrol.ServeControl(f.Table(), l, config, quietLog())
	defer c.Close()
	authority := &upstream.Static{}
	authority.AddFilter(benchOwn, benchLoopback.Addr())
	m, err := borderman.New(borderman.Options{Listen: benchLoopback, Identity: bmID, Nonces: ifp.NewNonces(&nonceSeed, time.Now()),
		Authority: authority, Codepoint: 47, Log: quietLog(), Patrols: []borderman.Patrol{{Name: "patrol",
			Addr: l.Addr().(*net.TCPAddr).AddrPort(), Key: patrolID.Public(), Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}})
	if err != nil {
		return err
	}
	var done sync.WaitGroup
	done.Go(func() { _ = m.Run() })
	defer func() { m.Close(); done.Wait() }()
	for end := time.Now().Add(10 * time.Second); m.PatrolsUp() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the patrol was not reached")
		}
	}
	engine, err := filterman.NewEngine(benchLoopback, 47)
	if err != nil {
		return err
	}
	defer engine.Close()
	authority.AddBorder(netip.MustParsePrefix("0.0.0.0/0"), upstream.Endpoint{Addr: m.Addr()})
	manager := filterman.NewManager(filterman.Options{Engine: engine, Authority: authority, Own: []netip.Prefix{benchOwn},
		Expires: time.Minute, Idle: time.Hour})
	b.res.EndToEndPerS, err = driveManager(manager, count, true)
	if err == nil && f.Table().Len() != count {
		err = fmt.Errorf("%d of %d filters are installed", f.Table().Len(), count)
	}
	return err
}
