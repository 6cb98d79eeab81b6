// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// The client's namespace plays everything beyond the cable: a director or router at one MAC
// address and the gateway at another. Only answers sent to the right one count.

// gateway adds a second MAC address to the client's cable, with the gateway's addresses.
const gateway = `
	for i in all default tg-client; do sysctl -qw net.ipv4.conf.$i.arp_ignore=1; done
	ip link add link tg-client name tg-gate type macvlan mode bridge
	ip link set tg-gate up
	ip address add 198.18.3.254/32 dev tg-gate
	ip address add fd7d:7467:4::fe/128 dev tg-gate nodad`

// far is a client outside the server's link.
const far = `
	ip address add 198.51.100.2/32 dev lo
	ip address add fd7d:7467:5::2/128 dev lo nodad
	ip route replace 198.18.3.1/32 dev tg-client src 198.51.100.2
	ip -6 route replace fd7d:7467:4::1/128 dev tg-client src fd7d:7467:5::2`

const deaf = `table inet deaf { chain c { type filter hook prerouting priority raw; iifname "tg-client" tcp sport 80 drop; }; }`

func routed(server string) func(*Machine) error {
	return func(m *Machine) error {
		return errors.Join(m.Sh(m.Client, "%s", gateway+far), m.NFT(m.Client, deaf), m.Sh(m.Server, "%s", server), m.Serve(m.Server, ""), m.settled())
	}
}

func routers() []Scenario {
	return []Scenario{
		{Name: "lvs-dr", About: "SYNs come from a director, answers go to a gateway on the same link (LVS-DR)", How: Adopted, Quick: true, Build: routed(`
			ip route replace default via 198.18.3.254
			ip -6 route replace default via fd7d:7467:4::fe`)},
		{Name: "two-routers", About: "two routers on two interfaces: SYNs come by one, answers leave by the other: left to the kernel within an allowance, beyond it answered there", How: Adopted, KernelFirst: true, Quick: true, Build: func(m *Machine) error {
			return errors.Join(m.Sh(m.Server, `
				ip link add tg-second type veth peer name tg-other netns %s
				ip link set tg-second up
				ip address add 198.18.4.1/24 dev tg-second
				for p in fd7d:7467:6:: fe80::; do ip address add ${p}1/64 dev tg-second nodad; done
				sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.tg-server.rp_filter=0`, m.Client.Name),
				m.Sh(m.Client, `
				ip link set tg-other up
				ip address add 198.18.4.2/24 dev tg-other
				for p in fd7d:7467:6:: fe80::; do ip address add ${p}2/64 dev tg-other nodad; done
				sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.tg-other.rp_filter=0
				%s`, far), m.NFT(m.Client, deaf),
				m.Sh(m.Server, `ip route replace default via 198.18.4.2
				ip -6 route replace default via fd7d:7467:6::2`), m.Serve(m.Server, ""), m.settled())
		}},
		{Name: "policy", About: "policy routing: answers from the service's address take another table", How: Adopted, Build: routed(`
			ip route add default via 198.18.3.254 table 100
			ip rule add from 198.18.3.1 lookup 100
			ip -6 route add default via fd7d:7467:4::fe table 100
			ip -6 rule add from fd7d:7467:4::1 lookup 100`)},
	}
}
