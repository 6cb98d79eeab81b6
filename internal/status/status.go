// SPDX-License-Identifier: Apache-2.0

// Package status reads the condition of an instance, whatever its role and its plane, from its state
// file and from the packet path, for `tidegate status` and for Prometheus. It must
// never change a packet path.
package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/routers"
)

// Service is one service as `status` shows it.
type Service struct {
	Name     string            `json:"name"`
	Mode     string            `json:"mode"`
	Strategy string            `json:"strategy,omitempty"` // of a proxy
	Listener string            `json:"listener,omitempty"` // of a host
	Counters map[string]uint64 `json:"counters"`
	Degraded []Degraded        `json:"degraded,omitempty"` // listeners that nothing is adopted for
}

// Status is an instance as `status` shows it.
type Status struct {
	Role         string                       `json:"role"`
	Forwarding   string                       `json:"forwarding,omitempty"` // of a proxy
	OneSided     bool                         `json:"one_sided,omitempty"`  // of a proxy: servers' answers do not pass here
	Version      string                       `json:"version"`
	Instance     string                       `json:"instance"`
	Running      bool                         `json:"running"`                       // the process; the packet path lives on without it
	Starting     bool                         `json:"starting,omitempty"`            // it has yet to replace the packet path: the rest is of the process before
	Since        time.Time                    `json:"without_daemon_since,omitzero"` // about, if it was killed
	StaleKeys    string                       `json:"on_stale_keys"`                 // what happens to SYNs when the keys have ended: pass or drop
	Unverifiable bool                         `json:"unverifiable,omitempty"`        // of a host: a program that verifies ACKs is missing, so SYNs pass
	Draining     bool                         `json:"draining,omitempty"`            // `tidegate off` has begun, and was interrupted if nothing runs
	PID          int                          `json:"pid"`
	Started      time.Time                    `json:"started"`
	Interfaces   []string                     `json:"interfaces"`
	XDP          map[string]plane.XDPMode     `json:"xdp"`
	Refused      map[string]string            `json:"native_xdp_refused,omitempty"` // by interface: why the driver does without
	Neighbours   map[string][]plane.Neighbour `json:"neighbours,omitempty"`         // by interface: what its XDP dispatcher runs, in this order
	Epoch        uint64                       `json:"epoch"`
	KeysUntil    time.Time                    `json:"keys_until"`
	Services     []Service                    `json:"services"`
	Global       map[string]uint64            `json:"global"`
	Edge         *Edge                        `json:"edge,omitempty"`
	DPDK         *dpdk.State                  `json:"dpdk,omitempty"`          // of plane: dpdk
	DPDKPrefix   string                       `json:"-"`                       // likewise: by which the program is asked
	Takeovers    []instance.Takeover          `json:"takeovers,omitempty"`     // of a server with takeover: auto
	P4           *P4                          `json:"p4,omitempty"`            // with plane: p4
	Detached     map[string]string            `json:"detached,omitempty"`      // by interface: why our programs see no packets there
	Lists        *instance.ListsState         `json:"lists,omitempty"`         // the source lists in force
	SourceLimits *SourceLimits                `json:"source_limits,omitempty"` // the limits of one source, and who exceeds them
	Unrouted     map[string]string            `json:"unrouted,omitempty"`      // by family: why it is not known where answers to SYNs go
	Routers      *routers.State               `json:"routers,omitempty"`       // what is announced to routers, if the process runs
	Capturing    []string                     `json:"capturing,omitempty"`     // hooks that run programs with a capture

	RefusedReload *instance.RefusedReload `json:"refused_reload,omitempty"` // the last reload, if it was refused
}

// Read reads an instance through its state file and its pinned maps. It
// works whether or not the process lives.
func Read(opt instance.Options, name string) (*Status, error) {
	opt.Complete()
	out, err := readPath(opt, name)
	if err == nil && out.Running { // what a killed process has left is no longer so
		out.Routers, err = instance.ReadRouters(opt.StateDir, name)
	}
	if err == nil && out.Running {
		out.RefusedReload, err = instance.ReadRefusedReload(opt.StateDir, name)
	}
	return out, err
}

