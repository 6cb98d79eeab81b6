// Code generated from core/counters.def by internal/schema/gen; DO NOT EDIT.

package schema

// The counters, numbered as in the maps of the packet paths.
const (
	// CounterSyn: SYNs addressed to the service.
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
	// CounterAdoptFailed: verified ACKs that the kernel did not adopt; docs/host.md says when this ends adoption for a listener.
	CounterAdoptFailed Counter = 8
	// CounterAckExisting: verified ACKs of connections that already have a socket.
	CounterAckExisting Counter = 9
	// CounterAckNoListener: verified ACKs without a listener; left to the kernel, which answers with a RST.
	CounterAckNoListener Counter = 10
	// CounterPassExisting: SYNs whose 4-tuple has a live or TIME-WAIT socket; left to the kernel.
	CounterPassExisting Counter = 11
	// CounterPassListener: SYNs left to the kernel because the listener is absent or cannot be adopted.
	CounterPassListener Counter = 12
	// CounterPassNoKey: SYNs, and segments that a translating server cannot verify, left to the kernel because no key of this epoch is loaded (fail open).
	CounterPassNoKey Counter = 13
	// CounterPassFrame: SYNs to broadcast or multicast frames or addresses, or (host) not to a MAC and an IP address of this machine; left to the kernel, never answered.
	CounterPassFrame Counter = 14
	// CounterDropFlags: SYNs that also have FIN or RST set.
	CounterDropFlags Counter = 15
	// CounterDropMalformed: SYNs with an impossible length in a header.
	CounterDropMalformed Counter = 16
	// CounterDropFragment: first fragments that carry a SYN or do not contain all extension headers, and fragments that would overwrite a TCP header.
	CounterDropFragment Counter = 17
	// CounterDropSource: SYNs from an address that cannot be a client (own address, loopback, multicast, 0/8, a group's MAC address).
	CounterDropSource Counter = 18
	// CounterDropExtChain: IPv6 packets with more than 6 extension headers, or more than 256 bytes of them, before TCP or before the next one.
	CounterDropExtChain Counter = 19
	// CounterDropNoKey: SYNs dropped because no key of this epoch is loaded (fail closed).
	CounterDropNoKey Counter = 20
	// CounterDropTx: SYNs lost because the frame could not be resized for the answer.
	CounterDropTx Counter = 21
	// CounterPassSigned: SYNs with one well-formed TCP-MD5 or TCP-AO option, left to the server's kernel within signed_rate (signed: pass).
	CounterPassSigned Counter = 22
	// CounterForwardWhite: proxy: SYNs of whitelisted sources, forwarded to the server.
	CounterForwardWhite Counter = 23
	// CounterChallengeSent: proxy: SYNs answered with a SYN-ACK that carries no cookie (auth-full, auth-wrong, auth-ttl).
	CounterChallengeSent Counter = 24
	// CounterWhiteAdded: proxy: sources added to the whitelist.
	CounterWhiteAdded Counter = 25
	// CounterWhiteFull: proxy: sources not whitelisted because the whitelist is full; sources already on it stay.
	CounterWhiteFull Counter = 26
	// CounterWhiteReset: proxy: clients reset after they verified, so that they connect again.
	CounterWhiteReset Counter = 27
	// CounterFlowOpened: proxy: connections begun to the server for a verified client.
	CounterFlowOpened Counter = 28
	// CounterFlowReady: proxy: connections that the server has accepted; they are translated from then on.
	CounterFlowReady Counter = 29
	// CounterFlowRefused: proxy: connections that the server refused; the client got the RST.
	CounterFlowRefused Counter = 30
	// CounterFlowFull: proxy: verified ACKs dropped because the flow table is full; existing flows are kept.
	CounterFlowFull Counter = 31
	// CounterFlowClosed: proxy: translated connections seen to end.
	CounterFlowClosed Counter = 32
	// CounterFlowEarly: proxy: client segments dropped because the server was not ready; the client retransmits them.
	CounterFlowEarly Counter = 33
	// CounterFlowRetransmit: proxy: SYNs sent to the server again because the client retransmitted.
	CounterFlowRetransmit Counter = 34
	// CounterFlowOlder: proxy: server answers that belong to an older connection; that was reset and the SYN sent again.
	CounterFlowOlder Counter = 35
	// CounterFlowReack: proxy: SYN-ACKs retransmitted by the server, acknowledged again.
	CounterFlowReack Counter = 36
	// CounterIcmpTranslated: proxy: ICMP errors whose quoted header was translated.
	CounterIcmpTranslated Counter = 37
	// CounterEdgeKnown: edge: packets of flows that the filter knows, forwarded.
	CounterEdgeKnown Counter = 38
	// CounterEdgeRefreshed: edge: flows added to the filter's active generation again, by the server's packets or, now and then, by the client's.
	CounterEdgeRefreshed Counter = 39
	// CounterEdgeUnknown: edge: packets that match neither filter nor cookie, forwarded to the server within unknown_rate.
	CounterEdgeUnknown Counter = 40
	// CounterEdgeLearning: edge: packets that match neither filter nor cookie, forwarded to the server because the filter is younger than its window.
	CounterEdgeLearning Counter = 41
	// CounterDropAck: edge: ACKs that match neither filter nor cookie.
	CounterDropAck Counter = 42
	// CounterDropRst: edge: RSTs of flows that the filter does not know.
	CounterDropRst Counter = 43
	// CounterDropFin: edge: FINs of flows that the filter does not know, without a cookie.
	CounterDropFin Counter = 44
	// CounterDropSynack: edge: SYN-ACKs to the service that do not answer a SYN of the service.
	CounterDropSynack Counter = 45
	// CounterDropStray: edge: segments with none of SYN, ACK, RST and FIN.
	CounterDropStray Counter = 46
	// CounterDropHops: edge: packets whose TTL is below hops, so that they could not have reached the server.
	CounterDropHops Counter = 47
	// CounterDropUnmatchedAck: server: ACKs with neither socket nor cookie that came through an edge's filter.
	CounterDropUnmatchedAck Counter = 48
	// CounterSocketReplaced: server: sockets of an earlier connection ended because the same client has reconnected and verified.
	CounterSocketReplaced Counter = 49
	// CounterAckRepeated: server: verified ACKs that repeat the start of a connection now in TIME-WAIT; left to the kernel.
	CounterAckRepeated Counter = 50
	// CounterPatrolFrom: patrol: packets that came from customers.
	CounterPatrolFrom Counter = 51
	// CounterPatrolTo: patrol: packets that came from outside, for customers.
	CounterPatrolTo Counter = 52
	// CounterPatrolLink: patrol: packets that stay on one link (neighbour discovery, DHCP) and frames that are not IP; not filtered.
	CounterPatrolLink Counter = 53
	// CounterDropSpoofed: patrol: packets from customers whose source is not allowed.
	CounterDropSpoofed Counter = 54
	// CounterDropBrokenIp: patrol: packets whose IP header is truncated or inconsistent.
	CounterDropBrokenIp Counter = 55
	// CounterTsSet: patrol: packets on which the true-source codepoint was set.
	CounterTsSet Counter = 56
	// CounterTsCleared: patrol: packets whose codepoint was cleared because they came from a legacy neighbour.
	CounterTsCleared Counter = 57
	// CounterFilterBlocked: patrol: packets dropped by a filter.
	CounterFilterBlocked Counter = 58
	// CounterFilterBlockedTs0: patrol: packets without the codepoint dropped by a conditional filter.
	CounterFilterBlockedTs0 Counter = 59
	// CounterFilterCleared: patrol: packets whose codepoint was cleared by a filter.
	CounterFilterCleared Counter = 60
	// CounterFilterAllowed: patrol: packets that matched a filter but were passed because of the list of exceptions.
	CounterFilterAllowed Counter = 61
	// CounterIfpNonceSent: border-manager: requests answered with a nonce by XDP.
	CounterIfpNonceSent Counter = 62
	// CounterIfpPassed: border-manager: messages of the filtering protocol that XDP left to the daemon.
	CounterIfpPassed Counter = 63
	// CounterIfpDrop: border-manager: requests lost because the frame could not be shortened for the answer.
	CounterIfpDrop Counter = 64
	// CounterIfpNoKey: border-manager: requests left to the daemon because no key of this epoch is loaded.
	CounterIfpNoKey Counter = 65
	// CounterCacheKept: proxy: SYNs stored in the SYN cache and answered.
	CounterCacheKept Counter = 66
	// CounterCacheKnown: proxy: SYNs that were already in the SYN cache; answered with the same SYN-ACK.
	CounterCacheKnown Counter = 67
	// CounterCacheEvicted: proxy: half-open connections that lost their place in the SYN cache to newer ones, as there was no key for a cookie.
	CounterCacheEvicted Counter = 68
	// CounterCacheBusy: proxy: SYNs dropped because other CPUs were writing to their bucket of the SYN cache.
	CounterCacheBusy Counter = 69
	// CounterCacheRetransmit: proxy: SYN-ACKs retransmitted from the SYN cache because no ACK had arrived.
	CounterCacheRetransmit Counter = 70
	// CounterCacheValid: proxy: ACKs of a half-open connection in the SYN cache.
	CounterCacheValid Counter = 71
	// CounterCacheInvalid: proxy: ACKs that match nothing in the SYN cache; forwarded to the server.
	CounterCacheInvalid Counter = 72
	// CounterCacheReset: proxy: half-open connections ended by the client's RST.
	CounterCacheReset Counter = 73
	// CounterTagValid: server: segments whose tag verified; the edge vouches for them.
	CounterTagValid Counter = 74
	// CounterTagForged: server: segments dropped because their tag's MAC is wrong (forged, or the edge has another secret).
	CounterTagForged Counter = 75
	// CounterTagForeign: server: segments dropped because their tag is truncated, or has an unknown version, kind or edge.
	CounterTagForeign Counter = 76
	// CounterTagStale: server: segments dropped because their tag's epoch is too old, or too far ahead.
	CounterTagStale Counter = 77
	// CounterSplitOpened: server: SYNs sent to the local stack for a verified client.
	CounterSplitOpened Counter = 78
	// CounterSplitReady: server: connections that the local stack has accepted; they are translated from then on.
	CounterSplitReady Counter = 79
	// CounterSplitRefused: server: connections that the local stack refused; the client got the RST.
	CounterSplitRefused Counter = 80
	// CounterSplitFull: server: verified segments dropped because the table has no room; existing flows are kept.
	CounterSplitFull Counter = 81
	// CounterSplitClosed: server: translated connections seen to end.
	CounterSplitClosed Counter = 82
	// CounterSplitEarly: server: client segments dropped because the local stack had not answered; the client retransmits them.
	CounterSplitEarly Counter = 83
	// CounterSplitRetransmit: server: SYNs sent to the local stack again because the client retransmitted.
	CounterSplitRetransmit Counter = 84
	// CounterSplitOlder: server: answers of the local stack that belong to an older connection; that was reset and the SYN sent again.
	CounterSplitOlder Counter = 85
	// CounterSplitReack: server: SYN-ACKs retransmitted by the local stack, acknowledged again.
	CounterSplitReack Counter = 86
	// CounterProbeKnown: server: probes of existing connections; the edge gets a confirmation.
	CounterProbeKnown Counter = 87
	// CounterProbeUnknown: server: probes dropped because the connection does not exist.
	CounterProbeUnknown Counter = 88
	// CounterConfirmSent: server: confirmations sent to an edge.
	CounterConfirmSent Counter = 89
	// CounterConfirmFailed: server: confirmations not sent: the edge has no address of this family, or the frame could not be built.
	CounterConfirmFailed Counter = 90
	// CounterStoreKept: dpdk: client segments stored until the server is ready.
	CounterStoreKept Counter = 91
	// CounterStoreFull: dpdk: client segments not stored because the pool is full; the client retransmits them.
	CounterStoreFull Counter = 92
	// CounterStoreSent: dpdk: stored segments sent on to the server.
	CounterStoreSent Counter = 93
	// CounterStoreAged: dpdk: stored segments discarded because the server was not ready in time.
	CounterStoreAged Counter = 94
	// CounterDropNoBuffer: dpdk: frames lost because no buffer was free.
	CounterDropNoBuffer Counter = 95
	// CounterDropNoRoute: dpdk: frames without a route, with an expired TTL, too long for the port, or not for this box.
	CounterDropNoRoute Counter = 96
	// CounterDropTxFull: dpdk: frames that a transmit queue did not accept (it is full, or its link is down).
	CounterDropTxFull Counter = 97
	// CounterTagSetup: edge: verified ACKs sent to the server with a set-up tag.
	CounterTagSetup Counter = 98
	// CounterTagProbe: edge: segments sent to the server as probes: of a flow verified a moment ago, or unknown and within unknown_rate.
	CounterTagProbe Counter = 99
	// CounterTagNoRoom: edge: segments dropped because a tag does not fit into them or into the MTU; the client retransmits them, shorter or with fewer options.
	CounterTagNoRoom Counter = 100
	// CounterConfirmTaken: edge: confirmations from the server that were accepted; the flow is known from then on.
	CounterConfirmTaken Counter = 101
	// CounterConfirmForged: edge: confirmations dropped because their MAC or epoch is wrong.
	CounterConfirmForged Counter = 102
	// CounterServerAsked: proxy: SYNs that offered a server all options, to learn which it accepts; the connection was then reset or kept.
	CounterServerAsked Counter = 103
	// CounterFlowMismatch: proxy: connections reset because the server no longer offers what its client was promised.
	CounterFlowMismatch Counter = 104
	// CounterFlowNotified: proxy: clients told by duplicate ACKs that their first data were lost (first_data: notify).
	CounterFlowNotified Counter = 105
	// CounterPassSocket: server: segments of connections older than the translation of their listener; left to their sockets.
	CounterPassSocket Counter = 106
	// CounterSplitReplaced: server: connections replaced by a new one with the same addresses and ports: their client had reconnected.
	CounterSplitReplaced Counter = 107
	// CounterFlowForged: proxy: segments from a server's address that arrived by the port its client is behind, during set-up; dropped.
	CounterFlowForged Counter = 108
	// CounterDropTags: TCP frames with more than two VLAN tags, dropped.
	CounterDropTags Counter = 109
	// CounterDropLinkLocal: patrol: packets from a link-local IPv6 source to a destination beyond the link, except neighbour discovery; no router forwards them.
	CounterDropLinkLocal Counter = 110
	// CounterDropChecksum: SYNs with a wrong IPv4 or TCP checksum; edge, proxy, translating server: also ACKs with a valid cookie and a wrong checksum.
	CounterDropChecksum Counter = 111
	// CounterDropSourceRoute: SYNs, and ACKs with a valid cookie, with an IPv4 source route (LSRR, SSRR).
	CounterDropSourceRoute Counter = 112
	// CounterFlowShare: proxy: connections not begun because their source has used its share: dpdk of the table, xdp of the connections that wait for a place in it.
	CounterFlowShare Counter = 113
	// CounterPassStack: host: SYNs in frames with more VLAN tags than a connection can be adopted with; left to the kernel, within an allowance.
	CounterPassStack Counter = 114
	// CounterDropStack: host: SYNs in frames with more VLAN tags than a connection can be adopted with, dropped because the allowance is used up, or both tags have VLAN ID 0.
	CounterDropStack Counter = 115
	// CounterAckFrame: verified ACKs in frames from which no connection is made (VLAN tags, or to a MAC address that is not this machine's); left to the kernel.
	CounterAckFrame Counter = 116
	// CounterSplitDisplaced: server: connections that lost their place in a full table to a new one: their source holds many, or they were not used for long.
	CounterSplitDisplaced Counter = 117
	// CounterDropNoNeighbour: dpdk: frames of a router whose next hop has no MAC address: it does not answer, or too many are being resolved.
	CounterDropNoNeighbour Counter = 118
	// CounterDropCutOff: dpdk: frames of a kernel interface that are longer than any link carries, so that only the first part arrives: their sender does not segment (TSO), or the kernel merges segments (GRO).
	CounterDropCutOff Counter = 119
	// CounterSignedAnswered: SYNs with one well-formed TCP-MD5 or TCP-AO option, answered like any other (signed: answer).
	CounterSignedAnswered Counter = 120
	// CounterSignedExcess: SYNs with one well-formed TCP-MD5 or TCP-AO option beyond signed_rate, answered like any other (signed: pass).
	CounterSignedExcess Counter = 121
	// CounterDropSigned: SYNs with one well-formed TCP-MD5 or TCP-AO option, dropped (signed: drop).
	CounterDropSigned Counter = 122
	// CounterDropAuthOption: SYNs whose TCP-MD5 or TCP-AO option has a wrong length or appears twice, or whose option lengths are inconsistent; the kernel drops these, too.
	CounterDropAuthOption Counter = 123
	// CounterPassClosed: edge, proxy: SYNs to an address and port without a listener, forwarded to the server, which refuses them.
	CounterPassClosed Counter = 124
	// CounterClosedAsked: edge: SYNs forwarded to the server to learn whether there is a listener, after a connection was reset at its start.
	CounterClosedAsked Counter = 125
	// CounterClosedLearned: edge, proxy: addresses and ports found to have no listener, each time.
	CounterClosedLearned Counter = 126
	// CounterFlowWaits: proxy: connections that carry data but have no place of their own in the flow table, because it is full or their source has its share: checked again every 4 s; the least recently seen are displaced by newcomers.
	CounterFlowWaits Counter = 127
	// CounterReplyRouted: SYNs answered to another MAC address than they came from, because the route to the client leads there (LVS-DR, a second router); also in cookie_sent.
	CounterReplyRouted Counter = 128
	// CounterReplyUnsure: SYNs answered to the MAC address they came from although the route differs or is not known, because the allowance is used up; also in cookie_sent.
	CounterReplyUnsure Counter = 129
	// CounterPassNeighbour: SYNs left to the kernel, within an allowance, because the next hop's MAC address is not known for certain: the kernel resolves it.
	CounterPassNeighbour Counter = 130
	// CounterPassRoute: SYNs left to the kernel, within an allowance, because the answer leaves by another interface, or the route is not known, or there is none.
	CounterPassRoute Counter = 131
	// CounterDropRoute: SYNs beyond the allowance of pass_route, dropped because there is no route to their source, or rp_filter is strict and the route leads elsewhere.
	CounterDropRoute Counter = 132
	// CounterEdgeSynKnown: edge: SYNs of flows that the filter knows (with `challenge: weak` only those without timestamps), forwarded: if the server has that connection, its stack sends a challenge ACK (RFC 5961).
	CounterEdgeSynKnown Counter = 133
	// CounterSynChallenged: server: SYNs on existing translated connections, left to the stack, which sends a challenge ACK (RFC 5961).
	CounterSynChallenged Counter = 134
	// CounterPassHalfOpen: host: SYNs left to the kernel within half_open_rate, which remembers them and sends its SYN-ACK again.
	CounterPassHalfOpen Counter = 135
	// CounterAdoptUnproven: host, server: adoptions that made no socket, because something on this machine (NAT, a firewall, a forwarding rule) dropped the ACK or took the socket from it, or its listener closed meanwhile; the connection is translated instead, or adopted once more, and its client does not notice.
	CounterAdoptUnproven Counter = 136
	// CounterConnected: host, adopting server: connections to protected ports that got a socket on this machine, however; counted for no service where services of the port have prefixes.
	CounterConnected Counter = 137
	// CounterDetectSyn: mode auto: SYNs as the detector counts them, while not the whole service is answered for; edge and proxy: of a sample of one in 16 connections, each counted 16 times.
	CounterDetectSyn Counter = 138
	// CounterHandshake: mode auto: completed handshakes, counted as detect_syn is.
	CounterHandshake Counter = 139
	// CounterDropReflected: SYNs dropped because the prefix that they claim to come from gets synack_limit answers a second already.
	CounterDropReflected Counter = 140
	// CounterAckKernelCookie: server: ACKs to a SYN cookie of this machine's kernel, which it sends when a listener's backlog is full; left to it.
	CounterAckKernelCookie Counter = 141
	// CounterDropDenied: SYNs dropped because a list denies their source.
	CounterDropDenied Counter = 142
	// CounterOverSourceLimit: verified connections of sources that are above their source_limits, whatever the action.
	CounterOverSourceLimit Counter = 143
	// CounterDropSourceLimit: verified connections dropped because their source is above its source_limits (action: drop).
	CounterDropSourceLimit Counter = 144
	// CounterPassUnverifiable: host: SYNs left to the kernel because the program that verifies ACKs could not be called: its map of programs was emptied, or its pin removed while no daemon ran.
	CounterPassUnverifiable Counter = 145
	// CounterReplyAcross: SYNs answered by another interface than they came in by, because the route to the client leads there; also in cookie_sent.
	CounterReplyAcross Counter = 146

	// NumCounters is how many counters there are.
	NumCounters = 147
)

