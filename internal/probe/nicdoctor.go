// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/dispatcher"
	"tidegate/internal/proginfo"
)

// device is the state of an interface for the doctor, in addition to nic.
type device struct {
	driver             string // as ethtool reports it; empty: unknown
	kind               string // of link: bridge, bond, vlan, veth, tun; "device" is hardware, or a driver of its own
	channels, most     int    // pairs of queues, in use and at most; 0: unknown
	cpus               int
	inPieces           bool // native XDP accepts frames larger than a page
	lro, groHW         bool
	virtio             string // its features, a digit for each bit; empty: not a virtio device
	legacyRx           bool   // Intel's private flag
	functions          int    // virtual functions
	layerThree         bool
	master, masterKind string
	masterDriver       string
	beneath            string // the device below a VLAN
	foreign            string // another program in its XDP hook
	beside             string // the components of a dispatcher that could be joined
	extends            error  // why this kernel lets no program join it
	farAway            bool   // of a veth: the far end is in another network namespace
}

// Feature bits of linux/netdev.h, and features by the kernel's names.
const (
	xdpFeatureRxSG = 1 << 5 // frames in several fragments
	lroFeature     = "rx-lro"
	groHWFeature   = "rx-gro-hw"
)

// examine reads a device's state. What cannot be determined stays empty.
func (d *device) examine(link *net.Interface) {
	d.cpus = runtime.NumCPU()
	if e, err := ethtool.NewEthtool(); err == nil {
		d.ask(e, link.Name)
		e.Close()
	}
	l, err := netlink.LinkByIndex(link.Index)
	if err != nil {
		return
	}
	a := l.Attrs()
	d.kind, d.layerThree = l.Type(), a.EncapType != "" && a.EncapType != "ether" && a.EncapType != "loopback"
	d.farAway = d.kind == "veth" && a.NetNsID >= 0
	if m, err := netlink.LinkByIndex(a.MasterIndex); a.MasterIndex != 0 && err == nil {
		d.master, d.masterKind = m.Attrs().Name, m.Type()
		if e, err := ethtool.NewEthtool(); err == nil {
			d.masterDriver, _ = e.DriverName(d.master)
			e.Close()
		}
	}
	if p, err := netlink.LinkByIndex(a.ParentIndex); d.kind == "vlan" && err == nil {
		d.beneath = p.Attrs().Name
	}
	if a.Xdp != nil && a.Xdp.Attached && a.Xdp.ProgId != 0 {
		d.foreign = foreignProgram(ebpf.ProgramID(a.Xdp.ProgId))
		d.meet(link.Index)
	}
}

// meet examines a dispatcher in the XDP hook.
func (d *device) meet(index int) {
	s, err := dispatcher.Place{Ifindex: index}.Look()
	if err != nil || s.ID == 0 {
		return
	}
	defer s.Close()
	var names []string
	for _, c := range s.Components {
		if !strings.HasPrefix(c.Name, ourPrograms) {
			names = append(names, fmt.Sprintf("%s (%d)", c.Name, c.Priority))
		}
	}
	d.foreign, d.beside = "", strings.Join(names, ", ")
	if d.beside != "" {
		d.extends = dispatcher.Possible()
	}
}

func (d *device) ask(e *ethtool.Ethtool, name string) {
	d.driver, _ = e.DriverName(name)
	if c, err := e.GetChannels(name); err == nil {
		d.channels, d.most = int(c.CombinedCount+c.RxCount), int(max(c.MaxCombined, c.MaxRx))
	}
	if f, err := e.FeaturesWithState(name); err == nil {
		d.lro, d.groHW = f[lroFeature].Active, f[groHWFeature].Active
	}
	if flags, err := e.PrivFlags(name); err == nil {
		d.legacyRx = flags["legacy-rx"]
	}
	if d.driver == "virtio_net" {
		d.virtio = sysfs(name, "features")
	}
	d.functions, _ = strconv.Atoi(sysfs(name, "sriov_numvfs"))
}

