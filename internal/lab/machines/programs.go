// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Real container engines and firewalls: Debian's programs run, write their rules,
// and start real containers.

const dockerd = `
	export DOCKER_HOST=unix:///run/docker.sock
	dockerd --ip6tables --experimental --ipv6 --fixed-cidr-v6 fd7d:7467:172::/64 --exec-root /run/docker --cgroup-parent /%[1]s >/run/dockerd.log 2>&1 &
	await docker version`

const dockerRun = `
	tar c -C %[2]s . | docker import - tgbox >/dev/null
	docker run -d -p 80:80 %[3]s --name web tgbox /bin/busybox httpd -f -p 80 -h /www`

// dockerWith runs a Docker container with its port published.
func dockerWith(flags string) func(*Machine) error {
	return func(m *Machine) error {
		root, err := m.image()
		if err != nil {
			return err
		}
		b, err := m.openSandbox()
		if err != nil {
			return err
		}
		if err := b.sh(dockerd+dockerRun, m.Instance, root, flags); err != nil {
			return err
		}
		return m.settled()
	}
}

// podmanWith runs a podman container.
func podmanWith(networks, flags string, more ...func(*Machine, *sandbox) error) func(*Machine) error {
	return func(m *Machine) error {
		root, err := m.image()
		if err != nil {
			return err
		}
		b, err := m.openSandbox()
		if err != nil {
			return err
		}
		if err := b.sh(`%s
			podman run -d --cgroups=disabled %s --name web --rootfs %s /bin/busybox httpd -f -p 80 -h /www`, networks, flags, root); err != nil {
			return err
		}
		for _, f := range more {
			if err := f(m, b); err != nil {
				return err
			}
		}
		return m.settled()
	}
}

const bothFamilies = `
	sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.addr_gen_mode=0 # a router asks by a link-local address
	podman network create --ipv6 --subnet 10.77.0.0/24 --subnet fd7d:7467:77::/64 six`

const macvlan = "podman network create -d macvlan -o parent=tg-server --subnet 198.18.3.0/24 --gateway 198.18.3.2 mac"

// ofMacvlan are the clients of a container that has an address of its own; the server serves beside it.
func ofMacvlan(m *Machine, _ *sandbox) error {
	m.To[false] = addr("198.18.3.12")
	return m.Serve(m.Server, "")
}

const containerMAC = "02:54:47:00:00:0c"