var counters = [NumCounters]struct{ name, help string }{
	{"syn", "SYNs addressed to the service"},
	{"cookie_sent", "SYNs answered with a cookie SYN-ACK"},
	{"would_answer", "monitor mode: SYNs that would have been answered"},
	{"would_drop", "monitor mode: packets that would have been dropped"},
	{"cookie_valid", "ACKs without a socket whose cookie verified"},
	{"cookie_invalid", "ACKs without a socket whose cookie did not verify; left to the kernel"},
	{"cookie_stale", "ACKs whose cookie was genuine but older than the previous epoch; left to the kernel"},
	{"adopted", "connections handed to the kernel from a cookie"},
	{"adopt_failed", "verified ACKs that the kernel did not adopt; docs/host.md says when this ends adoption for a listener"},
	{"ack_existing", "verified ACKs of connections that already have a socket"},
	{"ack_no_listener", "verified ACKs without a listener; left to the kernel, which answers with a RST"},
	{"pass_existing", "SYNs whose 4-tuple has a live or TIME-WAIT socket; left to the kernel"},
	{"pass_listener", "SYNs left to the kernel because the listener is absent or cannot be adopted"},
	{"pass_no_key", "SYNs, and segments that a translating server cannot verify, left to the kernel because no key of this epoch is loaded (fail open)"},
	{"pass_frame", "SYNs to broadcast or multicast frames or addresses, or (host) not to a MAC and an IP address of this machine; left to the kernel, never answered"},
	{"drop_flags", "SYNs that also have FIN or RST set"},
	{"drop_malformed", "SYNs with an impossible length in a header"},
	{"drop_fragment", "first fragments that carry a SYN or do not contain all extension headers, and fragments that would overwrite a TCP header"},
	{"drop_source", "SYNs from an address that cannot be a client (own address, loopback, multicast, 0/8, a group's MAC address)"},
	{"drop_ext_chain", "IPv6 packets with more than 6 extension headers, or more than 256 bytes of them, before TCP or before the next one"},
	{"drop_no_key", "SYNs dropped because no key of this epoch is loaded (fail closed)"},
	{"drop_tx", "SYNs lost because the frame could not be resized for the answer"},
	{"pass_signed", "SYNs with one well-formed TCP-MD5 or TCP-AO option, left to the server's kernel within signed_rate (signed: pass)"},
	{"forward_white", "proxy: SYNs of whitelisted sources, forwarded to the server"},
	{"challenge_sent", "proxy: SYNs answered with a SYN-ACK that carries no cookie (auth-full, auth-wrong, auth-ttl)"},
	{"white_added", "proxy: sources added to the whitelist"},
	{"white_full", "proxy: sources not whitelisted because the whitelist is full; sources already on it stay"},
	{"white_reset", "proxy: clients reset after they verified, so that they connect again"},
	{"flow_opened", "proxy: connections begun to the server for a verified client"},
	{"flow_ready", "proxy: connections that the server has accepted; they are translated from then on"},
	{"flow_refused", "proxy: connections that the server refused; the client got the RST"},
	{"flow_full", "proxy: verified ACKs dropped because the flow table is full; existing flows are kept"},
	{"flow_closed", "proxy: translated connections seen to end"},
	{"flow_early", "proxy: client segments dropped because the server was not ready; the client retransmits them"},
	{"flow_retransmit", "proxy: SYNs sent to the server again because the client retransmitted"},
	{"flow_older", "proxy: server answers that belong to an older connection; that was reset and the SYN sent again"},
	{"flow_reack", "proxy: SYN-ACKs retransmitted by the server, acknowledged again"},
	{"icmp_translated", "proxy: ICMP errors whose quoted header was translated"},
	{"edge_known", "edge: packets of flows that the filter knows, forwarded"},
	{"edge_refreshed", "edge: flows added to the filter's active generation again, by the server's packets or, now and then, by the client's"},
	{"edge_unknown", "edge: packets that match neither filter nor cookie, forwarded to the server within unknown_rate"},
	{"edge_learning", "edge: packets that match neither filter nor cookie, forwarded to the server because the filter is younger than its window"},
	{"drop_ack", "edge: ACKs that match neither filter nor cookie"},
	{"drop_rst", "edge: RSTs of flows that the filter does not know"},
	{"drop_fin", "edge: FINs of flows that the filter does not know, without a cookie"},
	{"drop_synack", "edge: SYN-ACKs to the service that do not answer a SYN of the service"},
	{"drop_stray", "edge: segments with none of SYN, ACK, RST and FIN"},
	{"drop_hops", "edge: packets whose TTL is below hops, so that they could not have reached the server"},
	{"drop_unmatched_ack", "server: ACKs with neither socket nor cookie that came through an edge's filter"},
	{"socket_replaced", "server: sockets of an earlier connection ended because the same client has reconnected and verified"},
	{"ack_repeated", "server: verified ACKs that repeat the start of a connection now in TIME-WAIT; left to the kernel"},
	{"patrol_from", "patrol: packets that came from customers"},
	{"patrol_to", "patrol: packets that came from outside, for customers"},
	{"patrol_link", "patrol: packets that stay on one link (neighbour discovery, DHCP) and frames that are not IP; not filtered"},
	{"drop_spoofed", "patrol: packets from customers whose source is not allowed"},
	{"drop_broken_ip", "patrol: packets whose IP header is truncated or inconsistent"},
	{"ts_set", "patrol: packets on which the true-source codepoint was set"},
	{"ts_cleared", "patrol: packets whose codepoint was cleared because they came from a legacy neighbour"},
	{"filter_blocked", "patrol: packets dropped by a filter"},
	{"filter_blocked_ts0", "patrol: packets without the codepoint dropped by a conditional filter"},
	{"filter_cleared", "patrol: packets whose codepoint was cleared by a filter"},
	{"filter_allowed", "patrol: packets that matched a filter but were passed because of the list of exceptions"},
	{"ifp_nonce_sent", "border-manager: requests answered with a nonce by XDP"},
	{"ifp_passed", "border-manager: messages of the filtering protocol that XDP left to the daemon"},
	{"ifp_drop", "border-manager: requests lost because the frame could not be shortened for the answer"},
	{"ifp_no_key", "border-manager: requests left to the daemon because no key of this epoch is loaded"},
	{"cache_kept", "proxy: SYNs stored in the SYN cache and answered"},
	{"cache_known", "proxy: SYNs that were already in the SYN cache; answered with the same SYN-ACK"},
	{"cache_evicted", "proxy: half-open connections that lost their place in the SYN cache to newer ones, as there was no key for a cookie"},
	{"cache_busy", "proxy: SYNs dropped because other CPUs were writing to their bucket of the SYN cache"},
	{"cache_retransmit", "proxy: SYN-ACKs retransmitted from the SYN cache because no ACK had arrived"},
	{"cache_valid", "proxy: ACKs of a half-open connection in the SYN cache"},
	{"cache_invalid", "proxy: ACKs that match nothing in the SYN cache; forwarded to the server"},
	{"cache_reset", "proxy: half-open connections ended by the client's RST"},
	{"tag_valid", "server: segments whose tag verified; the edge vouches for them"},
	{"tag_forged", "server: segments dropped because their tag's MAC is wrong (forged, or the edge has another secret)"},
	{"tag_foreign", "server: segments dropped because their tag is truncated, or has an unknown version, kind or edge"},
	{"tag_stale", "server: segments dropped because their tag's epoch is too old, or too far ahead"},
	{"split_opened", "server: SYNs sent to the local stack for a verified client"},
	{"split_ready", "server: connections that the local stack has accepted; they are translated from then on"},
	{"split_refused", "server: connections that the local stack refused; the client got the RST"},
	{"split_full", "server: verified segments dropped because the table has no room; existing flows are kept"},
	{"split_closed", "server: translated connections seen to end"},
	{"split_early", "server: client segments dropped because the local stack had not answered; the client retransmits them"},
	{"split_retransmit", "server: SYNs sent to the local stack again because the client retransmitted"},
	{"split_older", "server: answers of the local stack that belong to an older connection; that was reset and the SYN sent again"},
	{"split_reack", "server: SYN-ACKs retransmitted by the local stack, acknowledged again"},
	{"probe_known", "server: probes of existing connections; the edge gets a confirmation"},
	{"probe_unknown", "server: probes dropped because the connection does not exist"},
	{"confirm_sent", "server: confirmations sent to an edge"},
	{"confirm_failed", "server: confirmations not sent: the edge has no address of this family, or the frame could not be built"},
	{"store_kept", "dpdk: client segments stored until the server is ready"},
	{"store_full", "dpdk: client segments not stored because the pool is full; the client retransmits them"},
	{"store_sent", "dpdk: stored segments sent on to the server"},
	{"store_aged", "dpdk: stored segments discarded because the server was not ready in time"},
	{"drop_no_buffer", "dpdk: frames lost because no buffer was free"},
	{"drop_no_route", "dpdk: frames without a route, with an expired TTL, too long for the port, or not for this box"},
	{"drop_tx_full", "dpdk: frames that a transmit queue did not accept (it is full, or its link is down)"},
	{"tag_setup", "edge: verified ACKs sent to the server with a set-up tag"},
	{"tag_probe", "edge: segments sent to the server as probes: of a flow verified a moment ago, or unknown and within unknown_rate"},
	{"tag_no_room", "edge: segments dropped because a tag does not fit into them or into the MTU; the client retransmits them, shorter or with fewer options"},
	{"confirm_taken", "edge: confirmations from the server that were accepted; the flow is known from then on"},
	{"confirm_forged", "edge: confirmations dropped because their MAC or epoch is wrong"},
	{"server_asked", "proxy: SYNs that offered a server all options, to learn which it accepts; the connection was then reset or kept"},
	{"flow_mismatch", "proxy: connections reset because the server no longer offers what its client was promised"},
	{"flow_notified", "proxy: clients told by duplicate ACKs that their first data were lost (first_data: notify)"},
	{"pass_socket", "server: segments of connections older than the translation of their listener; left to their sockets"},
	{"split_replaced", "server: connections replaced by a new one with the same addresses and ports: their client had reconnected"},
	{"flow_forged", "proxy: segments from a server's address that arrived by the port its client is behind, during set-up; dropped"},
	{"drop_tags", "TCP frames with more than two VLAN tags, dropped"},
	{"drop_link_local", "patrol: packets from a link-local IPv6 source to a destination beyond the link, except neighbour discovery; no router forwards them"},
	{"drop_checksum", "SYNs with a wrong IPv4 or TCP checksum; edge, proxy, translating server: also ACKs with a valid cookie and a wrong checksum"},
	{"drop_source_route", "SYNs, and ACKs with a valid cookie, with an IPv4 source route (LSRR, SSRR)"},
	{"flow_share", "proxy: connections not begun because their source has used its share: dpdk of the table, xdp of the connections that wait for a place in it"},
	{"pass_stack", "host: SYNs in frames with more VLAN tags than a connection can be adopted with; left to the kernel, within an allowance"},
	{"drop_stack", "host: SYNs in frames with more VLAN tags than a connection can be adopted with, dropped because the allowance is used up, or both tags have VLAN ID 0"},
	{"ack_frame", "verified ACKs in frames from which no connection is made (VLAN tags, or to a MAC address that is not this machine's); left to the kernel"},
	{"split_displaced", "server: connections that lost their place in a full table to a new one: their source holds many, or they were not used for long"},
	{"drop_no_neighbour", "dpdk: frames of a router whose next hop has no MAC address: it does not answer, or too many are being resolved"},
	{"drop_cut_off", "dpdk: frames of a kernel interface that are longer than any link carries, so that only the first part arrives: their sender does not segment (TSO), or the kernel merges segments (GRO)"},
	{"signed_answered", "SYNs with one well-formed TCP-MD5 or TCP-AO option, answered like any other (signed: answer)"},
	{"signed_excess", "SYNs with one well-formed TCP-MD5 or TCP-AO option beyond signed_rate, answered like any other (signed: pass)"},
	{"drop_signed", "SYNs with one well-formed TCP-MD5 or TCP-AO option, dropped (signed: drop)"},
	{"drop_auth_option", "SYNs whose TCP-MD5 or TCP-AO option has a wrong length or appears twice, or whose option lengths are inconsistent; the kernel drops these, too"},
	{"pass_closed", "edge, proxy: SYNs to an address and port without a listener, forwarded to the server, which refuses them"},
	{"closed_asked", "edge: SYNs forwarded to the server to learn whether there is a listener, after a connection was reset at its start"},
	{"closed_learned", "edge, proxy: addresses and ports found to have no listener, each time"},
	{"flow_waits", "proxy: connections that carry data but have no place of their own in the flow table, because it is full or their source has its share: checked again every 4 s; the least recently seen are displaced by newcomers"},
	{"reply_routed", "SYNs answered to another MAC address than they came from, because the route to the client leads there (LVS-DR, a second router); also in cookie_sent"},
	{"reply_unsure", "SYNs answered to the MAC address they came from although the route differs or is not known, because the allowance is used up; also in cookie_sent"},
	{"pass_neighbour", "SYNs left to the kernel, within an allowance, because the next hop's MAC address is not known for certain: the kernel resolves it"},
	{"pass_route", "SYNs left to the kernel, within an allowance, because the answer leaves by another interface, or the route is not known, or there is none"},
	{"drop_route", "SYNs beyond the allowance of pass_route, dropped because there is no route to their source, or rp_filter is strict and the route leads elsewhere"},
	{"edge_syn_known", "edge: SYNs of flows that the filter knows (with `challenge: weak` only those without timestamps), forwarded: if the server has that connection, its stack sends a challenge ACK (RFC 5961)"},
	{"syn_challenged", "server: SYNs on existing translated connections, left to the stack, which sends a challenge ACK (RFC 5961)"},
	{"pass_half_open", "host: SYNs left to the kernel within half_open_rate, which remembers them and sends its SYN-ACK again"},
	{"adopt_unproven", "host, server: adoptions that made no socket, because something on this machine (NAT, a firewall, a forwarding rule) dropped the ACK or took the socket from it, or its listener closed meanwhile; the connection is translated instead, or adopted once more, and its client does not notice"},
	{"connected", "host, adopting server: connections to protected ports that got a socket on this machine, however; counted for no service where services of the port have prefixes"},
	{"detect_syn", "mode auto: SYNs as the detector counts them, while not the whole service is answered for; edge and proxy: of a sample of one in 16 connections, each counted 16 times"},
	{"handshake", "mode auto: completed handshakes, counted as detect_syn is"},
	{"drop_reflected", "SYNs dropped because the prefix that they claim to come from gets synack_limit answers a second already"},
	{"ack_kernel_cookie", "server: ACKs to a SYN cookie of this machine's kernel, which it sends when a listener's backlog is full; left to it"},
	{"drop_denied", "SYNs dropped because a list denies their source"},
	{"over_source_limit", "verified connections of sources that are above their source_limits, whatever the action"},
	{"drop_source_limit", "verified connections dropped because their source is above its source_limits (action: drop)"},
	{"pass_unverifiable", "host: SYNs left to the kernel because the program that verifies ACKs could not be called: its map of programs was emptied, or its pin removed while no daemon ran"},
	{"reply_across", "SYNs answered by another interface than they came in by, because the route to the client leads there; also in cookie_sent"},
}
