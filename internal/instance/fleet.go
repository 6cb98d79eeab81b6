// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/sourcelist"
)

// What the fleet wants of this node (internal/fleet) is stored beside the state file, so that it holds at each start, however long
// the fleet's servers are away. It overrides the configuration; what is set by hand overrides both.
// Its services may stop fitting the configuration, when that is changed: a reload is then refused, and a start leaves them out.

// FleetState is the last state of the fleet that was applied.
type FleetState struct {
	Revision uint64        `json:"revision"` // 0: none
	Modes    Modes         `json:"modes,omitempty"`
	Allow    []string      `json:"allow,omitempty"` // lines of lists
	Deny     []string      `json:"deny,omitempty"`
	Limits   config.Limits `json:"limits,omitempty"` // with the detector's settings
	Offers   config.Offers `json:"offers,omitempty"`
	// Sources is the limit of a source at all nodes together, which is counted for.
	Sources int `json:"sources,omitempty"`
	// Services are those of this node, whatever its role.
	Services config.FleetServices `json:"services,omitempty"`
}

// override brings the state into a configuration, in which it has precedence.
func (f *FleetState) override(c *config.Config) error {
	if err := f.Services.Override(c); err != nil {
		return fmt.Errorf("services of the fleet (revision %d): %w", f.Revision, err)
	}
	c.FleetSources = f.Sources
	f.Limits.Override(c)
	f.Offers.Override(c)
	return nil
}

func fleetPath(dir, instance string) string { return filepath.Join(dir, instance+".fleet") }

// ReadFleet reads the state of the fleet.
func ReadFleet(dir, instance string) (s FleetState, err error) {
	text, err := os.ReadFile(fleetPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return FleetState{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return FleetState{}, fmt.Errorf("state of the fleet: %s: %w; remove the file to use the configuration until the fleet is reached", fleetPath(dir, instance), err)
	}
	return s, nil
}

// WriteFleet replaces it. The lists come first: a state that is read has its own lists, or those of its successor, which follows.
func WriteFleet(dir, instance string, s FleetState) error {
	for _, list := range []struct {
		verdict sourcelist.Verdict
		lines   []string
	}{{sourcelist.Allow, s.Allow}, {sourcelist.Deny, s.Deny}} {
		path := fleetPath(dir, instance) + "-" + list.verdict.String()
		if len(list.lines) == 0 {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := replaceFile(path, []byte(strings.Join(list.lines, "\n")+"\n")); err != nil {
			return err
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replaceFile(fleetPath(dir, instance), text)
}

// replaceFile replaces a file that only its owner may read: whoever reads it has the old or the new one.
func replaceFile(path string, text []byte) error {
	return errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
}

// fleetLists are the fleet's lists.
func fleetLists(dir string, c *config.Config) sourcelist.Files {
	if len(c.Fleet.Servers) == 0 {
		return nil
	}
	path := fleetPath(dir, c.Instance)
	return sourcelist.Files{{Path: path + "-allow", Verdict: sourcelist.Allow, Optional: true}, {Path: path + "-deny", Verdict: sourcelist.Deny, Optional: true}}
}
