// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/version"
)

// State is a role's part of the instance's state file, for `status`.
type State struct {
	Config  *config.Config
	Numbers *Numbers
	Modes   map[string]plane.XDPMode
	Started time.Time
	DPDK    string   // for plane: dpdk: the program's file prefix, by which it is queried
	LastKey uint64   // of plane: dpdk
	Promisc []string // interfaces that were made promiscuous for this instance
	// OneSided: connections are opened to servers whose answers do not pass here.
	OneSided bool
	// For a server with takeover: auto: the choices, and the gate that adopts.
	Takeovers []Takeover
	Adopter   func(service string) []uint32 // the numbers of a service in it; nil: there is none
	Refused   map[string]string             // by interface: why its driver does not run native XDP
	Unrouted  map[string]string             // of what answers SYNs: Replies.Unknown
	Lists     *ListsState                   // nil: there are none
}

// Takeover is how connections to some ports of some addresses are taken over, and why.
type Takeover struct {
	Service   string   `json:"service"`
	Ports     string   `json:"ports"`
	Addresses []string `json:"addresses"`
	How       string   `json:"takeover"`
	Why       string   `json:"why"`
}

// StatePath is the path of an instance's state file.
func StatePath(dir, instance string) string { return filepath.Join(dir, instance+".json") }

// WriteState replaces the state file atomically.
func WriteState(dir string, s State) error { return s.file().Write(StatePath(dir, s.Config.Instance)) }

func (s *State) file() *StateFile {
	c := s.Config
	forwarding := c.Proxy.Forwarding
	if c.Role == config.RoleEdge {
		forwarding = c.Edge.Forwarding
	}
	out := StateFile{Role: c.Role, Forwarding: string(forwarding), Version: version.Version,
		PID: os.Getpid(), Started: s.Started, Interfaces: c.Interfaces, XDP: s.Modes,
		EpochNs: int64(c.Epoch), KeyHorizon: int64(c.KeyHorizon), OneSided: s.OneSided, DPDK: s.DPDK, LastKey: s.LastKey}
	out.DrainNs = int64(c.Drain)
	out.Takeovers, out.Promisc, out.Unrouted, out.Refused, out.Lists = s.Takeovers, s.Promisc, s.Unrouted, s.Refused, s.Lists
	if l := c.SourceLimits; l.On() {
		out.SourceLimits = &l
	}
	for _, svc := range c.Services {
		entry := StateService{ID: s.Numbers.ID(svc.Name), Name: svc.Name,
			Mode: string(svc.Mode), Strategy: string(svc.Strategy)}
		for _, part := range []string{"#here", "#adopted"} {
			if id := s.Numbers.ID(svc.Name + part); id != 0 {
				entry.Parts = append(entry.Parts, id)
			}
		}
		if s.Adopter != nil {
			entry.Adopter = s.Adopter(svc.Name)
		}
		out.Services = append(out.Services, entry)
	}
	return &out
}

// RemoveState removes the state file.
func RemoveState(dir, instance string) error {
	return errors.Join(forgetReload(dir, instance), os.Remove(StatePath(dir, instance)))
}

// StateFile is the contents of the state file of a running instance, for `status`.
type StateFile struct {
	Role         string                   `json:"role"`
	Forwarding   string                   `json:"forwarding,omitempty"`
	OneSided     bool                     `json:"one_sided,omitempty"`
	Version      string                   `json:"version"`
	PID          int                      `json:"pid"`
	Run          string                   `json:"run"` // whose this is: RunningFrom
	Started      time.Time                `json:"started"`
	Interfaces   []string                 `json:"interfaces"`
	XDP          map[string]plane.XDPMode `json:"xdp"`
	Refused      map[string]string        `json:"native_xdp_refused,omitempty"` // by interface: the driver's error
	EpochNs      int64                    `json:"epoch_ns"`
	KeyHorizon   int64                    `json:"key_horizon_ns"`
	Services     []StateService           `json:"services"`
	DPDK         string                   `json:"dpdk,omitempty"`     // the program to query
	LastKey      uint64                   `json:"last_key,omitempty"` // of plane: dpdk, when this was written
	Takeovers    []Takeover               `json:"takeovers,omitempty"`
	Lists        *ListsState              `json:"lists,omitempty"`
	SourceLimits *config.SourceLimits     `json:"source_limits,omitempty"`
	P4           json.RawMessage          `json:"p4,omitempty"` // with plane: p4: the switch to query (internal/status)
	Promisc      []string                 `json:"promiscuous,omitempty"`
	DrainNs      int64                    `json:"drain_ns,omitempty"`
	Stopped      time.Time                `json:"stopped,omitzero"`   // when the process ended and left everything in place
	Draining     bool                     `json:"draining,omitempty"` // `tidegate off` has begun
	Unrouted     map[string]string        `json:"unrouted,omitempty"` // families whose routes are not modelled, and why
}

// ListsState is what the source lists in force have.
type ListsState struct {
	Allow int `json:"allow"` // prefixes
	Deny  int `json:"deny"`
	Bytes int `json:"bytes"` // of the kernel's memory
}

// StateService is a service in it.
type StateService struct {
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

// Write replaces the file atomically by one of this process.
func (s *StateFile) Write(path string) error {
	s.Run = thisRun
	return s.replace(path)
}

// replace does so and leaves whose it is.
func (s *StateFile) replace(path string) error {
	fresh, err := s.writeBeside(path)
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// writeBeside writes the file that will replace path.
func (s *StateFile) writeBeside(path string) (fresh string, err error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", err
	}
	fresh = path + ".new"
	return fresh, os.WriteFile(fresh, text, 0o600)
}

// editState changes the state file of an instance, if it has one.
func editState(dir, instance string, change func(s *StateFile)) error {
	path := StatePath(dir, instance)
	s, err := readState(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	change(s)
	return s.replace(path)
}

// ReadState reads the state file of an instance, whether or not its process lives.
func ReadState(dir, instance string) (*StateFile, error) {
	s, err := readState(StatePath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no instance %q is installed here; start one with `tidegate run -c FILE`, or name another with --instance", instance)
	}
	return s, err
}

func readState(path string) (*StateFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &StateFile{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	return s, nil
}
