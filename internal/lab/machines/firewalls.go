// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// Hand-written firewalls, in nftables and iptables: rules that require a SYN, rules about
// connections that begin without one, and rules that deny, count and limit.

const established = `table inet f { chain in { type filter hook input priority 0; policy drop
	iif lo accept
	meta l4proto { icmp, icmpv6 } accept
	ct state established,related accept
	tcp dport 80 accept
}; }`

const newNotSYN = `table inet f { chain in { type filter hook input priority 0
	tcp dport 80 tcp flags & (fin|syn|rst|ack) != syn ct state new drop
}; }`

const acceptSYN = `table inet f { chain in { type filter hook input priority 0; policy drop
	meta l4proto { icmp, icmpv6 } accept
	ct state established accept
	tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn accept
}; }`

const invalidDropped = `table inet f { chain in { type filter hook input priority 0
	ct state invalid drop
	ct state established accept
}; }`

const synproxied = `table inet f {
	chain pre { type filter hook prerouting priority raw; tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn notrack; }
	chain in { type filter hook input priority 0
		meta nfproto ipv4 tcp dport 80 ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm
		meta nfproto ipv6 tcp dport 80 ct state invalid,untracked synproxy mss 1440 wscale 7 timestamp sack-perm
		tcp dport 80 ct state invalid drop
	}
}`

const denied = `table inet f {
	set bad4 { type ipv4_addr; elements = { 198.18.3.2, 192.0.2.1 }; }
	set bad6 { type ipv6_addr; elements = { fd7d:7467:4::2 }; }
	chain in { type filter hook input priority 0; ip saddr @bad4 tcp dport 80 tcp flags & (syn|ack) == syn drop; ip6 saddr @bad6 tcp dport 80 tcp flags & (syn|ack) == syn drop; }
}`

const deniedPlainly = `table inet f { chain in { type filter hook input priority 0; ip saddr 198.18.3.2 drop; ip6 saddr fd7d:7467:4::2 tcp dport 80 drop; }; }`

const deniedInRaw = `table inet f { chain pre { type filter hook prerouting priority raw; ip saddr 198.18.3.2 tcp dport 80 drop; ip6 saddr fd7d:7467:4::2 tcp dport 80 drop; }; }`

const newDenied = `table inet f { chain in { type filter hook input priority 0; ct state established accept; tcp dport 80 ct state new drop; }; }`

const newAccepted = `table inet f { chain in { type filter hook input priority 0; policy drop
	meta l4proto { icmp, icmpv6 } accept
	ct state vmap { established : accept, related : accept, invalid : drop }
	tcp dport 80 ct state new accept
}; }`

const untracked = `table inet f {
	chain pre { type filter hook prerouting priority raw; tcp dport 80 notrack; }
	chain out { type filter hook output priority raw; tcp sport 80 notrack; }
	chain in { type filter hook input priority 0; policy drop; meta l4proto { icmp, icmpv6 } accept; tcp dport 80 ct state untracked accept; }
}`

// tenSYNs is a limit that one column uses up.
const tenSYNs = `table inet f { chain in { type filter hook input priority 0
	tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn limit rate over 1/day burst 10 packets drop
}; }`

const tenConnections = `table inet f {
	set held { type ipv4_addr; size 65535; flags dynamic; }
	set held6 { type ipv6_addr; size 65535; flags dynamic; }
	chain in { type filter hook input priority 0
		ct state new tcp dport 80 add @held { ip saddr ct count over 20 } drop
		ct state new tcp dport 80 add @held6 { ip6 saddr ct count over 20 } drop
	}
}`

// fresh reloads the rules between columns, which resets what they count.
func fresh(rules string) func(*Machine) error {
	return func(m *Machine) error {
		m.Renew = func() error { return m.NFT(m.Server, "flush ruleset\n"+rules) }
		return m.serveWith(rules)
	}
}

// nft is a server with one rule set.
func nft(rules string) func(*Machine) error {
	return func(m *Machine) error { return m.serveWith(rules) }
}

// tables is a server with the same iptables rules for both families, in one of the two variants.
func tables(form, script string) func(*Machine) error {
	return func(m *Machine) error {
		return errors.Join(m.Sh(m.Server, "for t in iptables-%[1]s ip6tables-%[1]s; do\n%[2]s\ndone", form, script), m.Serve(m.Server, ""))
	}
}

