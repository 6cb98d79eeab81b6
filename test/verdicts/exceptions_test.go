package verdicts

import "tidegate/internal/framegen"

// exception is a difference between a gate and a bare machine that is meant.
type exception struct {
	traits framegen.Trait // of the frame: all of these
	kinds  string         // "": everywhere; else only kinds whose name begins so
	why    string
}

// answersMore: the gate answers where the bare machine is silent.
var answersMore = []exception{
	{framegen.PartialChecksum, "", "a local sender leaves the checksum to the NIC, and XDP cannot see that it did"},
	{framegen.Signed, "", "signed: answer; the kernel drops SYNs that are signed without a key"},
	{framegen.VLAN, "", "the machines of this test have no VLAN devices, so that their kernels take no tagged frame"},
}

// refusesMore: the gate is silent where the bare machine answers.
var refusesMore = []exception{
	{framegen.OddSource, "", "no client has such an address"},
	{framegen.LongExtensions, "", "more extension headers than a gate looks through"},
	{framegen.OddExtensions, "", "more, or others, than a gate looks through"},
	{framegen.Fragment, "", "nobody sends a SYN in fragments (RFC 1858)"},
	{framegen.Flags, "", "a SYN with FIN or RST opens nothing"},
}
