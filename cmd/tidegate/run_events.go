// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tidegate/internal/api"
	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/instance"
	"tidegate/internal/routers/announcer"
	"tidegate/internal/status"
	"tidegate/internal/version"
)

// events is the stream of a running instance, and its API. Both begin when the instance is ready, and so has its lock: of two
// processes only one writes the stream's state and has the socket.
type events struct {
	cfg    *config.Config
	opt    instance.Options
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup

	reloads   *reloads
	member    *fleet.Member        // nil: of no fleet
	announcer *announcer.Announcer // nil: nothing is announced to routers
	api       *api.Server          // nil: there is none

	mu      sync.Mutex
	stream  *event.Stream  // nil before the instance is ready
	now     *config.Config // what is in force
	changed []string       // by the last reload
}

// Config is what is in force.
func (e *events) Config() *config.Config {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// Events is the stream.
func (e *events) Events() *event.Stream { return e.stream }

// Reload reads the configuration again.
func (e *events) Reload(ctx context.Context) ([]string, error) {
	if err := e.reloads.ask(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed, nil
}

// takers are the event takers in a configuration. One that cannot be set up is refused at the start.
func takers(e *config.Events) (list []event.Taker, err error) {
	if e.File != "" {
		list = append(list, event.NewFile(e.File))
	}
	if e.Webhook != "" {
		list = append(list, event.NewWebhook(e.Webhook))
	}
	if len(e.Command) > 0 {
		if info, err := os.Stat(e.Command[0]); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return nil, fmt.Errorf("events.command: %s is not a program that can be run", e.Command[0])
		}
		list = append(list, event.NewCommand(e.Command))
	}
	if e.Journal {
		j, err := event.NewJournal()
		if err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, nil
}

// newEvents makes opt report to the stream when the instance is ready, and reloads, which signals request; then
// it serves the API, too.
func newEvents(ctx context.Context, opt *instance.Options, cfg *config.Config, signals <-chan os.Signal) (*events, error) {
	list, err := takers(&cfg.Events)
	if err != nil {
		return nil, err
	}
	e := &events{cfg: cfg, now: cfg, log: opt.Log}
	if e.member = e.newMember(); e.member != nil {
		list = append(list, fleetEvents{e.member})
	}
	running := ctx
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	ready := opt.Ready
	opt.Ready = func() {
		e.begin(ctx, list)
		ready()
	}
	opt.OnReload = e.reloaded
	if err := e.newAnnouncer(opt); err != nil {
		return nil, err
	}
	opt.Detection = &instance.Detection{OnAttack: e.attack}
	opt.Offered = &instance.Offered{}
	e.reloads = newReloads(running, signals, opt)
	e.opt = *opt
	e.opt.Complete()
	return e, nil
}

// statePath is where the stream's state stands.
func (e *events) statePath() string {
	return filepath.Join(e.opt.StateDir, e.cfg.Instance+".events")
}

func (e *events) begin(ctx context.Context, list []event.Taker) {
	stream, err := event.Open(e.statePath(), e.cfg.Instance, e.cfg.Role, e.log, list...)
	if err != nil { // protection goes on without it
		e.log.Error("the event stream could not be opened; the instance runs without events", "error", err)
		return
	}
	e.mu.Lock()
	e.stream = stream
	e.mu.Unlock()
	stream.Start("protecting", map[string]string{"version": version.Version, "services": fmt.Sprint(len(e.cfg.Services))})
	e.done.Go(func() { status.WatchConditions(ctx, e.opt, e.cfg, stream, e.log) })
	if e.api, err = api.Serve(e.opt, e, e.log); err != nil { // likewise
		e.log.Error("the API could not be started; the instance runs without it", "error", err)
		e.api = nil
	}
	e.join(ctx)
	e.announce(ctx)
}

// attack makes an event of the detector's report.
func (e *events) attack(a instance.Attack) {
	e.mu.Lock()
	stream := e.stream
	e.mu.Unlock()
	if stream == nil { // it is seen before the instance is ready: of a process before
		return
	}
	kind := map[instance.AttackKind]event.Kind{instance.AttackBegan: event.AttackBegan, instance.AttackChanged: event.AttackChanged, instance.AttackEnded: event.AttackEnded}[a.Kind]
	message := map[instance.AttackKind]string{instance.AttackBegan: "an attack has begun; SYNs are answered", instance.AttackChanged: "the attack has changed",
		instance.AttackEnded: "the attack has ended; SYNs go by"}[a.Kind]
	prefixes := make([]string, len(a.Prefixes))
	for i, p := range a.Prefixes {
		prefixes[i] = p.String()
	}
	detail := map[string]string{
		"syns_per_second": fmt.Sprintf("%.0f", a.Detector.SYNs), "uncompleted_per_second": fmt.Sprintf("%.0f", a.Detector.Missing), "completed_per_second": fmt.Sprintf("%.0f", a.Detector.K),
		"strategy": a.Strategy, "scope": map[bool]string{true: "service", false: "prefixes"}[a.All], "prefixes": strings.Join(prefixes, ", "),
		"began": a.Began.UTC().Format(time.RFC3339), "syns": fmt.Sprint(a.SYNs), "answered": fmt.Sprint(a.Answered)}
	if len(a.Fleet) > 0 {
		detail["fleet"] = strings.Join(a.Fleet, ", ")
	}
	if a.Kind == instance.AttackEnded {
		detail["lasted"] = time.Since(a.Began).Round(time.Second).String()
	}
	stream.EmitService(kind, a.Service, message, detail)
}

// reloaded makes an event of a reload.
func (e *events) reloaded(now *config.Config, err error) {
	e.mu.Lock()
	before, stream := e.now, e.stream
	e.changed = nil
	if err == nil {
		e.now, e.changed = now, config.Difference(before, now)
	}
	changed := e.changed
	e.mu.Unlock()
	switch {
	case stream == nil:
	case err != nil:
		stream.Emit(event.ReloadRefused, "a reload was refused; the old configuration stays in force", map[string]string{"error": err.Error()})
	default:
		if len(changed) > 0 {
			stream.Emit(event.ConfigChanged, "the configuration has changed", map[string]string{"changed": strings.Join(changed, ", ")})
		}
	}
}

// end emits the last event and waits until all is done.
func (e *events) end(ctx context.Context, err error) {
	e.cancel()
	e.done.Wait()
	if e.api != nil {
		e.api.Close()
	}
	e.mu.Lock()
	stream := e.stream
	e.mu.Unlock()
	if stream == nil {
		return
	}
	how := "stopped; what is installed stays and works until its keys expire"
	switch {
	case err != nil:
		how = "ended by an error: " + err.Error()
	case errors.Is(context.Cause(ctx), instance.ErrOff) || e.opt.Trial > 0:
		how = "stopped and taken down"
	case e.cfg.Plane == config.PlaneDPDK || slices.Contains([]string{config.RoleBorderManager, config.RoleFilterManager}, e.cfg.Role):
		how = "stopped"
	}
	stream.Close(how)
}