// twice is a scenario for iptables on nftables and for the legacy tables.
func twice(s Scenario, script string) []Scenario {
	nf, legacy := s, s
	nf.Name, nf.Build, nf.Needs = s.Name+"-iptables-nft", tables("nft", script), []string{"iptables-nft=iptables"}
	legacy.Name, legacy.Build, legacy.Needs = s.Name+"-iptables-legacy", tables("legacy", script), []string{"iptables-legacy=iptables"}
	return []Scenario{nf, legacy}
}

func firewalls() []Scenario {
	all := []Scenario{
		{Name: "none", About: "a bare server", How: Adopted, Quick: true, Build: nft("")},
		{Name: "established", About: "policy drop, established accepted, the port open", How: Adopted, Build: nft(established)},
		{Name: "new-accepted", About: "policy drop, new connections to the port accepted", How: Adopted, Build: nft(newAccepted)},
		{Name: "invalid-dropped", About: "ct state invalid drop, tcp_loose at its default", How: Adopted, Build: nft(invalidDropped)},
		{Name: "notrack", About: "the service is not tracked", How: Adopted, Build: nft(untracked)},
		{Name: "new-not-syn", About: "new and not SYN: drop", How: Translated, Build: nft(newNotSYN)},
		{Name: "accept-syn", About: "policy drop, and only SYNs may begin a connection", How: Translated, Build: nft(acceptSYN)},
		{Name: "loose-0", About: "tcp_loose=0, and invalid is dropped", How: Translated, Build: func(m *Machine) error {
			// The sysctl appears with connection tracking, which rules load.
			return errors.Join(m.serveWith(invalidDropped), m.Server.SetSysctl("net.netfilter.nf_conntrack_tcp_loose", "0"))
		}},
		{Name: "synproxy", About: "an nftables SYNPROXY before the service", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.serveWith(synproxied), m.Server.SetSysctl("net.netfilter.nf_conntrack_tcp_loose", "0"))
		}},
		{Name: "deny", About: "clients on a list of denied addresses", How: Adopted, Served: Nobody, Build: nft(deniedPlainly)},
		{Name: "deny-raw", About: "the same in prerouting, before connection tracking", How: Adopted, Served: Nobody, Build: nft(deniedInRaw)},
		{Name: "deny-syn", About: "denied clients' SYNs are dropped", How: Translated, Served: Nobody, Build: nft(denied)},
		{Name: "deny-new", About: "no new connections to the port", How: Adopted, Served: Nobody, Build: nft(newDenied)},
		{Name: "limit", About: "at most ten SYNs pass", How: Translated, Served: 10, Build: fresh(tenSYNs)},
		{Name: "connlimit", About: "at most twenty connections from one address", How: Translated, Served: 20, Hold: true, Build: fresh(tenConnections)},
	}
	for _, pair := range [][]Scenario{
		twice(Scenario{Name: "established", About: "established accepted, the port open", How: Adopted},
			"$t -P INPUT DROP; $t -A INPUT -p ipv6-icmp -j ACCEPT; $t -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT; $t -A INPUT -p tcp --dport 80 -j ACCEPT"),
		twice(Scenario{Name: "new-not-syn", About: "new and not SYN: DROP", How: Translated},
			"$t -A INPUT -p tcp ! --syn -m conntrack --ctstate NEW -j DROP"),
		twice(Scenario{Name: "deny-syn", About: "a denied client's SYNs are dropped", How: Translated, Served: Nobody},
			"case $t in ip6*) c=fd7d:7467:4::2;; *) c=198.18.3.2;; esac; $t -A INPUT -s $c -p tcp --syn --dport 80 -j DROP"),
		twice(Scenario{Name: "connlimit", About: "at most twenty connections from one address", How: Translated, Served: 20, Hold: true},
			"$t -A INPUT -p tcp --syn --dport 80 -m connlimit --connlimit-above 20 -j REJECT --reject-with tcp-reset"),
		twice(Scenario{Name: "deny-raw", About: "denied in the raw table", How: Adopted, Served: Nobody},
			"case $t in ip6*) c=fd7d:7467:4::2;; *) c=198.18.3.2;; esac; $t -t raw -A PREROUTING -s $c -p tcp --dport 80 -j DROP"),
	} {
		all = append(all, pair...)
	}
	return all
}
