// SPDX-License-Identifier: Apache-2.0

// Package instance is what all roles share of their machine: options, the lock and the state file of an
// instance, numbers of services, secrets, the settings of a packet path, sysctls and file systems,
// forwarding, the machine's own addresses, reloads, and how an instance ends. It must know no role, and of
// planes only what all of them share.
package instance

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/routers"
)

// Options of a run.
type Options struct {
	ConfigPath string
	Config     *config.Config                      // that file's contents when the process was started; nil: read it
	BPFFS      string                              // where BPF file systems are mounted; default /sys/fs/bpf
	StateDir   string                              // default /run/tidegate
	Reload     <-chan os.Signal                    // a value triggers a reload of the configuration
	Ready      func()                              // called once when the services are protected
	OnReload   func(cfg *config.Config, err error) // called after each reload, refused or not, with the configuration in force
	Detection  *Detection                          // where the detectors of mode auto report; nil: nowhere
	Offered    *Offered                            // where a server says what its kernel offers; nil: nowhere
	OnOffence  func([]routers.Offence)             // called with sources that are proven and exceed bgp.source_rate; nil: nobody asks
	Log        *slog.Logger
	Calm       time.Duration // of the detector, for experiments; 0: detect.Default's
	Skew       time.Duration // the offset of this process's clock, for experiments
	Trial      time.Duration // role host: protect for this long, judge, and detach everything; 0: no trial
	Step       *atomic.Int64 // nanoseconds by which it has been stepped since, likewise; nil: never
}

// Reloaded logs how a reload has ended, and tells of it; cfg is the configuration in force.
func (o *Options) Reloaded(log *slog.Logger, cfg *config.Config, err error) {
	o.TellReload(log, cfg, err)
	if err != nil {
		log.Error("reload refused; the old configuration stays in force", "error", err)
	}
}

// TellReload tells `tidegate status` and OnReload how a reload has ended.
func (o *Options) TellReload(log *slog.Logger, cfg *config.Config, err error) {
	if noteErr := NoteReload(o.StateDir, cfg.Instance, err); noteErr != nil {
		log.Warn("`tidegate status` does not know how the last reload has ended", "error", noteErr)
	}
	if o.OnReload != nil {
		o.OnReload(cfg, err)
	}
}

// Now is the time by this process's clock.
func (o *Options) Now() time.Time {
	now := time.Now().Add(o.Skew)
	if o.Step != nil {
		now = now.Add(time.Duration(o.Step.Load()))
	}
	return now
}

const (
	defaultBPFFS    = "/sys/fs/bpf"
	defaultStateDir = "/run/tidegate"
)

// Complete fills in the defaults.
func (o *Options) Complete() {
	if o.BPFFS == "" {
		o.BPFFS = defaultBPFFS
	}
	if o.StateDir == "" {
		o.StateDir = defaultStateDir
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}
