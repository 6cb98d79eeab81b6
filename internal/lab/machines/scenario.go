// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"slices"
)

// How is the way in which connections to the service are to be taken over.
type How string

// Adopted and Translated are those of `takeover`. Left is neither: the service is served, not protected.
const (
	Adopted    How = "adopt"
	Translated How = "translate"
	Left       How = "kernel"
)

// Nobody is Served of a machine that serves none of these clients.
const Nobody = -1

// Scenario is a machine, and what its clients are to see.
type Scenario struct {
	Name  string // GROUP/NAME
	About string // one line: whose machine this is
	How   How    // of the connections that are served
	// Served is how many clients of a family get what they ask for, in each of the three columns:
	// 0 is all of them. More and fewer are both wrong: a rule that denies is not to be by-passed.
	Served int
	// Hold has the clients keep their connections until the last of them has tried.
	Hold  bool
	Quick bool     // part of `make test`
	Needs []string // commands, beside ip and nft, that must be there: COMMAND or COMMAND=PACKAGE
	Only4 string   // why the machine has no IPv6, if it has none
	Link  string   // the type of link that the kernel must have
	// Sources is a machine that is to keep the clients' own addresses.
	Sources bool
	// LeftUnderFlood is a machine whose SYNs, flood and clients alike, go to the kernel within an allowance (docs/host.md,
	// answers that leave by another interface). Under the flood those clients are served who happen upon it; as soon
	// as it ends, all are.
	LeftUnderFlood bool
	// Canary is a machine that must come out wrong, or this program sees nothing.
	Canary bool
	Build  func(m *Machine) error
}

// group are scenarios of one kind.
type group struct {
	name string
	of   []Scenario
}

// All are the scenarios in the order in which they are run.
func All() (all []Scenario) {
	for _, g := range []group{
		{"firewall", firewalls()}, {"nat", translations()}, {"container", containers()}, {"program", programs()}, {"kube-proxy", nodes()},
		{"bridge", bridges()}, {"router", routers()}, {"listener", listenersOf()}, {"offload", offloads()},
		{"neighbour", neighbours()}, {"canary", canaries()},
	} {
		for _, s := range g.of {
			s.Name = g.name + "/" + s.Name
			all = append(all, s)
		}
	}
	return all
}

// InQEMU are the rows of the same table that need another kernel than this one.
var InQEMU = []string{
	"kernels before 6.9, which cannot adopt: `make test-kernel` (6.1 of Debian 12, 6.12 and later)",
}

// canaries are outages of which it is known that they are: connections that are adopted behind a
// nat chain are reset by the kernel, and adopting is what `takeover: adopt` insists on.
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