// sysfs reads a bus device's attributes.
func sysfs(name, file string) string {
	text, _ := os.ReadFile(filepath.Join("/sys/class/net", name, "device", file))
	return strings.TrimSpace(string(text))
}

const ourPrograms = "tg_" // the prefix of our programs' names

// foreignProgram names a program that is not ours.
func foreignProgram(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "" // gone, or not visible to us
	}
	defer p.Close()
	name, err := proginfo.Name(p)
	if err != nil || strings.HasPrefix(name, ourPrograms) {
		return ""
	}
	return fmt.Sprintf("%q, id %d", name, id)
}

// doctor reports an interface's problems, each with its fix. required: a configuration names it.
func doctor(n nic, mode config.XDPMode, use config.Dispatcher, required bool) (list []Check) {
	d, name := n.device, "interface "+n.name
	add := func(status Status, found, means, fix string) {
		list = append(list, Check{name, status, found, means, fix})
	}
	worst := func(bad Status) Status {
		if required {
			return bad
		}
		return Warn
	}
	switch {
	case d.layerThree:
		add(worst(Fail), fmt.Sprintf("carries no Ethernet header (%s)", d.kind), "no SYN is seen on it", "name the device that the tunnel's packets come in by, or protect at the tunnel's other end")
		return list
	case n.ends() && d.masterKind == "bridge", d.masterKind == "bond", d.masterKind == "team":
		add(worst(Fail), fmt.Sprintf("is a port of the %s %s", d.masterKind, d.master), "the address is that one's: connections that begin here are cut off",
			fmt.Sprintf("name %s in `interfaces`", d.master))
	case d.masterDriver == "hv_netvsc":
		add(worst(Warn), fmt.Sprintf("is the virtual function beneath %s (accelerated networking)", d.master), "packets that do not take it are not seen", fmt.Sprintf("name %s in `interfaces`: its driver gives the program to both", d.master))
	case d.kind == "vlan" && d.beneath != "":
		add(Warn, "is a VLAN of "+d.beneath, "generic XDP only; native XDP sees a VLAN's frames on the device beneath",
			fmt.Sprintf("name %s in `interfaces`, and run `ethtool -K %s rxvlan off`", d.beneath, d.beneath))
	case d.farAway && mode == config.XDPNative:
		add(Warn, "is a veth, its far end in another network namespace", "in native XDP answers vanish there unless that end runs an XDP program, too: GRO is not enough",
			"set `xdp_mode: auto`, which takes native XDP only if it does")
	case d.farAway && mode == config.XDPAuto && !n.looksFar() && n.nativeXDP:
		add(Warn, "is a veth, its far end in another network namespace", "a server runs native XDP there, for frames that an edge at that end redirects; without one its own answers vanish: SYN-ACKs where no edge answers, and challenge ACKs",
			"if no edge has that end, set `xdp_mode: generic`")
	}
	switch {
	case d.beside != "" && use == config.DispatcherNever:
		add(worst(Fail), "other XDP programs are attached: "+d.beside, "`tidegate run` refuses to start, for `dispatcher: never`", "set `dispatcher: auto`, which joins them, or end them by their own means")
	case d.beside != "" && d.extends != nil:
		add(worst(Fail), "other XDP programs are attached: "+d.beside, fmt.Sprintf("`tidegate run` cannot join them: %v", d.extends), "end them by their own means, or protect another interface")
	case d.beside != "":
		add(OK, "other XDP programs are attached: "+d.beside+"; `tidegate run` joins them", "", "")
	case d.foreign != "":
		add(worst(Fail), "another XDP program is attached: "+d.foreign, "`tidegate run` refuses to start, and leaves that program alone",
			fmt.Sprintf("find out whose it is with `bpftool link` and `ip -d link show dev %s`, and end that program by its own means", n.name))
	}
	if mode != config.XDPGeneric {
		list = append(list, byRecord(n, required && mode == config.XDPNative)...)
	}
	return list
}

