// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/ifp"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/upstream"
)

// Run manages a border until ctx ends.
func Run(ctx, _ context.Context, opt instance.Options) error {
	opt.Complete()
	cfg, err := opt.First()
	if err != nil {
		return err
	}
	b := cfg.Border
	authority, closeAuthority, err := upstream.Open(ctx, b.Bindings, upstream.SignedOptions{Anchors: b.Signed.Anchors,
		Dir: b.Signed.Store, Key: b.Signed.Key, Listen: b.Signed.Listen, Neighbours: b.Signed.Neighbours,
		Publish: b.Signed.Publish, Log: opt.Log})
	if err != nil {
		return err
	}
	defer closeAuthority()
	id, err := upstream.LoadIdentity(b.Identity)
	if err != nil {
		return err
	}
	secret, err := keys.LoadSecret(cfg.SecretFile)
	if err != nil {
		return err
	}
	defer secret.Zero()
	patrols, err := patrolsOf(b)
	if err != nil {
		return err
	}
	unlock, err := instance.Lock(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := New(Options{Listen: b.Listen, Identity: id, Nonces: ifp.NewNonces(secret, time.Now()), Authority: authority,
		Patrols: patrols, Codepoint: b.Codepoint, Rate: rateOption(b.Rate), Protect: b.Protect, Log: opt.Log})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, m.Close)
	defer stop()
	if len(b.Interfaces) > 0 {
		early, err := m.answerEarly(cfg)
		if err != nil {
			m.Close()
			return err
		}
		defer early.Close()
	}
	go func() {
		m.awaitPatrols(readyWait)
		if opt.Ready != nil {
			opt.Ready()
		}
	}()
	opt.Log.Info("managing the border", "instance", cfg.Instance, "listen", m.Addr(), "patrols", len(patrols))
	reloads := &reloader{m: m, cfg: cfg, opt: &opt}
	go reloads.run(ctx)
	defer instance.KeepUpstream(ctx, opt.StateDir, cfg, false, opt.Log, m.state)()
	return m.Run()
}

// rateOption converts a configured rate, of which 0 means any, to the form of Options.
func rateOption(rate int) int {
	if rate == 0 {
		return -1
	}
	return rate
}

// state is what `tidegate status` shows.
func (m *Manager) state(s *instance.Upstream) {
	s.Listen = m.Addr().String()
	s.Patrols = s.Patrols[:0]
	for _, l := range m.reach.Load().links {
		s.Patrols = append(s.Patrols, instance.UpstreamPeer{Name: l.patrol.Name, Address: l.patrol.Addr.String(), Up: l.isUp()})
	}
	s.Figures["bindings"], s.Figures["requests_pending"] = uint64(m.opt.Authority.Len()), uint64(m.Pending())
	c := &m.Count
	s.Counters = map[string]uint64{"malformed": c.Malformed.Load(), "nonce_sent": c.NonceSent.Load(), "nonce_wrong": c.NonceWrong.Load(),
		"verified": c.Verified.Load(), "not_authorised": c.NotAuthorised.Load(), "protected": c.Protected.Load(),
		"busy": c.Busy.Load(), "answered": c.Answered.Load(), "duplicate": c.Duplicate.Load(),
		"no_place": c.NoPlace.Load(), "replayed": c.Replayed.Load(), "signed": c.Signed.Load(), "strangers": c.Strangers.Load(),
		"answers_forgotten": m.answers.Forgot()}
	if h := m.ticked.Load(); h != nil {
		h.counters(s.Counters)
	}
}

// readyWait is how long "ready" waits for patrols. One that is down is no reason not
// to serve the others.
const readyWait = 3 * time.Second

func (m *Manager) awaitPatrols(limit time.Duration) {
	for end := time.Now().Add(limit); m.PatrolsUp() < len(m.reach.Load().links) && time.Now().Before(end); {
		select {
		case <-m.stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func patrolsOf(b *config.Border) ([]Patrol, error) {
	var list []Patrol
	for _, p := range b.Patrols {
		key, err := upstream.ParseKey(p.Key)
		if err != nil {
			return nil, fmt.Errorf("patrol %s: %w", p.Name, err)
		}
		list = append(list, Patrol{Name: p.Name, Addr: p.Address, Key: key, Prefixes: p.Prefixes})
	}
	return list, nil
}
