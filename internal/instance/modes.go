// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidegate/internal/config"
)

// Modes that were set by hand (`tidegate mode`) are stored beside the state file and override the configuration until
// they are reset, or the machine reboots. Naming a service that is not configured is not an error.

// Modes are modes by name of service.
type Modes map[string]config.Mode

func modesPath(dir, instance string) string { return filepath.Join(dir, instance+".modes") }

// ReadModes reads the modes set by hand.
func ReadModes(dir, instance string) (Modes, error) {
	text, err := os.ReadFile(modesPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return Modes{}, nil
	}
	m := Modes{}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("modes set by hand: %s: %w; remove the file to use those of the configuration", modesPath(dir, instance), err)
	}
	return m, nil
}

// WriteModes replaces the modes set by hand; if there are none, it removes the file.
func WriteModes(dir, instance string, m Modes) error {
	path := modesPath(dir, instance)
	if len(m) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return replaceFile(path, text)
}

// First is the configuration of a start: the one already read (Config), so that a start reads
// the file once; otherwise it reads it.
func (o *Options) First() (*config.Config, error) {
	if o.Config != nil {
		return o.Config, nil
	}
	return o.LoadAtStart()
}

// Load reads the configuration, with what the fleet wants and the modes that were set by hand, and logs deprecated forms.
func (o *Options) Load() (*config.Config, error) { return o.load(false) }

// LoadAtStart is Load, but does not fail because services of the fleet do not fit the configuration: a start without them protects those of the
// file, and none at all nothing. Config.FleetLeftOut then says why they are left out.
func (o *Options) LoadAtStart() (*config.Config, error) { return o.load(true) }

func (o *Options) load(starting bool) (*config.Config, error) {
	c, err := config.Load(o.ConfigPath)
	if err != nil {
		return nil, err
	}
	set := *o
	set.Complete()
	for _, w := range c.Warnings {
		set.Log.Warn("the configuration uses a deprecated form", "file", w.File, "line", w.Line, "field", w.Field, "text", w.Msg)
	}
	m, err := ReadModes(set.StateDir, c.Instance)
	if err != nil {
		return nil, err
	}
	if len(c.Fleet.Servers) > 0 {
		f, err := ReadFleet(set.StateDir, c.Instance)
		if err != nil {
			return nil, err
		}
		err = f.override(c)
		if err != nil && starting {
			set.Log.Error("the fleet's services are left out: they do not fit this configuration", "error", err)
			f.Services, c.FleetLeftOut = nil, err.Error()
			err = f.override(c)
		}
		if err != nil {
			return nil, err
		}
		for service, mode := range f.Modes {
			if _, there := m[service]; !there {
				m[service] = mode
			}
		}
	}
	for i := range c.Services {
		if mode, there := m[c.Services[i].Name]; there {
			c.Services[i].Mode = mode
		}
	}
	return c, nil
}
