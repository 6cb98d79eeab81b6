package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/version"
)

// What every role that runs as an instance does alike, for the other role packages.

// Complete fills in what the options leave out.
func (o *Options) Complete() { o.complete() }

// LockInstance takes the lock of an instance; call the result to give it back.
func LockInstance(stateDir, instance string) (unlock func(), err error) {
	f, err := lockInstance(stateDir, instance)
	if err != nil {
		return nil, err
	}
	return func() { unlockInstance(f) }, nil
}

// EnsureBPFFS mounts a BPF file system where there is none.
func EnsureBPFFS(dir string) error { return ensureBPFFS(dir) }

// TellLost says what a start could not take over from the process before it.
func TellLost(log *slog.Logger, lost []string) {
	for _, what := range lost {
		log.Warn("not taken over from the process before, and lost", "what", what)
	}
}

// NetnsCookie is the number by which BPF programs know this network namespace.
func NetnsCookie() (uint64, error) { return netnsCookie() }

// SetReport has the packet path count proven sources, if the configuration wants them
// reported (internal/offender).
func SetReport(c *config.Config, s *plane.Settings) (err error) {
	if c.ReportTo.API == "" {
		return nil
	}
	s.Report, s.ReportDscp = 1, c.ReportTo.Codepoint
	if s.FilterKeys[0] == 0 { // proxy and edge have no socket filter, and no keys for one
		s.FilterKeys, err = randomFilterKeys()
	}
	return err
}

// Numbers gives services their numbers; a service keeps its number, and so its
// counters, over reloads.
type Numbers struct{ set *serviceSet }

// NewNumbers has given none yet.
func NewNumbers() *Numbers { return &Numbers{newServiceSet()} }

// Assign numbers services and returns the numbers of those that are gone.
func (n *Numbers) Assign(services []config.Service) (removed []uint32) { return n.set.assign(services) }

// ID is the number of a service; 0 if it has none.
func (n *Numbers) ID(name string) uint32 { return n.set.ids[name] }

// State is what a proxy or an edge leaves in the instance's state file for `status`.
type State struct {
	Config  *config.Config
	Numbers *Numbers
	Modes   map[string]plane.XDPMode
	Started time.Time
	DPDK    string   // of plane: dpdk: the file prefix of the program, by which it is asked
	LastKey uint64   // of plane: dpdk
	Promisc []string // interfaces that were made promiscuous for this instance
	// OneSided: connections are begun towards servers whose answers do not pass here.
	OneSided bool
	// Of a server with takeover: auto: what was chosen, and the gate that adopts.
	Takeovers []Takeover
	Adopter   *Adopter
}

// Takeover is how connections to some ports of some addresses are taken over, and why.
type Takeover struct {
	Service   string   `json:"service"`
	Ports     string   `json:"ports"`
	Addresses []string `json:"addresses"`
	How       string   `json:"takeover"`
	Why       string   `json:"why"`
}

func statePath(dir, instance string) string { return filepath.Join(dir, instance+".json") }

// WriteState replaces the state file in one step.
func WriteState(dir string, s State) error {
	c := s.Config
	forwarding := c.Proxy.Forwarding
	if c.Role == config.RoleEdge {
		forwarding = c.Edge.Forwarding
	}
	out := state{Role: c.Role, Forwarding: string(forwarding), Version: version.Version,
		PID: os.Getpid(), Started: s.Started, Interfaces: c.Interfaces, XDP: s.Modes,
		EpochNs: int64(c.Epoch), KeyHorizon: int64(c.KeyHorizon), OneSided: s.OneSided, DPDK: s.DPDK, LastKey: s.LastKey}
	out.DrainNs = int64(c.Drain)
	out.Takeovers, out.Promisc = s.Takeovers, s.Promisc
	for _, svc := range c.Services {
		entry := stateService{ID: s.Numbers.ID(svc.Name), Name: svc.Name,
			Mode: string(svc.Mode), Strategy: string(svc.Strategy)}
		for _, part := range []string{"#here", "#adopted"} {
			if id := s.Numbers.ID(svc.Name + part); id != 0 {
				entry.Parts = append(entry.Parts, id)
			}
		}
		if s.Adopter != nil {
			entry.Adopter = s.Adopter.IDs(svc.Name)
		}
		out.Services = append(out.Services, entry)
	}
	return out.write(statePath(dir, c.Instance))
}

// RemoveState removes the state file.
func RemoveState(dir, instance string) error { return os.Remove(statePath(dir, instance)) }
