// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// ReadUpstream reads an instance of one of the three roles; nil if it is of
// another, or if there is none.
func ReadUpstream(opt instance.Options, name string) (*instance.Upstream, error) {
	opt.Complete()
	text, err := os.ReadFile(filepath.Join(opt.StateDir, name+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s instance.Upstream
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("state of instance %q: %w", name, err)
	}
	switch s.Role {
	case config.RolePatrol, config.RoleBorderManager, config.RoleFilterManager:
	default:
		return nil, nil
	}
	if s.Running, s.Starting, err = instance.RunningFrom(opt.StateDir, name, s.Run); err != nil {
		return nil, err
	}
	s.Run = ""
	if s.Running {
		if s.RefusedReload, err = instance.ReadRefusedReload(opt.StateDir, name); err != nil {
			return nil, err
		}
	}
	if s.Role == config.RolePatrol { // what the programs count, whether or not the process lives
		if s.Counters, err = plane.OpenPatrolCounters(opt.BPFFS, name); err != nil {
			return nil, err
		}
	}
	return &s, nil
}
