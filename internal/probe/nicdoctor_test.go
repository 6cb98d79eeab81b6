// SPDX-License-Identifier: Apache-2.0

package probe

import (
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
	}{
		{"well", nic{mtu: 1500, device: device{driver: "ena", channels: 2, most: 4, cpus: 2}}, config.XDPAuto, "", ""},
		{"unknown driver", nic{mtu: 9000, device: device{driver: "new", cpus: 2}}, config.XDPAuto, "", ""},
		{"ena, MTU", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPAuto, Warn, "ip link set eth0 mtu 3498"},
		{"ena, MTU, native", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPNative, Fail, "ENA_XDP_MAX_MTU"},
		{"ena, MTU, generic", nic{mtu: 9001, device: device{driver: "ena"}}, config.XDPGeneric, "", ""},
		{"ena, channels", nic{mtu: 1500, device: device{driver: "ena", channels: 8, most: 8, cpus: 8}}, config.XDPAuto, Warn, "ethtool -L eth0 combined 4"},
		{"virtio, MTU, one page", nic{mtu: 9000, device: device{driver: "virtio_net"}}, config.XDPAuto, Warn, "mtu 3506"},
		{"virtio, MTU, in pieces", nic{mtu: 9000, device: device{driver: "virtio_net", inPieces: true}}, config.XDPAuto, "", ""},
		{"virtio, GRO_HW", nic{device: device{driver: "virtio_net", groHW: true, groHWFixed: true}}, config.XDPAuto, Warn, "ctrl_guest_offloads=on"},
		{"virtio, GRO_HW that can be off", nic{device: device{driver: "virtio_net", groHW: true}}, config.XDPAuto, "", ""},
		{"virtio, queues", nic{device: device{driver: "virtio_net", channels: 4, most: 4, cpus: 4}}, config.XDPAuto, Warn, "8 queues"},
		{"mlx5, LRO", nic{device: device{driver: "mlx5_core", lro: true}}, config.XDPAuto, Warn, "lro off"},
		{"netvsc, LRO", nic{device: device{driver: "hv_netvsc", lro: true}}, config.XDPAuto, Warn, "netvsc_xdp_set"},
		{"ixgbe, CPUs", nic{device: device{driver: "ixgbe", cpus: 192}}, config.XDPAuto, Warn, "192 CPUs"},
		{"i40e, MTU", nic{mtu: 9000, device: device{driver: "i40e"}}, config.XDPAuto, Warn, "mtu 3050"},
		{"ice, MTU", nic{mtu: 9000, device: device{driver: "ice"}}, config.XDPAuto, Warn, "mtu 3046"},
		{"few channels", nic{mtu: 1500, device: device{driver: "ice", channels: 1, most: 8, cpus: 4}}, config.XDPAuto, Warn, "combined 4"},
		{"port of a bridge", nic{device: device{master: "br0", masterKind: "bridge"}}, config.XDPAuto, Fail, "name br0 in"},
		{"port of a bond", nic{device: device{master: "bond0", masterKind: "bond"}}, config.XDPAuto, Fail, "name bond0 in"},
		{"VLAN", nic{device: device{kind: "vlan", beneath: "eth1"}}, config.XDPAuto, Warn, "name eth1 in"},
		{"tun", nic{device: device{kind: "tuntap", layerThree: true}}, config.XDPAuto, Fail, "no SYN is seen"},
		{"veth, native", nic{device: device{kind: "veth", farAway: true}, nativeXDP: true}, config.XDPNative, Warn, "xdp_mode: auto"},
		{"veth", nic{device: device{kind: "veth", farAway: true}}, config.XDPAuto, "", ""},
		{"veth, generic", nic{device: device{kind: "veth", farAway: true}}, config.XDPGeneric, "", ""},
		{"another program", nic{device: device{foreign: "\"xdp_filter\", id 7"}}, config.XDPAuto, Fail, "xdp_filter"},
	} {
		c.n.name = "eth0"
		list := doctor(c.n, c.mode, true, true)
		if (len(list) == 0) != (c.status == "") || len(list) > 1 {
			t.Errorf("%s: %+v", c.name, list)
			continue
		}
		for _, row := range list {
			want(t, row, c.status, c.text)
		}
		for _, row := range doctor(c.n, config.XDPAuto, false, true) {
			if row.Status == Fail {
				t.Errorf("%s: nobody asked for this interface, and yet: %+v", c.name, row)
			}
		}
	}
	for driver, f := range onRecord {
		if f.source == "" || f.mtuMax < 1500 {
			t.Errorf("%s: %+v", driver, f)
		}
	}
}
