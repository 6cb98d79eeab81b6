// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Plane says where the packet path of a proxy or an edge runs.
type Plane string

const (
	PlaneXDP  Plane = "xdp"  // in the kernel
	PlaneDPDK Plane = "dpdk" // in a program of its own, tidegate-dpdk, with DPDK's drivers
	PlaneP4   Plane = "p4"   // in a switch
)

// DPDK is what only plane: dpdk has.
type DPDK struct {
	Cores       string   // DPDK's -l; the first also has the control thread, if there are several
	MemoryMiB   int      // for frame buffers
	HugePages   bool     // else ordinary memory
	Devices     []string // DPDK devices, one for each interface; empty: af_packet on the interfaces
	Routes      []DPDKRoute
	Addresses   []DPDKAddress
	WhiteBitmap bool // IPv4 sources in a bitmap of the whole address space
	IdleUs      int  // how long to sleep when nothing arrives; 0: poll without sleeping
}

// DPDKRoute is the next hop for a prefix, for a router whose devices are not the kernel's.
type DPDKRoute struct {
	Prefix    netip.Prefix
	Interface string
	MAC       net.HardwareAddr
}

// DPDKAddress is an IPv4 address of such a router itself; it answers ARP for it.
type DPDKAddress struct {
	Addr      netip.Addr
	Interface string
}

var coreList = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)

// dpdk reads the mapping `dpdk`.
func (r *reader) dpdk(c *Config, fs map[string]field) {
	d := &c.Proxy.DPDK
	f, there := fs["dpdk"]
	if !there || c.Plane != PlaneDPDK {
		r.dpdkSizes(d, nil)
		return
	}
	in, ok := r.mapping(f, namesOf("dpdk", ""))
	if !ok {
		return
	}
	r.dpdkSizes(d, in)
	if f, there := in["cores"]; there && !coreList.MatchString(d.Cores) {
		r.fail(f.line, f.path, `%q is not a list of cores; write it like "1" or "0,2-3"`, d.Cores)
	}
	r.dpdkDevices(c, d, in)
}

// dpdkSizes reads the fields of `dpdk` that hold one value; in may be nil.
func (r *reader) dpdkSizes(d *DPDK, in map[string]field) {
	r.take(in, "dpdk.cores", &d.Cores)
	r.take(in, "dpdk.memory_mib", &d.MemoryMiB)
	r.take(in, "dpdk.idle_us", &d.IdleUs)
	r.take(in, "dpdk.huge_pages", &d.HugePages)
	r.take(in, "dpdk.white_bitmap", &d.WhiteBitmap)
}

// dpdkDevices reads what is configured by interface.
func (r *reader) dpdkDevices(c *Config, d *DPDK, in map[string]field) {
	if f, there := in["devices"]; there {
		d.Devices = r.texts(f, "a DPDK device such as 0000:03:00.0")
		if len(d.Devices) != len(c.Interfaces) {
			r.fail(f.line, f.path, "%d devices for %d interfaces; name one for each, in their order", len(d.Devices), len(c.Interfaces))
		}
	}
	if f, there := in["routes"]; there {
		for _, s := range r.texts(f, `a route such as "192.0.2.0/24 via wan 02:00:00:00:00:01"`) {
			words := strings.Fields(s)
			var route DPDKRoute
			var err1, err2 error
			if len(words) == 4 && words[1] == "via" {
				route.Prefix, err1 = netip.ParsePrefix(words[0])
				route.Interface = words[2]
				route.MAC, err2 = net.ParseMAC(words[3])
			}
			if err1 != nil || err2 != nil || len(route.MAC) != 6 || !slices.Contains(c.Interfaces, route.Interface) {
				r.fail(f.line, f.path, `%q is not a route; write "PREFIX via INTERFACE MAC", with one of the interfaces above`, s)
				continue
			}
			d.Routes = append(d.Routes, route)
		}
	}
	if f, there := in["addresses"]; there {
		for _, s := range r.texts(f, `an address such as "192.0.2.1 on wan"`) {
			text, name, _ := strings.Cut(s, " on ")
			a, err := netip.ParseAddr(text)
			if err != nil || !a.Is4() || !slices.Contains(c.Interfaces, name) {
				r.fail(f.line, f.path, `%q is not an address; write "IPV4-ADDRESS on INTERFACE"`, s)
				continue
			}
			d.Addresses = append(d.Addresses, DPDKAddress{a, name})
		}
	}
}

// texts reads a list of scalars.
func (r *reader) texts(f field, want string) (list []string) {
	items, _ := r.sequence(f)
	for _, it := range items {
		if s, ok := r.text(it, want); ok {
			list = append(list, s)
		}
	}
	return list
}
