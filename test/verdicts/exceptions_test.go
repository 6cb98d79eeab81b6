// SPDX-License-Identifier: Apache-2.0

package verdicts

import "tidegate/internal/framegen"

// exception is an intended difference between a gate and a bare machine.
type exception struct {
	traits framegen.Trait // of the frame: all of these
	kinds  string         // "": everywhere; otherwise only kinds with this prefix
	why    string
}

// answersMore: the gate answers where the bare machine is silent.
var answersMore = []exception{
	{framegen.PartialChecksum, "", "a local sender leaves the checksum to the NIC, and XDP cannot see that it did"},
	{framegen.Signed, "", "signed: answer; the kernel drops SYNs that are signed without a key"},
	{framegen.VLAN, "", "the machines of this test have no VLAN devices, so that their kernels take no tagged frame"},
	{framegen.OddExtensions, "", "options inside extension headers, and the types of routing headers, are not read"},
	{framegen.UnroutedSource, "", "only the routing table tells such a source from a client; the answer goes where the SYN came from"},
	{framegen.LowTTL, "edge", "the edge answers for the servers, whose packets it would not route any further"},
	{framegen.LowTTL, "proxy", "the proxy answers for the servers, whose packets it would not route any further"},
}

// refusesMore: the gate is silent where the bare machine answers.
var refusesMore = []exception{
	{framegen.OddSource, "", "no client has such an address"},
	{framegen.GroupSourceMAC, "", "no sender has a group's MAC address; the kernel would ask for the sender's by ARP"},
	{framegen.LongExtensions, "", "more extension headers than a gate looks through"},
	{framegen.OddExtensions, "", "more, or others, than a gate looks through"},
	{framegen.Fragment, "", "nobody sends a SYN in fragments (RFC 1858)"},
	{framegen.Flags, "", "a SYN with FIN or RST opens nothing"},
	{framegen.VLAN, "", "TCP behind more than two tags is dropped; the kernel takes off any number with VID 0"},
}
