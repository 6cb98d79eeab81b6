// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/version"
)

// Patrols and managers (Terminus) have no services and, except for patrols, no maps: they
// write what `status` shows themselves, once a second.

const upstreamStateEvery = time.Second

// UpstreamPeer is a patrol as its border manager sees it.
type UpstreamPeer struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Up      bool   `json:"up"`
}

// Upstream is a patrol, border manager or filter manager as `status` shows it.
type Upstream struct {
	Role     string            `json:"role"`
	Version  string            `json:"version"`
	Instance string            `json:"instance"`
	Running  bool              `json:"running"`            // the process; a patrol's filters live on without it
	Starting bool              `json:"starting,omitempty"` // it has yet to write this: the rest is of the process before
	PID      int               `json:"pid"`
	Run      string            `json:"run,omitempty"` // whose this is: RunningFrom
	Started  time.Time         `json:"started"`
	At       time.Time         `json:"at"` // when the figures were read
	Listen   string            `json:"listen,omitempty"`
	API      string            `json:"api,omitempty"`
	Ports    []string          `json:"interfaces,omitempty"`
	Patrols  []UpstreamPeer    `json:"patrols,omitempty"`
	Figures  map[string]uint64 `json:"figures"`            // current values
	Counters map[string]uint64 `json:"counters,omitempty"` // since the start; for a patrol: since it was installed

	RefusedReload *RefusedReload `json:"refused_reload,omitempty"` // the last reload, if it was refused; not in the file
}

// KeepUpstream writes what fill says to the instance's state file now and every
// second until ctx ends; wait for the result before the instance is unlocked. keep
// leaves the file: of a patrol, whose programs go on.
func KeepUpstream(ctx context.Context, dir string, c *config.Config, keep bool, log *slog.Logger, fill func(*Upstream)) (wait func()) {
	s := Upstream{Role: c.Role, Version: version.Version, Instance: c.Instance, PID: os.Getpid(), Run: thisRun, Started: time.Now()}
	write := func() error {
		s.At, s.Figures = time.Now(), map[string]uint64{}
		fill(&s)
		text, err := json.MarshalIndent(&s, "", "  ")
		if err != nil {
			return err
		}
		tmp := StatePath(dir, c.Instance) + ".new"
		return errors.Join(os.WriteFile(tmp, text, 0o600), os.Rename(tmp, StatePath(dir, c.Instance)))
	}
	if err := write(); err != nil {
		log.Warn("the state file cannot be written; `tidegate status` will not show this instance", "error", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(upstreamStateEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				if keep {
					_ = write()
				} else {
					_ = RemoveState(dir, c.Instance)
				}
				return
			case <-tick.C:
				_ = write() // a failure after the first success is temporary
			}
		}
	}()
	return func() { <-done }
}
