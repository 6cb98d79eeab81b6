// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/plane/serverbpf"
	"tidegate/internal/schema"
)

// Rehearsal is what an XDP program would do with a frame.
type Rehearsal struct {
	Verdict uint32 // enum xdp_action
	Out     []byte // the frame afterwards
	Moved   map[schema.Counter]uint64
}

// RehearsalOptions say what of.
type RehearsalOptions struct {
	BPFFS, Instance, Role string
	Smart                 bool     // an edge's layout is smartcookie
	Services              []uint32 // services whose counters are compared, besides number 0
	Ifindex               uint32   // interface where the frame arrives
	Frame                 []byte
}

// Of these maps a rehearsal has its own, so that nothing is counted and no allowance is spent.
var rehearsalOwn = map[string]bool{hostbpf.HostXdpMapTgCounters: true, hostbpf.HostXdpMapTgTagAllowances: true, edgebpf.EdgeProbeMapTgAllowances: true}

// Rehearse asks the program of a role, on the maps that are installed for the instance, what it would do with a frame. The frame goes
// nowhere and is not counted; a strategy that remembers SYNs remembers this one, as any other.
func Rehearse(o RehearsalOptions) (out Rehearsal, err error) {
	spec, name, err := rehearsalObject(o)
	if err != nil {
		return out, err
	}
	highest := uint32(0)
	for _, id := range o.Services {
		highest = max(highest, id)
	}
	dir, installed := PinDir(o.BPFFS, o.Instance), map[string]*ebpf.Map{}
	defer func() { closeMaps(installed) }()
	for mapName, ms := range spec.Maps {
		if rehearsalOwn[mapName] || strings.HasPrefix(mapName, ".") {
			if mapName == hostbpf.HostXdpMapTgCounters {
				ms.MaxEntries = highest + 1
			}
			continue
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, mapName), nil)
		if errors.Is(err, os.ErrNotExist) {
			return out, fmt.Errorf("instance %q was installed by another version, without the map %s; restart it", o.Instance, mapName)
		}
		if err != nil {
			return out, fmt.Errorf("map %s: %w", mapName, err)
		}
		installed[mapName], ms.MaxEntries, ms.Flags = m, m.MaxEntries(), m.Flags()
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: installed})
	if err != nil {
		return out, explain(err)
	}
	defer coll.Close()
	out.Out = make([]byte, len(o.Frame)+256)
	run := &ebpf.RunOptions{Data: o.Frame, DataOut: out.Out, Context: xdpContext{DataEnd: uint32(len(o.Frame)), IngressIfindex: o.Ifindex}}
	if out.Verdict, err = coll.Programs[name].Run(run); err != nil {
		return out, fmt.Errorf("run %s on a frame: %w", name, err)
	}
	out.Out, out.Moved = run.DataOut, map[schema.Counter]uint64{}
	for _, id := range append([]uint32{0}, o.Services...) {
		sum, err := ReadCounters(coll.Maps[hostbpf.HostXdpMapTgCounters], id)
		if err != nil {
			return out, err
		}
		for c, n := range sum {
			if n > 0 {
				out.Moved[schema.Counter(c)] += n
			}
		}
	}
	return out, nil
}

// xdpContext is struct xdp_md, as BPF_PROG_TEST_RUN takes it.
type xdpContext struct {
	Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

func rehearsalObject(o RehearsalOptions) (spec *ebpf.CollectionSpec, name string, err error) {
	switch o.Role {
	case "host":
		name = hostbpf.HostXdpProgTgHostXdp
		spec, err = named(hostbpf.LoadHostXdp)()
	case "proxy":
		name = proxybpf.ProxyXdpProgTgProxyXdp
		spec, err = named(proxybpf.LoadProxyXdp)()
	case "edge":
		name = edgebpf.EdgeXdpProgTgEdgeXdp
		load := edgebpf.LoadEdgeXdp
		if o.Smart {
			load = edgebpf.LoadEdgeSmart
		}
		spec, err = named(load)()
	case "server":
		name = serverbpf.ServerXdpProgTgServerXdp
		spec, err = named(serverbpf.LoadServerXdp)()
	default:
		return nil, "", fmt.Errorf("role %s has no XDP program that decides about SYNs", o.Role)
	}
	if err != nil {
		return nil, "", err
	}
	for prog := range spec.Programs {
		if prog != name {
			delete(spec.Programs, prog)
		}
	}
	if spec.Programs[name] == nil {
		return nil, "", fmt.Errorf("no program %s", name)
	}
	return spec, name, nil
}
