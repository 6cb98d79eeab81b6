// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"slices"
)

// How is how connections to the service are expected to be taken over.
type How string

// Adopted and Translated are the values of `takeover`. Left: the service is served but not protected.
const (
	Adopted    How = "adopt"
	Translated How = "translate"
	Left       How = "kernel"
)

// Nobody, as Served, means that none of these clients is served.
const Nobody = -1

// Scenario is a machine and the expected result of its clients.
type Scenario struct {
	Name  string // GROUP/NAME
	About string // one line: what kind of machine this is
	How   How    // of the connections that are served
	// Served is how many clients of a family are served, in each of the three columns;
	// 0 is all of them. More and fewer are both wrong: a rule that denies must not be bypassed.
	Served int
	// Hold has the clients keep their connections open until the last client has tried.
	Hold  bool
	Quick bool     // part of `make test`
	Needs []string // commands required in addition to ip and nft: COMMAND or COMMAND=PACKAGE
	Only4 string   // why the machine has no IPv6, if it has none
	Link  string   // the link type that the kernel must support, with the arguments that it needs
	// Sources requires that the server see the clients' own addresses.
	Sources bool
	// KernelFirst is a machine whose SYNs, flood and clients alike, go to the kernel within an allowance, and get a cookie
	// beyond it (docs/host.md, answers that leave by another interface).
	KernelFirst bool
	// Canary is a machine that must fail; if it passes, the program detects nothing.
	Canary bool
	Build  func(m *Machine) error
}

// on returns what is expected on a kernel: before Linux 6.9, what others adopt is translated.
func (s Scenario) on(kernelAdopts bool) Scenario {
	if s.How == Adopted && !kernelAdopts {
		s.How = Translated
	}
	return s
}

// group is the scenarios of one kind.
type group struct {
	name string
	of   []Scenario
}

// All returns the scenarios in the order in which they run.
func All() (all []Scenario) {
	for _, g := range []group{
		{"firewall", firewalls()}, {"nat", translations()}, {"container", containers()}, {"program", programs()}, {"kube-proxy", nodes()},
		{"bridge", bridges()}, {"open-vswitch", switches()}, {"bond", bonds()}, {"vrf", vrfs()}, {"tunnel", tunnels()}, {"router", routers()}, {"listener", listenersOf()}, {"offload", offloads()},
		{"neighbour", neighbours()}, {"canary", canaries()},
	} {
		for _, s := range g.of {
			s.Name = g.name + "/" + s.Name
			all = append(all, s)
		}
	}
	return all
}

// InQEMU lists the rows of the same table that need a kernel other than this one.
var InQEMU = []string{
	"kernels before 6.9, which cannot adopt: `make test-kernel` (6.1 of Debian 12, 6.12 and later)",
	"bonds, VRFs and Open vSwitch, where this kernel has none: `make test-kernel`",
}

// canaries are known outages: the kernel resets connections adopted behind a
// nat chain, and `takeover: adopt` forces adoption.
func canaries() []Scenario {
	return []Scenario{{
		Name: "adopt-behind-nat", About: "`takeover: adopt` behind an empty nat chain: known to reset every client",
		How: Adopted, Canary: true, Quick: true,
		Build: func(m *Machine) error {
			m.Takeover = "adopt"
			return m.serveWith(emptyNAT)
		},
	}, {
		Name: "by-passed", About: "`takeover: adopt` past a list of denied clients, who are to be denied: known to let them in",
		How: Adopted, Served: Nobody, Canary: true,
		Build: func(m *Machine) error {
			m.Takeover = "adopt"
			return m.serveWith(denied)
		},
	}}
}

// check finds mistakes in the scenarios themselves.
func check(all []Scenario) error {
	var names []string
	for _, s := range all {
		switch {
		case slices.Contains(names, s.Name):
			return fmt.Errorf("two scenarios are named %s", s.Name)
		case s.Build == nil || s.About == "" || s.How == "":
			return fmt.Errorf("scenario %s is not complete", s.Name)
		}
		names = append(names, s.Name)
	}
	return nil
}
