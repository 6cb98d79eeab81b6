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
	// CounterForwardWhite: proxy: SYNs of whitelisted sources, forwarded to the server.
	CounterForwardWhite Counter = 23
	// CounterChallengeSent: proxy: SYNs answered with a SYN-ACK that carries no cookie (auth-full, auth-wrong, auth-ttl).
	CounterChallengeSent Counter = 24
	// CounterWhiteAdded: proxy: sources put on the whitelist.
	CounterWhiteAdded Counter = 25
	// CounterWhiteFull: proxy: sources not put on the whitelist because it is full; who is on it stays.
	CounterWhiteFull Counter = 26
	// CounterWhiteReset: proxy: clients reset after they had answered, so that they connect again.
	CounterWhiteReset Counter = 27
	// CounterFlowOpened: proxy: connections begun towards the server for a client that has verified.
	CounterFlowOpened Counter = 28
	// CounterFlowReady: proxy: connections that the server has accepted; they are translated from then on.
	CounterFlowReady Counter = 29
	// CounterFlowRefused: proxy: connections that the server refused; the client got the RST.
	CounterFlowRefused Counter = 30
	// CounterFlowFull: proxy: verified ACKs dropped because the flow table is full; flows that exist are kept.
	CounterFlowFull Counter = 31
	// CounterFlowClosed: proxy: translated connections seen to end.
	CounterFlowClosed Counter = 32
	// CounterFlowEarly: proxy: client segments dropped because the server was not ready; the client sends them again.
	CounterFlowEarly Counter = 33
	// CounterFlowAgain: proxy: SYNs sent to the server again because the client asked again.
	CounterFlowAgain Counter = 34
	// CounterFlowOlder: proxy: answers of the server about an older connection; it was reset and asked again.
	CounterFlowOlder Counter = 35
	// CounterFlowReack: proxy: SYN-ACKs that the server sent again, answered again.
	CounterFlowReack Counter = 36
	// CounterIcmpTranslated: proxy: ICMP errors whose quoted header was translated.
	CounterIcmpTranslated Counter = 37
	// CounterCacheKept: proxy: SYNs kept in the SYN cache and answered.
	CounterCacheKept Counter = 38
	// CounterCacheKnown: proxy: SYNs that the SYN cache knew already; answered with the same SYN-ACK.
	CounterCacheKnown Counter = 39
	// CounterCacheEvicted: proxy: half-open connections that had to give their place in the SYN cache to newer ones.
	CounterCacheEvicted Counter = 40
	// CounterCacheBusy: proxy: SYNs dropped because other CPUs were writing in their bucket of the SYN cache.
	CounterCacheBusy Counter = 41
	// CounterCacheAgain: proxy: SYN-ACKs sent again out of the SYN cache because no ACK had come.
	CounterCacheAgain Counter = 42
	// CounterCacheValid: proxy: ACKs of a half-open connection in the SYN cache.
	CounterCacheValid Counter = 43
	// CounterCacheInvalid: proxy: ACKs that the SYN cache knows nothing of; forwarded to the server.
	CounterCacheInvalid Counter = 44
	// CounterCacheReset: proxy: half-open connections ended by the client's RST.
	CounterCacheReset Counter = 45
	// CounterServerAsked: proxy: SYNs that offered a server everything, to learn its options, and were reset or kept.
	CounterServerAsked Counter = 46
	// CounterFlowMismatch: proxy: connections reset because the server no longer gives what their client was told.
	CounterFlowMismatch Counter = 47
	// CounterFlowNotified: proxy: clients told by duplicate ACKs that their first data were lost (first_data: notify).
	CounterFlowNotified Counter = 48
	// CounterStoreKept: dpdk: client segments kept until the server is ready.
	CounterStoreKept Counter = 49
	// CounterStoreFull: dpdk: client segments not kept because the pool is full; the client sends them again.
	CounterStoreFull Counter = 50
	// CounterStoreSent: dpdk: kept segments sent on to the server.
	CounterStoreSent Counter = 51
	// CounterStoreAged: dpdk: kept segments given up because the server was not ready in time.
	CounterStoreAged Counter = 52
	// CounterDropNoBuffer: dpdk: frames lost because no buffer was free.
	CounterDropNoBuffer Counter = 53
	// CounterDropNoRoute: dpdk: frames without a route, with a TTL used up, too long for the port, or not for this box.
	CounterDropNoRoute Counter = 54
	// CounterDropTxFull: dpdk: frames that a transmit queue did not take (it is full, or its link is down).
	CounterDropTxFull Counter = 55

	// NumCounters is how many counters there are.
	NumCounters = 56
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
	{"forward_white", "proxy: SYNs of whitelisted sources, forwarded to the server"},
	{"challenge_sent", "proxy: SYNs answered with a SYN-ACK that carries no cookie (auth-full, auth-wrong, auth-ttl)"},
	{"white_added", "proxy: sources put on the whitelist"},
	{"white_full", "proxy: sources not put on the whitelist because it is full; who is on it stays"},
	{"white_reset", "proxy: clients reset after they had answered, so that they connect again"},
	{"flow_opened", "proxy: connections begun towards the server for a client that has verified"},
	{"flow_ready", "proxy: connections that the server has accepted; they are translated from then on"},
	{"flow_refused", "proxy: connections that the server refused; the client got the RST"},
	{"flow_full", "proxy: verified ACKs dropped because the flow table is full; flows that exist are kept"},
	{"flow_closed", "proxy: translated connections seen to end"},
	{"flow_early", "proxy: client segments dropped because the server was not ready; the client sends them again"},
	{"flow_again", "proxy: SYNs sent to the server again because the client asked again"},
	{"flow_older", "proxy: answers of the server about an older connection; it was reset and asked again"},
	{"flow_reack", "proxy: SYN-ACKs that the server sent again, answered again"},
	{"icmp_translated", "proxy: ICMP errors whose quoted header was translated"},
	{"cache_kept", "proxy: SYNs kept in the SYN cache and answered"},
	{"cache_known", "proxy: SYNs that the SYN cache knew already; answered with the same SYN-ACK"},
	{"cache_evicted", "proxy: half-open connections that had to give their place in the SYN cache to newer ones"},
	{"cache_busy", "proxy: SYNs dropped because other CPUs were writing in their bucket of the SYN cache"},
	{"cache_again", "proxy: SYN-ACKs sent again out of the SYN cache because no ACK had come"},
	{"cache_valid", "proxy: ACKs of a half-open connection in the SYN cache"},
	{"cache_invalid", "proxy: ACKs that the SYN cache knows nothing of; forwarded to the server"},
	{"cache_reset", "proxy: half-open connections ended by the client's RST"},
	{"server_asked", "proxy: SYNs that offered a server everything, to learn its options, and were reset or kept"},
	{"flow_mismatch", "proxy: connections reset because the server no longer gives what their client was told"},
	{"flow_notified", "proxy: clients told by duplicate ACKs that their first data were lost (first_data: notify)"},
	{"store_kept", "dpdk: client segments kept until the server is ready"},
	{"store_full", "dpdk: client segments not kept because the pool is full; the client sends them again"},
	{"store_sent", "dpdk: kept segments sent on to the server"},
	{"store_aged", "dpdk: kept segments given up because the server was not ready in time"},
	{"drop_no_buffer", "dpdk: frames lost because no buffer was free"},
	{"drop_no_route", "dpdk: frames without a route, with a TTL used up, too long for the port, or not for this box"},
	{"drop_tx_full", "dpdk: frames that a transmit queue did not take (it is full, or its link is down)"},
}
