// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"strings"
	"testing"

	"tidegate/internal/config"
)

func TestDoctor(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      nic
		mode   config.XDPMode
		status Status // empty: nothing is wrong
		text   string
		use    config.Dispatcher
	}{
		{"well", nic{mtu: 1500, device: device{driver: "ena", channels: 2, most: 4, cpus: 2}}, config.XDPAuto, "", "", ""},
		{"unknown driver", nic{mtu: 9000, device: device{driver: "new", cpus: 2}}, config.XDPAuto, "", "", ""},
		{"ena, MTU", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPAuto, Warn, "ip link set eth0 mtu 3498", ""},
		{"ena, MTU, native", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPNative, Fail, "ENA_XDP_MAX_MTU", ""},
		{"ena, MTU, generic", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPGeneric, "", "", ""},
		{"ena, channels", nic{mtu: 1500, device: device{driver: "ena", channels: 8, most: 8, cpus: 8}}, config.XDPAuto, Warn, "ethtool -L eth0 combined 4", ""},
		{"virtio, MTU", nic{mtu: 9000, device: device{driver: "virtio_net"}}, config.XDPAuto, "", "", ""},
		{"virtio, offloads", nic{device: device{driver: "virtio_net", virtio: virtioBits(1, 7, 15, 32)}}, config.XDPAuto, Warn, "ctrl_guest_offloads=on", ""},
		{"virtio, checksums only", nic{device: device{driver: "virtio_net", virtio: virtioBits(1, 32)}}, config.XDPNative, Fail, "guest_csum=off", ""},
		{"virtio, offloads that can be off", nic{device: device{driver: "virtio_net", virtio: virtioBits(1, 2, 7, 8, 15, 32)}}, config.XDPAuto, "", "", ""},
		{"virtio, old", nic{device: device{driver: "virtio_net", virtio: virtioBits(2, 15)}}, config.XDPAuto, Warn, "virtio 1.0", ""},
		{"virtio, queues", nic{device: device{driver: "virtio_net", channels: 4, most: 4, cpus: 4}}, config.XDPAuto, Warn, "8 queues", ""},
		{"mlx5, LRO", nic{device: device{driver: "mlx5_core", lro: true}}, config.XDPAuto, Warn, "lro off", ""},
		{"netvsc, LRO", nic{device: device{driver: "hv_netvsc", lro: true}}, config.XDPAuto, Warn, "netvsc_xdp_set", ""},
		{"ixgbe, CPUs", nic{device: device{driver: "ixgbe", cpus: 192}}, config.XDPAuto, Warn, "192 CPUs", ""},
		{"i40e, MTU", nic{mtu: 9000, device: device{driver: "i40e"}}, config.XDPAuto, Warn, "mtu 3046", ""},
		{"ice, MTU", nic{mtu: 9000, device: device{driver: "ice"}}, config.XDPAuto, Warn, "mtu 3046", ""},
		{"i40e, MTU, in pieces", nic{mtu: 9000, device: device{driver: "i40e", inPieces: true}}, config.XDPAuto, "", "", ""},
		{"i40e, legacy", nic{mtu: 1500, device: device{driver: "i40e", legacyRx: true}}, config.XDPAuto, Warn, "legacy-rx off", ""},
		{"netvsc, hardware GRO", nic{device: device{driver: "hv_netvsc", groHW: true}}, config.XDPAuto, "", "", ""},
		{"ixgbe, MTU", nic{mtu: 3051, device: device{driver: "ixgbe"}}, config.XDPAuto, Warn, "mtu 3050", ""},
		{"ixgbe, functions", nic{mtu: 1500, device: device{driver: "ixgbe", functions: 4}}, config.XDPNative, Fail, "sriov_numvfs", ""},
		{"function of netvsc", nic{device: device{driver: "mlx5_core", master: "eth7", masterKind: "device", masterDriver: "hv_netvsc"}}, config.XDPAuto, Warn, "name eth7 in", ""},
		{"few channels", nic{mtu: 1500, device: device{driver: "ice", channels: 1, most: 8, cpus: 4}}, config.XDPAuto, Warn, "combined 4", ""},
		{"port of a bridge", nic{device: device{master: "br0", masterKind: "bridge"}}, config.XDPAuto, Fail, "name br0 in", ""},
		{"port of a bond", nic{device: device{master: "bond0", masterKind: "bond"}}, config.XDPAuto, Fail, "name bond0 in", ""},
		{"VLAN", nic{device: device{kind: "vlan", beneath: "eth1"}}, config.XDPAuto, Warn, "name eth1 in", ""},
		{"tun", nic{device: device{kind: "tuntap", layerThree: true}}, config.XDPAuto, Fail, "no SYN is seen", ""},
		{"veth, native", nic{device: device{kind: "veth", farAway: true}, nativeXDP: true}, config.XDPNative, Warn, "xdp_mode: auto", ""},
		{"veth", nic{device: device{kind: "veth", farAway: true}}, config.XDPAuto, "", "", ""},
		{"veth of a server", nic{device: device{kind: "veth", farAway: true}, nativeXDP: true, role: config.RoleServer}, config.XDPAuto, Warn, "xdp_mode: generic", ""},
		{"veth of a server, generic", nic{device: device{kind: "veth", farAway: true}, nativeXDP: true, role: config.RoleServer}, config.XDPGeneric, "", "", ""},
		{"veth, generic", nic{device: device{kind: "veth", farAway: true}}, config.XDPGeneric, "", "", ""},
		{"another program", nic{device: device{foreign: "\"xdp_filter\", id 7"}}, config.XDPAuto, Fail, "xdp_filter", ""},
		{"a dispatcher", nic{device: device{beside: "xdpfilt_alw_all (10)"}}, config.XDPAuto, OK, "joins them", config.DispatcherAuto},
		{"a dispatcher, never", nic{device: device{beside: "xdpfilt_alw_all (10)"}}, config.XDPAuto, Fail, "dispatcher: auto", config.DispatcherNever},
		{"a dispatcher, and a kernel without", nic{device: device{beside: "xdpfilt_alw_all (10)", extends: errors.New("EPERM")}}, config.XDPAuto, Fail, "cannot join", config.DispatcherAuto},
	} {
		c.n.name = "eth0"
		if c.n.role == "" {
			c.n.role = config.RoleHost
		}
		list := doctor(c.n, c.mode, c.use, true)
		if (len(list) == 0) != (c.status == "") || len(list) > 1 {
			t.Errorf("%s: %+v", c.name, list)
			continue
		}
		for _, row := range list {
			want(t, row, c.status, c.text)
		}
		for _, row := range doctor(c.n, config.XDPAuto, c.use, false) {
			if row.Status == Fail {
				t.Errorf("%s: nobody asked for this interface, and yet: %+v", c.name, row)
			}
		}
	}
	for driver, f := range onRecord {
		if f.source == "" || f.mtuMax != 0 && f.mtuMax < 1500 {
			t.Errorf("%s: %+v", driver, f)
		}
	}
}

// virtioBits are a virtio device's features as sysfs writes them.
func virtioBits(set ...int) string {
	text := []byte(strings.Repeat("0", 64))
	for _, bit := range set {
		text[bit] = '1'
	}
	return string(text)
}

// With LRO on, mlx5 does not report XDP: the advice is not to use another NIC.
func TestHiddenXDP(t *testing.T) {
	n := nic{name: "eth0", up: true, xdpKnown: true, mtu: 1500, device: device{driver: "mlx5_core", lro: true}}
	want(t, judgeNIC(n, config.XDPNative), OK, "")
	list := doctor(n, config.XDPNative, config.DispatcherAuto, true)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	want(t, list[0], Fail, "ethtool -K eth0 lro off")
}
