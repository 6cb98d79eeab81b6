// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/role/borderman"
	"tidegate/internal/role/filterman"
	"tidegate/internal/role/patrol"
	"tidegate/internal/upstream"
)

// Control planes against dummies, as the paper measured them: the dummy does the
// bare minimum and has the other CPU.

var benchLoopback = netip.MustParseAddrPort("127.0.0.1:0")

const (
	cpuMeasured = 0
	cpuDummy    = 1
)

var benchOwn = netip.MustParsePrefix("198.18.0.0/15")

// measureFM measures the filter manager: detectors' requests come in lists of 512, as over its API.
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

// driveManager requests count filters and waits for all answers.
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
		for _, err := range m.AddAll(list, func(_ *filterman.Entry, err error) {
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
			Authority: authority, Codepoint: 47, Rate: -1, Log: quietLog(), Patrols: []borderman.Patrol{{Name: "dummy", Addr: at.Addr,
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

// measureEndToEnd runs the three real parts in this process, on both CPUs.
func (b *terminusBench) measureEndToEnd() error {
	defer debug.SetGCPercent(debug.SetGCPercent(filterman.GCPercent)) // as the role with nearly all of the memory does
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
		Authority: authority, Codepoint: 47, Rate: -1, Log: quietLog(), Patrols: []borderman.Patrol{{Name: "patrol",
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
	before := cpuTime()
	b.res.EndToEndPerS, err = driveManager(manager, count, true)
	b.res.EndToEndCount = count
	b.res.EndToEndCPUNs = float64(cpuTime()-before) / float64(count)
	if err == nil && f.Table().Len() != count {
		err = fmt.Errorf("%d of %d filters are installed", f.Table().Len(), count)
	}
	return err
}

// cpuTime is the processor time of this process so far.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
