// SPDX-License-Identifier: Apache-2.0

package rig

// The planes of a proxy in the lab.
const (
	PlaneXDP  = "xdp"
	PlaneDPDK = "dpdk" // tidegate-dpdk on the box's ports, by AF_PACKET
)

// ForUserspace prepares the box for a packet path outside the kernel: its kernel
// forwards nothing, and frames reach AF_PACKET as they were sent. Each of the box's ports
// gets an XDP program for that: without one, frames that another program
// has sent are lost (see EnableGRO), and senders leave segmentation to the device,
// which veth does not do.
func (p *ProxyTopology) ForUserspace() error {
	off := [][2]string{{"net.ipv4.ip_forward", "0"}}
	if HaveIPv6() {
		off = append(off, [2]string{"net.ipv6.conf.all.forwarding", "0"})
	}
	if err := p.Proxy.SetSysctls(off...); err != nil {
		return err
	}
	for i, port := range []*Port{p.FloodPort, p.LegitPort, p.InnerPort} {
		if port == nil || i == 1 && port == p.FloodPort { // flood and clients share a port
			continue
		}
		l, err := port.AttachXDP(p.Programs.TgLabPass)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, l.Close)
		if err := port.SetOffload("rx-gro", false); err != nil {
			return err
		}
	}
	return nil
}
