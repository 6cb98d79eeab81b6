package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/version"
)

// state is what a running instance leaves in its file for `status`.
type state struct {
	Role       string                   `json:"role"`
	Forwarding string                   `json:"forwarding,omitempty"`
	OneSided   bool                     `json:"one_sided,omitempty"`
	Version    string                   `json:"version"`
	PID        int                      `json:"pid"`
	Started    time.Time                `json:"started"`
	Interfaces []string                 `json:"interfaces"`
	XDP        map[string]plane.XDPMode `json:"xdp"`
	EpochNs    int64                    `json:"epoch_ns"`
	KeyHorizon int64                    `json:"key_horizon_ns"`
	Services   []stateService           `json:"services"`
	DPDK       string                   `json:"dpdk,omitempty"`     // the program to be asked
	LastKey    uint64                   `json:"last_key,omitempty"` // of plane: dpdk, when this was written
	Takeovers  []Takeover               `json:"takeovers,omitempty"`
	P4         *p4State                 `json:"p4,omitempty"` // of `tidegate p4 run`: the switch to be asked
	Promisc    []string                 `json:"promiscuous,omitempty"`
	DrainNs    int64                    `json:"drain_ns,omitempty"`
	Stopped    time.Time                `json:"stopped,omitzero"`   // when the process ended and left everything in place
	Draining   bool                     `json:"draining,omitempty"` // `tidegate off` has begun
}

type stateService struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
	Mode string `json:"mode"`

	// Of an adopting gate: what it serves, to find its listeners.
	Prefixes []netip.Prefix     `json:"prefixes,omitempty"`
	Ports    []config.PortRange `json:"ports,omitempty"`

	Strategy string `json:"strategy,omitempty"`

	// Of takeover: auto: further numbers in the same maps, and numbers in the adopter's.
	Parts   []uint32 `json:"parts,omitempty"`
	Adopter []uint32 `json:"adopter,omitempty"`
}

func (g *gate) statePath() string {
	return filepath.Join(g.opt.StateDir, g.cfg.Instance+".json")
}

// writeState replaces the state file in one step.
func (g *gate) writeState() error {
	s := state{Role: g.cfg.Role, Version: version.Version, PID: os.Getpid(), Started: g.started,
		Interfaces: g.cfg.Interfaces, XDP: g.modes, EpochNs: int64(g.cfg.Epoch),
		KeyHorizon: int64(g.cfg.KeyHorizon), DrainNs: int64(g.cfg.Drain)}
	for _, svc := range g.cfg.Services {
		s.Services = append(s.Services, stateService{ID: g.services.ids[svc.Name], Name: svc.Name, Mode: string(svc.Mode),
			Prefixes: svc.Prefixes, Ports: svc.Ports})
	}
	return s.write(g.statePath())
}

func (s *state) write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// ServiceStatus is one service as `status` shows it.
type ServiceStatus struct {
	Name     string            `json:"name"`
	Mode     string            `json:"mode"`
	Strategy string            `json:"strategy,omitempty"` // of a proxy
	Listener string            `json:"listener,omitempty"` // of a host
	Counters map[string]uint64 `json:"counters"`
	Degraded []Degraded        `json:"degraded,omitempty"` // listeners that nothing is adopted for
}

