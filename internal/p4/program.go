// SPDX-License-Identifier: Apache-2.0

package p4

// names are those of a compiled program's objects. The name of an object's control
// comes first; the programs share most controls.
type names struct{ ingress, egress string }

func namesOf(program string) names {
	switch program {
	case ProgramAuthFull, ProgramAuthCookie:
		return names{"AuthIngress.", "AuthEgress."}
	case ProgramCookie:
		return names{"CookieIngress.", "CookieEgress."}
	}
	return names{"EdgeIngress.", "EdgeEgress."}
}

// in is an object of the ingress.
func (n names) in(name string) string { return n.ingress + name }

// Objects of the programs' ingress.
const (
	tableGate      = "settings.gate"
	actionGate     = "settings.set_gate"
	tableInside    = "settings.inside_ports"
	actionInside   = "settings.set_inside"
	tableEpochs    = "settings.epochs"
	actionKeys     = "settings.set_keys"
	tableV4        = "services.services_v4"
	tableV6        = "services.services_v6"
	actionServe    = "services.set_service"
	tableMACs      = "forward.macs"
	actionToPort   = "forward.to_port"
	tableHomes     = "forward.learn.sources"
	actionHome     = "forward.learn.known"
	meterPace      = "forward.learn.pace"
	counterAll     = "counts"
	meterUnknown   = "allowance"
	tableTagged    = "tagged.tagged"
	actionTagged   = "tagged.set_tagged"
	tableTagKeys   = "keys.tag_keys"
	actionTagKey   = "keys.set_tag_key"
	tableStrategy  = "strategy"
	actionStrategy = "set_strategy"
	tableWhite     = "white.sources"
	actionWhite    = "white.known"
	tableFlows     = "table_of_flows.flows"
	actionFlow     = "table_of_flows.translate"

	tablePortMAC = "addresses.port_macs" // of the egress
	actionMACs   = "addresses.rewrite"

	floodGroup = 1
	gateParams = 9 // of set_gate
)

// Registers of the filter's partitions, and of connections in set-up.
var (
	bloomParts    = []string{"bloom.part0", "bloom.part1", "bloom.part2"}
	setupRegister = []string{"setup.owners", "setup.values", "setup.states"}

	pendingRegister = []string{"pending.places"}
)

const setupPlaces = 65536 // p4/v1model/flows.p4, tagged.p4

// hasFilter reports whether the program keeps a Bloom filter.
func (c *Config) hasFilter() bool { return c.Program != ProgramCookie }

// isAuth reports whether the program keeps a whitelist.
func (c *Config) isAuth() bool {
	return c.Program == ProgramAuthFull || c.Program == ProgramAuthCookie
}
