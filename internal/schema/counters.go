// Code generated from core/counters.def by internal/schema/gen; DO NOT EDIT.

package schema

// The counters, numbered as in the maps of the packet paths.
const (
	// CounterSyn: SYNs seen that were addressed to the service.
	CounterSyn Counter = 0
	// CounterCookieSent: SYNs answered with a cookie SYN-ACK.
	CounterCookieSent Counter = 1
	// CounterWouldAnswer: monitor mode: SYNs that would have been answered.
	CounterWouldAnswer Counter = 2
	// CounterWouldDrop: monitor mode: packets that would have been dropped.
	CounterWouldDrop Counter = 3
	// CounterCookieValid: ACKs without a socket whose cookie verified.
	CounterCookieValid Counter = 4
	// CounterCookieInvalid: ACKs without a socket whose cookie did not verify; left to the kernel.
	CounterCookieInvalid Counter = 5
	// CounterCookieStale: ACKs whose cookie was genuine but older than the previous epoch; left to the kernel.
	CounterCookieStale Counter = 6
	// CounterAdopted: connections handed to the kernel from a cookie.
	CounterAdopted Counter = 7
	// CounterAdoptFailed: verified ACKs that the kernel did not adopt; if it refused the listener as such, SYNs go to the kernel from then on.
	CounterAdoptFailed Counter = 8
	// CounterAckExisting: verified ACKs for which a socket was already there.
	CounterAckExisting Counter = 9
	// CounterAckNoListener: verified ACKs that found no listener; left to the kernel, which answers RST.
	CounterAckNoListener Counter = 10
	// CounterPassExisting: SYNs whose 4-tuple has a live or TIME-WAIT socket; left to the kernel.
	CounterPassExisting Counter = 11
	// CounterPassListener: SYNs left to the kernel because the listener is absent or cannot be adopted.
	CounterPassListener Counter = 12
	// CounterPassNoKey: SYNs left to the kernel because no key of this epoch is loaded (fail open).
	CounterPassNoKey Counter = 13
	// CounterPassFrame: SYNs to broadcast or multicast frames or addresses; left to the kernel, never answered.
	CounterPassFrame Counter = 14
	// CounterDropFlags: SYN together with FIN or RST.
	CounterDropFlags Counter = 15
	// CounterDropMalformed: SYNs with a header that lies about its length.
	CounterDropMalformed Counter = 16
	// CounterDropFragment: first fragments that carry a SYN or cut the TCP header, and fragments that would overwrite it.
	CounterDropFragment Counter = 17
	// CounterDropSource: SYNs from an address that cannot be a client (own address, loopback, multicast, 0/8).
	CounterDropSource Counter = 18
	// CounterDropExtChain: IPv6 extension header chains longer than the parser walks.
	CounterDropExtChain Counter = 19
	// CounterDropNoKey: SYNs dropped because no key of this epoch is loaded (fail closed).
	CounterDropNoKey Counter = 20
	// CounterDropTx: SYNs lost because the frame could not be resized for the answer.
	CounterDropTx Counter = 21
	// CounterPassSigned: SYNs with a TCP-MD5 or TCP-AO option; left to the kernel, which has the keys.
	CounterPassSigned Counter = 22

	// NumCounters is how many counters there are.
	NumCounters = 23
)

var counters = [NumCounters]struct{ name, help string }{
	{"syn", "SYNs seen that were addressed to the service"},
	{"cookie_sent", "SYNs answered with a cookie SYN-ACK"},
	{"would_answer", "monitor mode: SYNs that would have been answered"},
	{"would_drop", "monitor mode: packets that would have been dropped"},
	{"cookie_valid", "ACKs without a socket whose cookie verified"},
	{"cookie_invalid", "ACKs without a socket whose cookie did not verify; left to the kernel"},
	{"cookie_stale", "ACKs whose cookie was genuine but older than the previous epoch; left to the kernel"},
	{"adopted", "connections handed to the kernel from a cookie"},
	{"adopt_failed", "verified ACKs that the kernel did not adopt; if it refused the listener as such, SYNs go to the kernel from then on"},
	{"ack_existing", "verified ACKs for which a socket was already there"},
	{"ack_no_listener", "verified ACKs that found no listener; left to the kernel, which answers RST"},
	{"pass_existing", "SYNs whose 4-tuple has a live or TIME-WAIT socket; left to the kernel"},
	{"pass_listener", "SYNs left to the kernel because the listener is absent or cannot be adopted"},
	{"pass_no_key", "SYNs left to the kernel because no key of this epoch is loaded (fail open)"},
	{"pass_frame", "SYNs to broadcast or multicast frames or addresses; left to the kernel, never answered"},
	{"drop_flags", "SYN together with FIN or RST"},
	{"drop_malformed", "SYNs with a header that lies about its length"},
	{"drop_fragment", "first fragments that carry a SYN or cut the TCP header, and fragments that would overwrite it"},
	{"drop_source", "SYNs from an address that cannot be a client (own address, loopback, multicast, 0/8)"},
	{"drop_ext_chain", "IPv6 extension header chains longer than the parser walks"},
	{"drop_no_key", "SYNs dropped because no key of this epoch is loaded (fail closed)"},
	{"drop_tx", "SYNs lost because the frame could not be resized for the answer"},
	{"pass_signed", "SYNs with a TCP-MD5 or TCP-AO option; left to the kernel, which has the keys"},
}
