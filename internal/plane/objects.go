// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/borderbpf"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/patrolbpf"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/plane/retransmitbpf"
	"tidegate/internal/plane/serverbpf"
)

// Object is one compiled BPF file of a role.
type Object struct {
	Role string
	Name string
	Spec func() (*ebpf.CollectionSpec, error)
}

// Objects lists every BPF file that `tidegate run` may load. A new role adds
// its own here, so that `tidegate check` and make test-kernel try them.
func Objects() []Object {
	return []Object{
		{"host", "host_xdp", named(hostbpf.LoadHostXdp)},
		{"host", "host_tc", named(hostbpf.LoadHostTc)},
		{"host", "host_sockops", named(hostbpf.LoadHostSockops)},
		{"host", "host_iter", named(hostbpf.LoadHostIter)},
		{"host", "host_held", named(hostbpf.LoadHostHeld)},
		{"host", "host_translate", named(hostbpf.LoadHostTranslate)},
		{"host", "host_egress", named(hostbpf.LoadHostEgress)},
		{"proxy", "proxy_xdp", named(proxybpf.LoadProxyXdp)},
		{"proxy", "proxy_tc", named(proxybpf.LoadProxyTc)},
		{"proxy", "proxy_twin", named(proxybpf.LoadProxyTwin)},
		{"proxy", "proxy_retransmit", named(retransmitbpf.LoadProxyRetransmit)},
		{"edge", "edge_xdp", named(edgebpf.LoadEdgeXdp)},
		{"edge", "edge_smart", named(edgebpf.LoadEdgeSmart)},
		{"edge", "edge_probe", named(edgebpf.LoadEdgeProbe)},
		{"server", "server_xdp", named(serverbpf.LoadServerXdp)},
		{"server", "server_ingress", named(serverbpf.LoadServerIngress)},
		{"server", "server_egress", named(serverbpf.LoadServerEgress)},
		{"server", "server_sockops", named(serverbpf.LoadServerSockops)},
		{"patrol", "patrol_xdp", named(patrolbpf.LoadPatrolXdp)},
		{"patrol", "patrol_tc", named(patrolbpf.LoadPatrolTc)},
		{"border-manager", "border_xdp", borderbpf.LoadBorderXdp},
	}
}

// trialEntries is the size of large maps when only the verifier is tried.
const trialEntries = 1 << 10

// Try runs this kernel's verifier on every program of the object. Nothing is
// attached or pinned, and large maps are made small. The error is the kernel's
// last line; ErrRefused marks a refusal by the verifier, as opposed to other errors.
func (o Object) Try() error {
	spec, err := o.Spec()
	if err != nil {
		return err
	}
	for _, m := range spec.Maps {
		shrink(m)
	}
	coll, err := ebpf.NewCollection(spec)
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err == nil {
		coll.Close()
	}
	return err
}

// ErrRefused: the kernel's verifier does not accept a program.
var ErrRefused = errors.New("refused by the verifier")

func shrink(m *ebpf.MapSpec) {
	m.Pinning = ebpf.PinNone
	if m.MaxEntries == 0 || m.MaxEntries > trialEntries {
		m.MaxEntries = trialEntries
	}
	if m.Type == ebpf.RingBuf {
		m.MaxEntries = 1 << 16 // whole pages
	}
	if m.InnerMap != nil {
		shrink(m.InnerMap)
	}
}
