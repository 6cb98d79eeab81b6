// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/role/filterman"
)

// Signed bindings say which manager is responsible for which prefixes. The managers flood them
// among themselves: each publishes its own, and learns the others' from neighbours.

const (
	portFlood = 4142
	// floodPatience is how long records may take to reach every manager.
	floodPatience = 15 * time.Second
)

// labManager is a border or filter manager as its binding describes it.
type labManager struct {
	name, addr, prefix string
	role               binding.Role
	ifp                uint16
	neighbours         []string // names
}

// labManagers: fm reaches bmc only through bma. Both ends must name each other as neighbours:
// a manager that is not named needs a binding before it may connect.
var labManagers = []labManager{
	{"bma", addrBMA, "10.1.0.0/16", binding.BorderManager, 4747, []string{"bmc", "fm"}},
	{"bmc", addrBMC, "10.4.0.0/16", binding.BorderManager, 4747, []string{"bma"}},
	{"fm", addrFM, "10.9.0.0/16", binding.FilterManager, 4746, []string{"bma"}},
}

// signBindings makes a registry, the managers' keys and their records. It returns,
// by manager, the configuration lines on bindings.
func (t *Network) signBindings(now time.Time) (map[string]string, error) {
	registryFile := filepath.Join(t.dir, "registry.key")
	registryKey, err := binding.CreateKeyFile(registryFile)
	if err != nil {
		return nil, err
	}
	registry, err := binding.LoadKeyFile(registryFile)
	if err != nil {
		return nil, err
	}
	anchors := filepath.Join(t.dir, "anchors.yaml")
	text := fmt.Sprintf("anchors:\n  - name: lab-registry\n    key: %s\n    prefixes: [%q]\n", registryKey, t.prefix("10.0.0.0/8"))
	if err := os.WriteFile(anchors, []byte(text), 0o600); err != nil {
		return nil, err
	}
	keys, lines := map[string]binding.Key{}, map[string]string{}
	for _, m := range labManagers {
		if keys[m.name], err = binding.CreateKeyFile(filepath.Join(t.dir, m.name+".key")); err != nil {
			return nil, err
		}
	}
	for _, m := range labManagers {
		if err := t.signOne(m, keys[m.name], registry, now); err != nil {
			return nil, err
		}
		var neighbours []string
		for _, n := range m.neighbours {
			neighbours = append(neighbours, fmt.Sprintf("%q", keys[n].String()+"@"+t.port(managerAddr(n), portFlood)))
		}
		lines[m.name] = fmt.Sprintf("signed_bindings:\n  anchors: %s\n  store: %s\n  key: %s\n  listen: %q\n  neighbours: [%s]\n  publish: [%s]\n",
			anchors, filepath.Join(t.dir, m.name+".store"), filepath.Join(t.dir, m.name+".key"), t.port(m.addr, portFlood),
			strings.Join(neighbours, ", "), filepath.Join(t.dir, m.name+".cbor"))
	}
	return lines, nil
}

func managerAddr(name string) string {
	for _, m := range labManagers {
		if m.name == name {
			return m.addr
		}
	}
	return ""
}

func (t *Network) signOne(m labManager, key binding.Key, registry ed25519.PrivateKey, now time.Time) error {
	r, err := binding.Sign(binding.Record{Role: m.role, Prefixes: []netip.Prefix{t.prefix(m.prefix)}, Key: key, Serial: 1,
		Endpoints: []binding.Endpoint{{Service: binding.ServiceIFP, Addr: netip.AddrPortFrom(t.at(m.addr), m.ifp)},
			{Service: binding.ServiceFlood, Addr: netip.AddrPortFrom(t.at(m.addr), portFlood)}},
		NotBefore: now.Add(-time.Hour).Unix(), NotAfter: now.Add(24 * time.Hour).Unix()}, registry)
	if err != nil {
		return fmt.Errorf("binding of %s: %w", m.name, err)
	}
	return os.WriteFile(filepath.Join(t.dir, m.name+".cbor"), r.Raw(), 0o600)
}

// awaitBindings waits until the filter manager knows both border managers, and they
// know it: it installs a filter on an unused address with each, and revokes it.
func (t *terminus) awaitBindings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, floodPatience)
	defer cancel()
	for _, src := range []string{"10.1.3.200", "10.4.3.200"} {
		r := filterman.Request{Src: hostPrefix(t.at(src)), Dst: hostPrefix(t.at(addrServer)), Witness: filterman.SeenTS, Detector: "lab"}
		for {
			v, err := t.api.Add(ctx, []filterman.Request{r})
			if err == nil && v[0].State == filterman.Installed {
				break
			}
			if sleep(ctx, 50*time.Millisecond) != nil {
				if err != nil {
					return fmt.Errorf("bindings have not reached all managers after %s: %w", floodPatience, err)
				}
				return fmt.Errorf("bindings have not reached all managers after %s: %v", floodPatience, v)
			}
		}
		if err := t.api.Remove(ctx, r.Src, r.Dst); err != nil {
			return err
		}
	}
	return nil
}
