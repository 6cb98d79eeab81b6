// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

func listenersOf() []Scenario {
	return []Scenario{
		{Name: "mptcp", About: "a Go server, which listens with MPTCP", How: Translated, Quick: true,
			Build: func(m *Machine) error { return m.ServePort(m.Server, "", m.Port, true) }},
		{Name: "beside-mptcp", About: "a plain server in one service with a Go server", How: Adopted, Build: func(m *Machine) error {
			return errors.Join(m.second(false), m.ServePort(m.Server, "198.18.3.10", m.Port, true), m.ServePort(m.Server, "fd7d:7467:4::10", m.Port, true),
				m.Serve(m.Server, "198.18.3.1"), m.Serve(m.Server, "fd7d:7467:4::1"))
		}},
		{Name: "beside-plain", About: "the same: clients of the Go server", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.second(true), m.ServePort(m.Server, "198.18.3.10", m.Port, true), m.ServePort(m.Server, "fd7d:7467:4::10", m.Port, true),
				m.Serve(m.Server, "198.18.3.1"), m.Serve(m.Server, "fd7d:7467:4::1"))
		}},
		{Name: "syncookies-0", About: "net.ipv4.tcp_syncookies=0: the kernel adopts no connection", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.Server.SetSysctl("net.ipv4.tcp_syncookies", "0"), m.Serve(m.Server, ""))
		}},
		{Name: "sk-lookup", About: "a BPF program (sk_lookup) gives the port's connections to a listener at another port", How: Adopted, Build: chosen},
		{Name: "sk-lookup-adopt", About: "the same with `takeover: adopt`", How: Adopted, Build: func(m *Machine) error {
			m.Takeover = "adopt"
			return chosen(m)
		}},
		{Name: "sk-lookup-beside", About: "the same, past a listener at the port that serves nobody", How: Adopted, Build: func(m *Machine) error {
			return errors.Join(m.listenDeaf(), chosen(m))
		}},
		{Name: "sk-lookup-nat", About: "the same, behind an empty nat chain", How: Translated, Build: func(m *Machine) error {
			return errors.Join(m.NFT(m.Server, emptyNAT), chosen(m))
		}},
		{Name: "one-address", About: "a listener at one of two addresses", How: Adopted, Build: func(m *Machine) error {
			return errors.Join(m.second(true), m.Serve(m.Server, "198.18.3.10"), m.Serve(m.Server, "fd7d:7467:4::10"))
		}},
	}
}