// Status is an instance as `status` shows it.
type Status struct {
	Role       string                   `json:"role"`
	Forwarding string                   `json:"forwarding,omitempty"` // of a proxy
	OneSided   bool                     `json:"one_sided,omitempty"`  // of a proxy: servers' answers do not pass here
	Version    string                   `json:"version"`
	Instance   string                   `json:"instance"`
	Running    bool                     `json:"running"`                       // the process; the packet path lives on without it
	Since      time.Time                `json:"without_daemon_since,omitzero"` // about, if it was killed
	StaleKeys  string                   `json:"on_stale_keys"`                 // what happens to SYNs when the keys have ended: pass or drop
	Draining   bool                     `json:"draining,omitempty"`            // `tidegate off` has begun, and was interrupted if nothing runs
	PID        int                      `json:"pid"`
	Started    time.Time                `json:"started"`
	Interfaces []string                 `json:"interfaces"`
	XDP        map[string]plane.XDPMode `json:"xdp"`
	Epoch      uint64                   `json:"epoch"`
	KeysUntil  time.Time                `json:"keys_until"`
	Services   []ServiceStatus          `json:"services"`
	Global     map[string]uint64        `json:"global"`
	Edge       *EdgeStatus              `json:"edge,omitempty"`
	DPDK       *dpdk.State              `json:"dpdk,omitempty"`      // of plane: dpdk
	Takeovers  []Takeover               `json:"takeovers,omitempty"` // of a server with takeover: auto
	P4         *P4Status                `json:"p4,omitempty"`        // of `tidegate p4 run`
}

// ReadStatus reads an instance through its state file and its pinned maps. It
// works whether or not the process lives.
func ReadStatus(opt Options, instance string) (*Status, error) {
	if opt.BPFFS == "" {
		opt.BPFFS = defaultBPFFS
	}
	if opt.StateDir == "" {
		opt.StateDir = defaultStateDir
	}
	text, err := os.ReadFile(filepath.Join(opt.StateDir, instance+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no instance %q is installed here; start one with `tidegate run -c FILE`", instance)
	}
	if err != nil {
		return nil, err
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return nil, fmt.Errorf("state of instance %q: %w", instance, err)
	}
	if st.DPDK != "" {
		return st.dpdkStatus(instance, opt.StateDir)
	}
	if st.P4 != nil {
		return st.p4Status(instance, opt.StateDir)
	}
	pinned, err := plane.OpenPinned(plane.PinDir(opt.BPFFS, instance))
	if err != nil {
		return nil, fmt.Errorf("instance %q has a state file but no pinned maps: %w; start it again", instance, err)
	}
	defer pinned.Close()
	out, err := st.status(instance, opt.StateDir, pinned)
	if err == nil && len(st.Takeovers) > 0 {
		out.Takeovers = st.Takeovers
		err = st.addParts(out, pinned, plane.PinDir(opt.BPFFS, AdopterInstance(instance)))
	}
	if err == nil && st.Role == config.RoleEdge {
		out.Edge, err = readEdge(plane.PinDir(opt.BPFFS, instance))
	}
	return out, err
}

func (st *state) status(instance, stateDir string, pinned *plane.Pinned) (*Status, error) {
	out := &Status{Role: st.Role, Forwarding: st.Forwarding, OneSided: st.OneSided, Version: st.Version, Instance: instance, PID: st.PID, Started: st.Started,
		Interfaces: st.Interfaces, XDP: st.XDP,
		Epoch: keys.Epoch(time.Now(), time.Duration(st.EpochNs))}
	var err error
	if out.Running, err = instanceLocked(stateDir, instance); err != nil {
		return nil, err
	}
	last, err := pinned.LastKey()
	if err != nil {
		return nil, err
	}
	out.KeysUntil = keys.EpochStart(last+1, time.Duration(st.EpochNs))
	settings, err := pinned.Settings()
	if err != nil {
		return nil, err
	}
	out.StaleKeys, out.Draining = string(config.StaleKeysPass), st.Draining
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
	for _, svc := range st.Services {
		s := ServiceStatus{Name: svc.Name, Mode: svc.Mode}
		entry, err := pinned.Service(svc.ID)
		if err != nil {
			return nil, err
		}
		if s.Strategy = svc.Strategy; s.Strategy == "" && st.Role != config.RoleEdge {
			s.Listener, s.Degraded = svc.listeners(entry, notes)
		}
		if s.Counters, err = pinned.Counters(svc.ID); err != nil {
			return nil, err
		}
		out.Services = append(out.Services, s)
	}
	return out, nil
}

// addParts adds to the counters of services that are taken over in several ways what
// their other numbers, and those in the adopter's maps, have counted.
func (st *state) addParts(out *Status, pinned *plane.Pinned, adopterDir string) error {
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
