// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// Adopter is the adopting gate beside a server that translates: it handles those of the server's listeners that
// the kernel can make sockets for. Its pins are in a subfolder of the server's; it has no state file and no
// loop of its own.
type Adopter struct{ g *gate }

// Common is what both gates of a server share, so that the limits of a source hold for its connections to both, and what the adopting one
// fails to adopt is learned from the other: the maps of that, and the keys by which sources are found there.
type Common struct {
	Maps map[string]*ebpf.Map
	Keys [10]uint64 // of plane.Settings: FilterKeys
}

// adopterPart is the folder of an adopter below the pins of its server.
const adopterPart = "adopt"

// AdopterInstance is the name under which the adopter of an instance is pinned.
func AdopterInstance(instance string) string { return instance + "/" + adopterPart }

// StartAdopter attaches an adopter. services are pieces of the configured services: only what
// can be adopted, and only addresses of this machine.
func StartAdopter(opt instance.Options, cfg *config.Config, services []config.Service, common Common) (*Adopter, error) {
	opt.Complete()
	g := &gate{opt: opt, log: opt.Log, cfg: adopterConfig(cfg, services), part: true, common: common, started: time.Now()}
	if err := g.start(); err != nil {
		return nil, fmt.Errorf("adopting: %w", err)
	}
	return &Adopter{g}, nil
}

func adopterConfig(cfg *config.Config, services []config.Service) *config.Config {
	own := *cfg
	own.Instance, own.Services = AdopterInstance(cfg.Instance), services
	return &own
}

// PrepareSecrets prepares the secrets of a reload; see keys.Roll.Prepare.
func (a *Adopter) PrepareSecrets(cfg *config.Config) (commit, drop func(), err error) {
	return instance.PrepareSecrets(a.g.secret, &a.g.keys, cfg, a.g.opt.Now())
}

// SetServices changes what is adopted.
func (a *Adopter) SetServices(cfg *config.Config, services []config.Service) error {
	g := a.g
	g.services.assign(services)
	g.cfg = adopterConfig(cfg, services)
	g.setPolicy(g.cfg)
	g.watchListeners()
	return g.applyServices(g.cfg)
}

// SetHeldHalf says which half of the counts of connections is right, after a recount by the other gate.
func (a *Adopter) SetHeldHalf(half uint8) error {
	a.g.settings.HeldHalf = half
	return a.g.plane.SetSettings(&a.g.settings)
}

// Housekeep updates the clock, the keys and the system's values; call it once a second.
func (a *Adopter) Housekeep() error { return a.g.housekeep() }

// Bell receives a value whenever the packet path requests a scan of the listeners (Housekeep).
func (a *Adopter) Bell() <-chan struct{} { return a.g.bell }

// Doubted are the places, an address or the unspecified one of a family and a port, where adoptions have failed, and why. What
// reaches this gate for them goes to the translating one, but for a connection after each pause, which tries again.
func (a *Adopter) Doubted() map[netip.AddrPort]string {
	all := map[netip.AddrPort]string{}
	for place, note := range a.g.services.doubted {
		all[place] = whyDoubted(note)
	}
	return all
}

// IDs are the numbers of the pieces of a service: those with its name, or with a name that PieceName makes of it.
func (a *Adopter) IDs(service string) []uint32 {
	var ids []uint32
	for piece := 0; ; piece++ {
		id := a.g.services.ID(PieceName(service, piece))
		if id == 0 {
			return ids
		}
		ids = append(ids, id)
	}
}

// PieceName names a piece of a service; no service has a # in its name.
func PieceName(service string, piece int) string {
	if piece == 0 {
		return service
	}
	return fmt.Sprintf("%s#%d", service, piece)
}

// Close releases what this process holds; attached programs keep running.
func (a *Adopter) Close() {
	a.g.secret.Zero()
	a.g.plane.Close()
}

// Commit makes the start final; an adopter closed before Commit leaves everything as it was.
func (a *Adopter) Commit() error { return a.g.plane.Commit() }

// LetAdopterGo removes what an earlier process left of an adopter that this process does not need. It is the
// last step of a start.
func LetAdopterGo(opt instance.Options, name string, log *slog.Logger) {
	if err := plane.RemoveInstance(opt.BPFFS, AdopterInstance(name)); err != nil {
		log.Error("the adopting gate of the previous process is still attached; run `tidegate off` and start again to detach it", "error", err)
	}
}

// CannotAdopt returns why this machine's kernel cannot adopt for any listener; nil
// if it can.
func CannotAdopt() error {
	v, err := instance.SysctlInts("net/ipv4/tcp_syncookies", 1)
	if err == nil && v[0] == 0 {
		err = errors.New("net.ipv4.tcp_syncookies is 0")
	}
	if err == nil {
		_, err = instance.CgroupRoot()
	}
	return err
}
