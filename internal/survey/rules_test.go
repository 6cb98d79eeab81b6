// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"strings"
	"testing"
)

// ofIPTables are rules of the table filter, unless they name one.
func ofIPTables(rules string) string {
	if !strings.HasPrefix(rules, "*") {
		rules = "*filter\n" + rules
	}
	return rules + "\nCOMMIT\n"
}

// input is a chain at the hook input.
func input(rules string) string {
	return "table inet f { chain i { type filter hook input priority 0;\n" + rules + "\n}; }\n"
}

// One rule each that stands in the way, or does not; for 192.0.2.1:80.
func TestRules(t *testing.T) {
	for _, c := range []struct{ name, nft, iptables, want string }{
		{"new and not SYN", input("tcp flags & (fin|syn|rst|ack) != syn ct state new drop"),
			"-A INPUT -p tcp ! --syn -m conntrack --ctstate NEW -j DROP", "new-not-syn"},
		{"new and not SYN, by state", "", "-A INPUT -p tcp ! --syn -m state --state NEW -j REJECT", "new-not-syn"},
		{"accept SYNs", input("ct state established accept\ntcp dport 80 tcp flags & (syn|ack) == syn accept\ndrop"),
			"-P INPUT DROP\n-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A INPUT -p tcp --dport 80 --syn -j ACCEPT", "accept-syn"},
		{"accept SYNs of another port", input("tcp dport 81 tcp flags & (syn|ack) == syn accept\n"), "-A INPUT -p tcp --dport 81 --syn -j ACCEPT", ""},
		{"deny by SYN", input("ip saddr 198.51.100.0/24 tcp flags syn drop"), "-A INPUT -s 198.51.100.0/24 -p tcp --syn -j DROP", "syn-rule"},
		{"deny in table raw", "table ip r { chain p { type filter hook prerouting priority raw; tcp flags syn / syn,ack ip saddr 198.51.100.0/24 drop; }; }",
			"*raw\n-A PREROUTING -s 198.51.100.0/24 -p tcp --syn -j DROP", "syn-rule"},
		{"deny by address", input("ip saddr 198.51.100.0/24 drop"), "-A INPUT -s 198.51.100.0/24 -j DROP", ""},
		{"deny new by address", input("ct state new ip saddr 198.51.100.0/24 drop"), "-A INPUT -s 198.51.100.0/24 -m conntrack --ctstate NEW -j DROP", ""},
		{"broken flags", input("tcp flags & (fin|syn|rst|psh|ack|urg) == 0x0 drop\ntcp flags & (fin|syn) == fin|syn drop"),
			"-A INPUT -p tcp --tcp-flags ALL NONE -j DROP\n-A INPUT -p tcp --tcp-flags SYN,FIN SYN,FIN -j DROP\n-A INPUT -p tcp --tcp-flags ALL ALL -j DROP", ""},
		{"connlimit", input("tcp dport 80 ct count over 20 reject"), "-A INPUT -p tcp --dport 80 -m connlimit --connlimit-above 20 -j REJECT", "limit"},
		{"hashlimit", "table inet f { set m { type ipv4_addr; flags dynamic; size 100; }; chain i { type filter hook input priority 0;\ntcp dport 80 ct state new add @m { ip saddr limit rate over 10/second } drop\n}; }",
			"-A INPUT -p tcp --dport 80 --syn -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name x -j DROP", "limit"},
		{"limit", input("tcp dport 80 ct state new limit rate 10/second accept"), "-A INPUT -p tcp --dport 80 -m limit --limit 10/s -j ACCEPT", "limit"},
		{"limit of a log", input("limit rate 10/second log prefix \"x\""), "-A INPUT -m limit --limit 10/s -j LOG", ""},
		{"limit of another port", input("tcp dport { 22, 81-90 } limit rate 10/second accept"), "-A INPUT -p tcp -m multiport --dports 22,81:90 -m limit --limit 10/s -j ACCEPT", ""},
		{"limit of a range of ports", input("tcp dport { 22, 79-90 } limit rate 10/second accept"), "-A INPUT -p tcp -m multiport --dports 22,79:90 -m limit --limit 10/s -j ACCEPT", "limit"},
		{"SYN proxy", "table inet r { chain p { type filter hook prerouting priority raw; tcp dport 80 tcp flags syn notrack; }; }\n" +
			input("tcp dport 80 ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm"),
			"*raw\n-A PREROUTING -p tcp --dport 80 --syn -j CT --notrack\nCOMMIT\n*filter\n" +
				"-A INPUT -p tcp --dport 80 -m conntrack --ctstate INVALID,UNTRACKED -j SYNPROXY --sack-perm --timestamp --wscale 7 --mss 1460", "synproxy,syn-rule"},
		{"behind what accepts", input("tcp dport 80 accept\ntcp flags syn drop"), "-A INPUT -p tcp --dport 80 -j ACCEPT\n-A INPUT -p tcp --syn -j DROP", ""},
		{"in a chain", "table inet f { chain x { tcp flags & syn == syn limit rate 5/second return; drop; }\nchain i { type filter hook input priority 0; tcp dport 80 jump x; }; }",
			":X - [0:0]\n-A X -p tcp --syn -m limit --limit 5/s -j RETURN\n-A X -j DROP\n-A INPUT -p tcp --dport 80 -j X", "limit"},
		{"in a chain of others", "table inet f { chain x { tcp flags & syn == syn limit rate 5/second return; drop; }\nchain i { type filter hook input priority 0; tcp dport 81 jump x; ip daddr 192.0.2.2 jump x; ip protocol icmp jump x; }; }",
			":X - [0:0]\n-A X -p tcp --syn -m limit --limit 5/s -j RETURN\n-A X -j DROP\n-A INPUT -p tcp --dport 81 -j X\n-A INPUT -d 192.0.2.2 -j X\n-A INPUT -p icmp -j X", ""},
		{"verdicts by port", "table inet f { chain x { tcp flags syn drop; }\nchain i { type filter hook input priority 0; tcp dport vmap { 22 : accept, 80 : jump x }; }; }", "", "syn-rule"},
		{"verdicts by other ports", "table inet f { chain x { tcp flags syn drop; }\nchain i { type filter hook input priority 0; tcp dport vmap { 22 : accept, 81-90 : jump x }; }; }", "", ""},
		{"verdicts by state", input("ct state vmap { established : accept, related : accept, invalid : drop }\ntcp dport 80 accept"), "", ""},
		{"marks SYNs", input("tcp flags syn meta mark set 1"), "*mangle\n-A INPUT -p tcp --syn -j MARK --set-mark 1", "syn-rule"},
		{"clamps the MSS of answers", "table inet f { chain o { type filter hook postrouting priority mangle; tcp flags syn tcp option maxseg size set rt mtu; }; }",
			"*mangle\n-A POSTROUTING -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu", "syn-rule"},
		{"clamps what is forwarded", "table inet f { chain o { type filter hook forward priority mangle; tcp flags syn tcp option maxseg size set rt mtu; }; }",
			"*mangle\n-A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu", ""},
		{"by length", input("meta length < 60 drop"), "-A INPUT -m length --length 0:59 -j DROP", "syn-rule"},
		{"fingerprints", input("osf name \"Linux\" accept"), "", "syn-rule"},
		{"asks a program", "", "-A INPUT -p tcp --dport 80 -j NFQUEUE --queue-num 1", "queue"},
		{"another socket", "table ip f { chain p { type filter hook prerouting priority mangle; tcp dport 80 tproxy to 127.0.0.1:81; }; }",
			"*mangle\n-A PREROUTING -p tcp --dport 80 -j TPROXY --on-port 81", "tproxy"},
		{"at a device", "table netdev d { chain c { type filter hook ingress device lo priority 0; tcp flags syn tcp dport 80 drop; }; }", "", "syn-rule"},
		{"quota", input("tcp dport 80 quota over 10 mbytes drop"), "-A INPUT -p tcp --dport 80 -m quota --quota 1000 -j ACCEPT", "limit"},
	} {
		for load, rules := range map[string]string{"nft -f -": c.nft, "iptables-nft-restore": c.iptables, "iptables-legacy-restore": c.iptables} {
			if rules == "" {
				continue
			}
			t.Run(c.name+"/"+strings.Fields(load)[0], func(t *testing.T) {
				t.Parallel()
				if strings.HasPrefix(load, "iptables") {
					rules = ofIPTables(rules)
				}
				ns := newNamespace(t)
				run(t, ns, rules, strings.Fields(load)...)
				want := "# want 192.0.2.1:80 adopt"
				if c.want != "" {
					want = "# want 192.0.2.1:80 translate " + c.want
				}
				expect(t, read(t, ns), want)
			})
		}
	}
}

// Where connection tracking takes up no connection that it has not seen begin, every rule
// that looks at the state tells an adopted connection from another.
func TestLooseOff(t *testing.T) {
	for rules, want := range map[string]string{
		input("ct state invalid drop"):                      "translate tcp-loose-off",
		input("ct state established accept"):                "adopt",
		input("ct state new tcp dport 80 accept\ndrop"):     "translate tcp-loose-off",
		input("tcp dport 80 accept\nct state invalid drop"): "adopt",
	} {
		ns := newNamespace(t)
		run(t, ns, rules, "nft", "-f", "-")
		if err := ns.SetSysctl("net.netfilter.nf_conntrack_tcp_loose", "0"); err != nil {
			t.Fatal(err)
		}
		expect(t, read(t, ns), "# want 192.0.2.1:80 "+want)
	}
}