// byRecord compares a device with the known facts about its driver.
func byRecord(n nic, must bool) (list []Check) {
	d := n.device
	facts := onRecord[d.driver]
	bad := Warn
	if must {
		bad = Fail
	}
	add := func(status Status, found, means, fix string) {
		list = append(list, Check{"interface " + n.name, status, found, means + " (drivers/net/…/" + facts.source + ")", fix})
	}
	const refused = "the driver refuses native XDP"
	if facts.mtuMax > 0 && n.mtu > facts.mtuMax && !d.inPieces {
		add(bad, fmt.Sprintf("MTU %d, %s takes up to %d", n.mtu, d.driver, facts.mtuMax), refused, fmt.Sprintf("run `ip link set %s mtu %d`", n.name, facts.mtuMax))
	}
	if off := d.merging(facts); off != "" {
		add(bad, "LRO or hardware GRO is on", refused, fmt.Sprintf("run `ethtool -K %s%s`", n.name, off))
	}
	if facts.guestOffloads {
		if found, fix := virtioRefusal(d.virtio); found != "" {
			add(bad, found, refused, fix)
		}
	}
	if facts.noVFs && d.functions > 0 {
		add(bad, fmt.Sprintf("has %d virtual functions", d.functions), refused, fmt.Sprintf("run `echo 0 >/sys/class/net/%s/device/sriov_numvfs`, which takes them from whoever uses them, or set `xdp_mode: generic`", n.name))
	}
	if facts.legacyRx && d.legacyRx {
		add(Warn, "the private flag legacy-rx is on", "there is no room before a frame: an answer that is longer than its SYN is dropped", fmt.Sprintf("run `ethtool --set-priv-flags %s legacy-rx off`", n.name))
	}
	if facts.halfChannels && d.most > 0 && d.channels*2 > d.most {
		add(bad, fmt.Sprintf("%d channels of at most %d", d.channels, d.most), refused+" with more than half of them", fmt.Sprintf("run `ethtool -L %s combined %d`", n.name, max(1, d.most/2)))
	}
	if facts.sharedTx && d.most > 0 && d.channels+d.cpus > d.most {
		add(Warn, fmt.Sprintf("%d channels of at most %d, %d CPUs", d.channels, d.most, d.cpus), "there is no transmit queue for each CPU: answers take turns",
			fmt.Sprintf("give the virtual machine's device %d queues", d.channels+d.cpus))
	}
	if facts.cpusMax > 0 && d.cpus > facts.cpusMax {
		add(bad, fmt.Sprintf("%d CPUs, %s takes up to %d", d.cpus, d.driver, facts.cpusMax), refused, "set `xdp_mode: generic`")
	}
	usable := d.most
	if facts.halfChannels {
		usable = d.most / 2
	}
	if d.channels > 0 && d.channels < min(usable, d.cpus) && !slices.ContainsFunc(list, func(c Check) bool { return strings.Contains(c.Found, "channels") }) {
		list = append(list, Check{"interface " + n.name, Warn, fmt.Sprintf("%d channels for %d CPUs", d.channels, d.cpus), "a flood is spread over that many CPUs only",
			fmt.Sprintf("run `ethtool -L %s combined %d`", n.name, min(usable, d.cpus))})
	}
	return list
}

// merging returns what `ethtool -K` must switch off for native XDP.
func (d device) merging(facts driverFacts) (off string) {
	if facts.noLRO && d.lro {
		off += " lro off"
	}
	if facts.noGroHW && d.groHW {
		off += " rx-gro-hw off"
	}
	return off
}

// overview is a short description of the device, driver and queues, to follow a comma.
func (d device) overview() string {
	var words []string
	if d.driver != "" {
		words = append(words, d.driver)
	}
	if d.channels > 0 {
		words = append(words, fmt.Sprintf("%d channels for %d CPUs", d.channels, d.cpus))
	}
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}