// fromOutside lets tidegate enter the network namespace of the only container.
func fromOutside(m *Machine, b *sandbox) error {
	spaces, err := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/netns/*", b.pid))
	if err != nil || len(spaces) != 1 {
		return fmt.Errorf("network namespaces of podman: %v, want one: %w", spaces, err)
	}
	m.Netns, m.Interfaces = spaces[0], []string{"eth0"}
	m.FloodMAC, err = net.ParseMAC(containerMAC)
	return err
}

func programs() []Scenario {
	docker := []string{"dockerd=docker.io", "busybox=busybox-static"}
	podman := []string{"podman", "busybox=busybox-static"}
	return []Scenario{
		{Name: "docker-idle", About: "Docker is installed and idle; the service is the host's", How: Translated, Needs: docker, Build: func(m *Machine) error {
			b, err := m.openSandbox()
			if err != nil {
				return err
			}
			return errors.Join(b.sh(dockerd, m.Instance), m.Serve(m.Server, ""))
		}},
		{Name: "docker-published", About: "a Docker container with a published port; docker-proxy listens", How: Translated, Needs: docker, Build: dockerWith("")},
		{Name: "docker-host-network", About: "a Docker container in the host's network", How: Translated, Needs: docker, Build: dockerWith("--network host")},
		{Name: "podman-published", About: "a podman container with a published port (netavark)", How: Translated, Needs: podman,
			Build: podmanWith(bothFamilies, "--network six -p 80:80")},
		{Name: "podman-host-network", About: "a podman container in the host's network", How: Adopted, Needs: podman, Build: podmanWith("", "--network host")},
		{Name: "podman-macvlan", About: "a podman container on macvlan: its clients", How: Left, Needs: podman, Only4: "podman network create -d macvlan with static addresses of IPv4",
			Build: podmanWith(macvlan, "--network mac --ip 198.18.3.12", ofMacvlan)},
		{Name: "podman-macvlan-inside", About: "the same; tidegate runs in the container's network namespace, from outside (--netns)", How: Adopted, Needs: podman,
			Only4: "as before", Build: podmanWith(macvlan, "--network mac --ip 198.18.3.12 --mac-address "+containerMAC, ofMacvlan, fromOutside)},
		{Name: "firewalld", About: "firewalld at its defaults, with the service http", How: Translated, Needs: []string{"firewalld", "dbus-daemon=dbus"}, Build: inSandbox(`
			dbus-daemon --system --fork --nopidfile
			firewalld --nofork --nopid >/run/firewalld.log 2>&1 &
			await firewall-cmd --state
			firewall-cmd --add-service=http`)},
		{Name: "libvirt", About: "libvirt's default network", How: Translated, Needs: []string{"libvirtd=libvirt-daemon-system", "virsh=libvirt-clients", "dbus-daemon=dbus"},
			Only4: "", Build: inSandbox(`
			dbus-daemon --system --fork --nopidfile
			libvirtd --daemon
			await virsh -c qemu:///system net-list
			virsh -c qemu:///system net-start default || virsh -c qemu:///system net-info default`)},
		{Name: "ufw", About: "ufw, the port allowed", How: Adopted, Needs: []string{"ufw"}, Build: inSandbox(`
			ufw allow 80/tcp
			ufw --force enable`)},
		{Name: "ufw-limit", About: "ufw limits connections to six in thirty seconds", How: Translated, Served: 5, Needs: []string{"ufw"}, Build: func(m *Machine) error {
			err := inSandbox(`
			ufw limit 80/tcp
			ufw --force enable`)(m)
			m.Renew = func() error { // the lists of xt_recent
				return m.Sh(m.Server, "for f in /proc/self/net/xt_recent/*; do echo / >$f; done")
			}
			return err
		}},
		{Name: "ufw-deny", About: "ufw denies the clients", How: Adopted, Served: Nobody, Needs: []string{"ufw"}, Build: inSandbox(`
			ufw deny from 198.18.3.2
			ufw deny from fd7d:7467:4::2
			ufw allow 80/tcp
			ufw --force enable`)},
		{Name: "fail2ban", About: "fail2ban with nftables has banned the clients", How: Adopted, Served: Nobody, Needs: []string{"fail2ban-server=fail2ban"}, Build: inSandbox(`
			touch /run/log
			printf '[DEFAULT]\nbackend = polling\nbanaction = nftables-multiport\n[sshd]\nenabled = false\n[web]\nenabled = true\nfilter = sshd\nport = http\nlogpath = /run/log\n' >/etc/fail2ban/jail.local
			rm -f /etc/fail2ban/jail.d/*
			fail2ban-client start
			await fail2ban-client status web
			fail2ban-client set web banip 198.18.3.2 fd7d:7467:4::2
			await sh -c 'nft list ruleset | grep fd7d:7467:4::2'`)},
		{Name: "fail2ban-others", About: "fail2ban has banned other addresses", How: Adopted, Needs: []string{"fail2ban-server=fail2ban"}, Build: inSandbox(`
			touch /run/log
			printf '[DEFAULT]\nbackend = polling\nbanaction = nftables-multiport\n[sshd]\nenabled = false\n[web]\nenabled = true\nfilter = sshd\nport = http\nlogpath = /run/log\n' >/etc/fail2ban/jail.local
			rm -f /etc/fail2ban/jail.d/*
			fail2ban-client start
			await fail2ban-client status web
			fail2ban-client set web banip 192.0.2.1 2001:db8::1
			await sh -c 'nft list ruleset | grep 2001:db8::1'`)},
	}
}
