// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/upstream"
)

// DefaultAPI is where the API of an instance is served by default.
func DefaultAPI(stateDir, instance string) string {
	return filepath.Join(stateDir, instance+".filters.sock")
}

// GCPercent lets the heap, which is mostly the list of filters, grow to three times
// what is alive before it is collected: millions of live entries are walked less often.
const GCPercent = 200

// keepEvery is how far the store is behind at most.
const keepEvery = time.Second

// Run manages filters until ctx ends. The requested filters stay in force.
func Run(ctx, _ context.Context, opt instance.Options) error {
	opt.Complete()
	cfg, err := opt.First()
	if err != nil {
		return err
	}
	f := cfg.Filter
	authority, closeAuthority, err := upstream.Open(ctx, f.Bindings, upstream.SignedOptions{Anchors: f.Signed.Anchors,
		Dir: f.Signed.Store, Key: f.Signed.Key, Listen: f.Signed.Listen, Neighbours: f.Signed.Neighbours,
		Publish: f.Signed.Publish, Log: opt.Log})
	if err != nil {
		return err
	}
	defer closeAuthority()
	debug.SetGCPercent(GCPercent)
	unlock, err := instance.Lock(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	engine, err := NewEngine(f.Listen, f.Codepoint)
	if err != nil {
		return err
	}
	defer engine.Close()
	file := f.FiltersFile
	if file == "" {
		file = filepath.Join(opt.StateDir, cfg.Instance+".filters.db")
	}
	store, list, aside, err := OpenStore(file)
	if err != nil {
		return err
	}
	defer store.Close()
	if aside != nil {
		opt.Log.Warn("the filters of the process before are lost; they expire by themselves", "error", aside)
	}
	p := policyOf(f)
	m := NewManager(Options{Engine: engine, Authority: authority, Own: p.Own, Never: p.Never,
		Expires: p.Expires, Floor: p.Floor, Idle: p.Idle, Proof: p.Proof, Log: opt.Log, Store: store})
	if n := m.Restore(list, time.Now()); len(list) > 0 {
		opt.Log.Info("took over filters", "filters", n, "taken_back_or_expired", len(list)-n)
	}
	path := f.API
	if path == "" {
		path = DefaultAPI(opt.StateDir, cfg.Instance)
	}
	api, err := ServeAPI(m, path)
	if err != nil {
		return err
	}
	defer api.Close()
	if f.APIListen.IsValid() {
		detectors, err := serveRemote(m, f, opt.Log)
		if err != nil {
			return err
		}
		defer detectors.Close()
	}
	for _, eve := range f.Suricata {
		go FollowEVE(ctx, eve, m, opt.Log)
	}
	if opt.Ready != nil {
		opt.Ready()
	}
	wait := instance.KeepUpstream(ctx, opt.StateDir, cfg, false, opt.Log, func(s *instance.Upstream) {
		s.Listen, s.API = engine.Addr().String(), path
		m.state(s)
	})
	defer wait()
	opt.Log.Info("managing filters", "instance", cfg.Instance, "own", f.Own, "api", path)
	return m.work(ctx, &opt, cfg, file)
}

// work has filters expire, writes them to the file and reloads the configuration until ctx ends.
func (m *Manager) work(ctx context.Context, opt *instance.Options, cfg *config.Config, file string) error {
	watch, keep := time.NewTicker(cfg.Filter.Watch), time.NewTicker(keepEvery)
	defer watch.Stop()
	defer keep.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return m.Keep()
		case <-opt.Reload:
			var err error
			cfg, err = m.reload(opt, cfg)
			watch.Reset(cfg.Filter.Watch)
			opt.Reloaded(opt.Log, cfg, err)
		case <-keep.C:
			err := m.Keep()
			if err != nil && !failed {
				opt.Log.Error("filters are not kept, and will be unknown after a restart; trying again", "file", file, "error", err)
			}
			failed = err != nil
		case now := <-watch.C:
			m.Tick(now)
		}
	}
}

// state is what `tidegate status` shows.
func (m *Manager) state(s *instance.Upstream) {
	s.Figures["bindings"] = uint64(m.opt.Authority.Len())
	for _, state := range []State{Asked, Installed, Partial, Refused} {
		s.Figures["filters_"+state.String()] = 0
	}
	m.mu.Lock()
	for e := range m.entries.all() {
		s.Figures["filters_"+e.State.String()]++
	}
	m.mu.Unlock()
	e := m.opt.Engine
	s.Counters = map[string]uint64{"messages_sent": e.Sent.Load(), "messages_retransmitted": e.Retransmits.Load(), "answers_wrong": e.Wrong.Load(),
		"eve_lines_skipped": m.EVESkipped.Load()}
}
