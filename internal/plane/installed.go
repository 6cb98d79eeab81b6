// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/patrolbpf"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/plane/serverbpf"
)

// Installed is what an instance has pinned, read by a process that need not be the one
// that installed it and does not need its configuration.
type Installed struct{ dir string }

// FindInstalled finds what is pinned for an instance; nil if nothing is.
func FindInstalled(bpffs, instance string) *Installed {
	dir := PinDir(bpffs, instance)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		return nil
	}
	return &Installed{dir}
}

func (i *Installed) has(name string) bool {
	_, err := os.Stat(filepath.Join(i.dir, name))
	return err == nil
}

// Translates reports whether translated connections depend on the installed XDP program: a
// proxy's, or a translating server's, which alone removes tags. (A host translates at TC; its XDP
// program only answers SYNs.)
func (i *Installed) Translates() bool {
	return i.has(proxybpf.ProxyXdpMapTgFlows4) || i.has(serverbpf.ServerXdpMapTgTagRoom)
}

// Patrols reports whether the instance is a patrol.
func (i *Installed) Patrols() bool { return i.has(patrolbpf.PatrolXdpMapTgPfTags) }

// Verifies reports whether, once SYNs are no longer answered, a program remains that a
// handshake under way needs.
func (i *Installed) Verifies() (tc bool) {
	(&attachments{dir: i.dir}).eachPin(func(_, kind, _ string) { tc = tc || kind != "xdp" })
	return tc
}

// LetSYNsPass makes every SYN from now on go to the kernel or the server. Translated
// connections stay translated, and cookies that a host has sent still verify.
func (i *Installed) LetSYNsPass() error {
	if i.Translates() {
		return i.modesOff()
	}
	var errs []error
	(&attachments{dir: i.dir}).eachPin(func(path, kind, _ string) {
		if kind == "xdp" {
			errs = append(errs, detachPin(path))
		}
	})
	return errors.Join(errs...)
}

// modesOff switches every service off. Cookies that were sent still verify.
func (i *Installed) modesOff() error {
	services, err := i.open(VarServices)
	if err != nil {
		return err
	}
	defer services.Close()
	settings, err := i.open(VarSettings)
	if err != nil {
		return err
	}
	defer settings.Close()
	var s Settings
	if err := settings.Lookup(uint32(0), &s); err != nil {
		return i.otherVersion(err)
	}
	if err := Entries(services, true, func(list []Service) {
		for id := range list {
			list[id].Mode, list[id].Verify = ModeOff, 1
		}
	}); err != nil {
		return i.otherVersion(err)
	}
	s.Enforce = 0
	return settings.Put(uint32(0), s)
}

func (i *Installed) open(name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(i.dir, name), nil)
	if err != nil {
		return nil, i.otherVersion(err)
	}
	return m, nil
}

func (i *Installed) otherVersion(err error) error {
	return fmt.Errorf("%s was installed by another version of this program, which alone can drain it (%w); `tidegate off --now` takes it down at once", i.dir, err)
}

// Translated counts the connections translated now. It walks the tables.
func (i *Installed) Translated() (n int, err error) {
	if i.has(serverbpf.ServerXdpMapTgSplits) {
		return i.splits()
	}
	for _, name := range []string{proxybpf.ProxyXdpMapTgFlows4, proxybpf.ProxyXdpMapTgFlows6,
		proxybpf.ProxyXdpMapTgWaiting4, proxybpf.ProxyXdpMapTgWaiting6} {
		if !i.has(name) {
			continue
		}
		flows, err := i.flows(name)
		if err != nil {
			return 0, err
		}
		n += flows
	}
	return n, nil
}

func (i *Installed) splits() (int, error) {
	m, err := i.open(serverbpf.ServerXdpMapTgSplits)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	live, _, err := countSplits(m)
	return live, err
}

// flows counts the flows of one family, in both slots.
func (i *Installed) flows(name string) (n int, err error) {
	outer, err := i.open(name)
	if err != nil {
		return 0, err
	}
	defer outer.Close()
	usage, err := tableUsage(i.dir, name, outer)
	if err != nil {
		return 0, fmt.Errorf("table %s: %w", name, err)
	}
	return usage.Entries, nil
}

// Remove detaches everything and removes the pins, including the adopter's directory.
func (i *Installed) Remove() error {
	var errs []error
	for _, dir := range []string{i.dir, filepath.Join(i.dir, "adopt")} {
		a := &attachments{dir: dir}
		for _, kinds := range []string{"xdp", "tc egress"} { // XDP first: no cookie that could not be verified
			a.eachPin(func(path, kind, _ string) {
				if strings.Contains(kinds, kind) {
					errs = append(errs, detachPin(path))
				}
			})
		}
		a.commitSockops()
	}
	return errors.Join(append(errs, os.RemoveAll(i.dir))...)
}
