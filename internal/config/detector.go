// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Detector is how the detector of mode auto decides (docs/detector.md). It is the same for all services of an instance.
type Detector struct {
	Sensitivity Sensitivity
	Hard        int           // uncompleted SYNs a second that are an attack whatever is completed
	IdleRate    int           // completed handshakes a second that a service counts as having at least
	Calm        time.Duration // how long there must be no sign of an attack until it has ended
}

// Sensitivity says how much evidence begins an attack.
type Sensitivity string

// Sensitivities.
const (
	SensitivityLow    Sensitivity = "low"
	SensitivityNormal Sensitivity = "normal"
	SensitivityHigh   Sensitivity = "high"
)

// Evidence is the factor by which a and N of the detector are multiplied.
func (s Sensitivity) Evidence() float64 {
	switch s {
	case SensitivityLow:
		return 2
	case SensitivityHigh:
		return 0.5
	}
	return 1
}

const (
	minDetectorHard = 10
	maxDetectorHard = 10_000_000
	maxIdleRate     = 1_000_000
	minCalm         = time.Second
	maxCalm         = 10 * time.Minute
)

// detector reads its settings; without the mapping they are the defaults.
func (r *reader) detector(c *Config, fs map[string]field) {
	in := map[string]field{}
	if f, there := fs["detector"]; there {
		var ok bool
		if in, ok = r.mapping(f, namesOf("detector", c.Role)); !ok {
			return
		}
	}
	if r.plane == PlaneP4 { // nothing counts for one there
		return
	}
	r.take(in, "detector.sensitivity", &c.Detector.Sensitivity)
	r.take(in, "detector.hard", &c.Detector.Hard)
	r.take(in, "detector.idle_rate", &c.Detector.IdleRate)
	r.take(in, "detector.calm", &c.Detector.Calm)
}