// readPath reads the state file and the packet path.
func readPath(opt instance.Options, name string) (*Status, error) {
	st, err := readStateFile(opt.StateDir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no instance %q is installed here; start one with `tidegate run -c FILE`", name)
	}
	if err != nil {
		return nil, err
	}
	if st.DPDK != "" {
		return dpdkStatus(st, name, opt.StateDir)
	}
	if len(st.P4) != 0 {
		return p4Status(st, name, opt.StateDir)
	}
	pinned, err := plane.OpenPinned(plane.PinDir(opt.BPFFS, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("instance %q has a state file but no pinned maps: %w; start it again", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("instance %q cannot be read: %w; start it again", name, err)
	}
	defer pinned.Close()
	out, err := pathStatus(st, name, opt.StateDir, pinned)
	if err == nil {
		out.Takeovers, out.Capturing = st.Takeovers, plane.Capturing(opt.BPFFS, name)
		out.Neighbours = plane.Neighbours(opt.BPFFS, name)
	}
	if err == nil && len(st.Takeovers) > 0 && st.Role == config.RoleServer {
		err = addParts(st, out, pinned, plane.PinDir(opt.BPFFS, adopt.AdopterInstance(name)))
	}
	if err == nil && st.SourceLimits != nil {
		out.SourceLimits, err = readSourceLimits(st.SourceLimits, plane.PinDir(opt.BPFFS, name), "")
	}
	if err == nil && st.Role == config.RoleEdge {
		out.Edge, err = readEdge(plane.PinDir(opt.BPFFS, name))
	}
	return out, err
}

func readStateFile(dir, name string) (*instance.StateFile, error) {
	text, err := os.ReadFile(instance.StatePath(dir, name))
	if err != nil {
		return nil, err
	}
	st := &instance.StateFile{}
	if err := json.Unmarshal(text, st); err != nil {
		return nil, fmt.Errorf("state of instance %q: %w", name, err)
	}
	return st, nil
}

func pathStatus(st *instance.StateFile, name, stateDir string, pinned *plane.Pinned) (*Status, error) {
	out := &Status{Role: st.Role, Forwarding: st.Forwarding, OneSided: st.OneSided, Version: st.Version, Instance: name, PID: st.PID, Started: st.Started,
		Interfaces: st.Interfaces, XDP: st.XDP, Refused: st.Refused, Unrouted: st.Unrouted, Lists: st.Lists,
		Epoch: keys.Epoch(time.Now(), time.Duration(st.EpochNs))}
	var err error
	if out.Running, out.Starting, err = instance.RunningFrom(stateDir, name, st.Run); err != nil {
		return nil, err
	}
	last, err := pinned.LastKey(out.Epoch)
	if err != nil {
		return nil, err
	}
	out.Detached = pinned.Detached()
	out.KeysUntil = keys.EpochStart(last+1, time.Duration(st.EpochNs))
	settings, err := pinned.Settings()
	if err != nil {
		return nil, err
	}
	out.StaleKeys, out.Draining = string(config.StaleKeysPass), st.Draining
	out.Starting = out.Starting && !out.Draining // `tidegate off` is no start
	out.Unverifiable = settings.PartsLost != 0
	if settings.StaleKeys != 0 {
		out.StaleKeys = string(config.StaleKeysDrop)
	}
	if out.Since = st.Stopped; !out.Running && out.Since.IsZero() { // killed: when it loaded its last key
		out.Since = out.KeysUntil.Add(-time.Duration(st.EpochNs + st.KeyHorizon))
	}
	if out.Global, err = pinned.Counters(0); err != nil {
		return nil, err
	}
	notes, err := pinned.Listeners()
	if err != nil {
		return nil, err
	}
	if st.Role == config.RoleServer && settings.Translates != 0 {
		notes = nil // the gate that translates has listeners only for the one that adopts: Takeovers
	}
	for _, svc := range st.Services {
		s := Service{Name: svc.Name, Mode: svc.Mode}
		entry, err := pinned.Service(svc.ID)
		if err != nil {
			return nil, err
		}
		if s.Strategy = svc.Strategy; s.Strategy == "" && st.Role != config.RoleEdge {
			s.Listener, s.Degraded = listenersOf(&svc, entry, notes)
			if settings.Translates != 0 && s.Listener != "none" {
				s.Listener, s.Degraded = "ok", nil // what cannot be adopted for is translated: Takeovers
			}
		}
		if s.Counters, err = pinned.Counters(svc.ID); err != nil {
			return nil, err
		}
		out.Services = append(out.Services, s)
	}
	return out, nil
}

// addParts adds to the counters of services that are taken over in several ways the
// counts under their other numbers, and those in the adopter's maps.
func addParts(st *instance.StateFile, out *Status, pinned *plane.Pinned, adopterDir string) error {
	adopter, err := plane.OpenPinned(adopterDir)
	if errors.Is(err, os.ErrNotExist) {
		adopter, err = nil, nil // nothing can be adopted here
	}
	if err != nil {
		return err
	}
	if adopter != nil {
		defer adopter.Close()
	}
	add := func(to map[string]uint64, from *plane.Pinned, ids []uint32) error {
		for _, id := range ids {
			counts, err := from.Counters(id)
			if err != nil {
				return err
			}
			for name, n := range counts {
				to[name] += n
			}
		}
		return nil
	}
	for i, svc := range st.Services {
		to := &out.Services[i]
		to.Listener = "" // there are several; Takeovers has them
		if err := add(to.Counters, pinned, svc.Parts); err != nil {
			return err
		}
		if adopter == nil {
			continue
		}
		if err := add(to.Counters, adopter, svc.Adopter); err != nil {
			return err
		}
	}
	return nil
}
