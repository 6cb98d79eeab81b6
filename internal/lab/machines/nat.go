// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"fmt"

	"tidegate/internal/lab/rig"
)

// Address translation: chains that translate nothing, and ports that are redirected.

const emptyNAT = `table inet n {
	chain nat { type nat hook postrouting priority srcnat; }
	chain in { type filter hook input priority 0; ct state established accept; }
}`

const inside4, inside6 = "198.18.200.2", "fd7d:7467:200::2"

// published sends the port to the container, as container engines do.
const published = `table inet n {
	chain pre { type nat hook prerouting priority dstnat
		meta nfproto ipv4 fib daddr type local tcp dport 80 dnat ip to 198.18.200.2:80
		meta nfproto ipv6 fib daddr type local tcp dport 80 dnat ip6 to [fd7d:7467:200::2]:80
	}
	chain post { type nat hook postrouting priority srcnat
		ip saddr 198.18.200.0/24 oifname != "tg-bridge" masquerade
		ip6 saddr fd7d:7467:200::/64 oifname != "tg-bridge" masquerade
	}
}`

// oneOfTwo redirects the port on one of the server's two addresses.
const oneOfTwo = `table inet n { chain pre { type nat hook prerouting priority dstnat
	ip daddr 198.18.3.10 tcp dport 80 dnat ip to 198.18.200.2:80
	ip6 daddr fd7d:7467:4::10 tcp dport 80 dnat ip6 to [fd7d:7467:200::2]:80
}; }`

// container is a namespace behind a bridge of the server; it is reachable, and does not serve yet.
func (m *Machine) container() (*rig.Namespace, error) {
	inside, err := m.Namespace("container")
	if err != nil {
		return nil, err
	}
	// A router's neighbour solicitations come from a link-local address.
	return inside, errors.Join(m.Sh(m.Server, `
		ip link add tg-bridge type bridge
		ip link set tg-bridge up
		ip address add 198.18.200.1/24 dev tg-bridge
		ip link add tg-veth type veth peer name eth0 netns %s
		ip link set tg-veth master tg-bridge up
		for p in fd7d:7467:200:: fe80::200:; do ip address add ${p}1/64 dev tg-bridge nodad; done
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`, inside.Name),
		m.Sh(inside, `
		ip link set lo up
		ip link set eth0 up
		ip address add 198.18.200.2/24 dev eth0
		for p in fd7d:7467:200:: fe80::200:; do ip address add ${p}2/64 dev eth0 nodad; done
		ip route add default via 198.18.200.1
		ip -6 route add default via fd7d:7467:200::1`))
}

// behindDNAT is a container that serves behind DNAT rules.
func behindDNAT(rules string, more func(*Machine) error) func(*Machine) error {
	return func(m *Machine) error {
		inside, err := m.container()
		if err != nil {
			return err
		}
		err = errors.Join(m.Serve(inside, ""), m.NFT(m.Server, rules))
		if err == nil && more != nil {
			err = more(m)
		}
		return errors.Join(err, m.settled())
	}
}

// settled waits until the machine serves without tidegate: bridges and neighbour tables take time.
func (m *Machine) settled() error {
	var errs []error
	for _, ipv6 := range m.families() {
		errs = append(errs, m.listening(m.Client, m.Target(ipv6)))
	}
	return errors.Join(errs...)
}

func (m *Machine) families() []bool {
	if rig.HaveIPv6() {
		return []bool{false, true}
	}
	return []bool{false}
}

// second gives the server a second address of each family; with requests, clients connect to it.
func (m *Machine) second(requests bool) error {
	err := m.Sh(m.Server, "ip address add 198.18.3.10/32 dev tg-server; ip address add fd7d:7467:4::10/128 dev tg-server nodad")
	err = errors.Join(err, m.Sh(m.Client, `
		ip neigh replace 198.18.3.10 lladdr %[1]s dev tg-client nud permanent
		ip neigh replace fd7d:7467:4::10 lladdr %[1]s dev tg-client nud permanent`, m.ServerPort.MAC))
	if requests {
		m.To[false], m.To[true] = addr("198.18.3.10"), addr("fd7d:7467:4::10")
	}
	return err
}

func redirect(to uint16) string {
	return fmt.Sprintf("table inet n { chain pre { type nat hook prerouting priority dstnat; tcp dport 80 redirect to :%d; }; }", to)
}

func translations() []Scenario {
	all := []Scenario{
		{Name: "empty", About: "connection tracking and an empty nat chain", How: Translated, Build: nft(emptyNAT)},
		{Name: "dnat", About: "the port leads into a container, and nothing listens here", How: Translated, Quick: true, Build: behindDNAT(published, nil)},
		{Name: "dnat-listener", About: "the same with a listener here, as docker-proxy's and podman's", How: Translated,
			Build: behindDNAT(published, func(m *Machine) error { return m.Serve(m.Server, "") })},
		{Name: "dnat-one-address", About: "one of two addresses leads into a container: clients of that one", How: Translated,
			Build: behindDNAT(oneOfTwo, func(m *Machine) error { return errors.Join(m.second(true), m.Serve(m.Server, "")) })},
		{Name: "dnat-other-address", About: "the same: clients of the other address", How: Translated,
			Build: behindDNAT(oneOfTwo, func(m *Machine) error { return errors.Join(m.second(false), m.Serve(m.Server, "")) })},
		{Name: "redirect", About: "the port is redirected to a port with a listener", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.NFT(m.Server, redirect(8443)), m.ServePort(m.Server, "", 8443, false))
		}},
		{Name: "redirect-listener", About: "the same with a listener on both ports", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.serveWith(redirect(8443)), m.ServePort(m.Server, "", 8443, false))
		}},
		{Name: "redirect-alone", About: "the port is redirected to a port without a service: no client is served, with or without tidegate", How: Left, Served: Nobody,
			Build: func(m *Machine) error { return m.NFT(m.Server, redirect(8444)) }},
		{Name: "elsewhere", About: "DNAT of another port: the service is not translated", How: Translated,
			Build: nft(`table inet n { chain pre { type nat hook prerouting priority dstnat; tcp dport 8080 redirect to :8081; }; }`)},
		{Name: "untracked", About: "a nat chain, and the service is not tracked", How: Adopted, Build: nft(emptyNAT + "\n" + untracked)},
	}
	return append(all, twice(Scenario{Name: "masquerade", About: "the machine masquerades a network of its own", How: Translated},
		"case $t in ip6*) n=fd7d:7467:200::/64;; *) n=198.18.200.0/24;; esac; $t -t nat -A POSTROUTING -s $n -j MASQUERADE; $t -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT")...)
}
