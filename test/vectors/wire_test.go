// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	"tidegate/internal/vectors"
)

// wireGate is the gate on one end of a veth, with a real listener behind it;
// frames are put on the other end. Only here can a connection be adopted: the
// kernel refuses it to frames of BPF_PROG_TEST_RUN.
type wireGate struct {
	*kernelGate
	socket  int // AF_PACKET, on the far end
	ifindex int
}

const (
	gateName, wireName = "gate0", "wire0"
	gateMTU            = 9000 // the largest MSS of the table, and its headers
)

var gateMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1} // vectors/packets.py

func newWireGate(t *testing.T) *wireGate {
	t.Helper()
	g := &wireGate{kernelGate: newKernelGate(t)}
	la := netlink.NewLinkAttrs()
	la.Name, la.MTU, la.HardwareAddr = gateName, gateMTU, gateMAC
	steps := []func() error{
		func() error { return netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: wireName}) },
		func() error { return sysctl("ipv4/conf/all/rp_filter", "0") },
		func() error { return sysctl("ipv4/conf/"+gateName+"/rp_filter", "0") },
		func() error { return sysctl("ipv4/tcp_ecn", "1") },
		g.linksUp,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("veth, step %d: %v", i, err)
		}
	}
	dev, err := netlink.LinkByName(gateName)
	if err != nil {
		t.Fatal(err)
	}
	x, err := link.AttachXDP(link.XDPOptions{Program: g.xdp, Interface: dev.Attrs().Index, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatalf("attach XDP: %v", err)
	}
	t.Cleanup(func() { x.Close() })
	if err := attachTC(t, g, dev.Attrs().Index); err != nil {
		t.Fatalf("attach TC: %v", err)
	}
	g.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(g.socket) })
	return g
}

func attachTC(t *testing.T, g *wireGate, ifindex int) error {
	l, err := link.AttachTCX(link.TCXOptions{Program: g.tc, Attach: ebpf.AttachTCXIngress, Interface: ifindex})
	if err != nil {
		return err
	}
	t.Cleanup(func() { l.Close() })
	return nil
}

// linksUp brings the veth up and routes every client through it.
func (g *wireGate) linksUp() error {
	for _, name := range []string{wireName, gateName} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if name == wireName {
			g.ifindex = l.Attrs().Index
			if err := netlink.LinkSetMTU(l, gateMTU); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	gate, err := netlink.LinkByName(gateName)
	if err != nil {
		return err
	}
	if err := errors.Join(rig.AwaitUp(g.ifindex), rig.AwaitUp(gate.Attrs().Index)); err != nil {
		return err
	}
	for _, dst := range []string{"192.0.2.0/24", "2001:db8:1::/64"} {
		p := netip.MustParsePrefix(dst)
		r := &netlink.Route{LinkIndex: gate.Attrs().Index, Scope: netlink.SCOPE_LINK,
			Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if err := netlink.RouteAdd(r); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("route %s: %w", dst, err)
		}
	}
	return nil
}

func (g *wireGate) Prepare(v *vectors.Vector) error {
	if v.Socket != vectors.SocketListener {
		return fmt.Errorf("vectors that adopt have a plain listener")
	}
	return g.kernelGate.Prepare(v)
}

// Packet sends a frame and waits until the gate counts it; if it was adopted,
// also that the listener accepts exactly this peer's connection.
func (g *wireGate) Packet(in []byte) (vectors.Result, error) {
	before, err := g.Counters()
	if err != nil {
		return vectors.Result{}, err
	}
	if err := unix.Sendto(g.socket, in, 0, &unix.SockaddrLinklayer{Ifindex: g.ifindex}); err != nil {
		return vectors.Result{}, err
	}
	after, err := g.awaitCount(before)
	if err != nil {
		return vectors.Result{}, err
	}
	adopted := uint64(0)
	for id := range after {
		adopted += after[id]["adopted"] - before[id]["adopted"]
	}
	if adopted == 0 {
		return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
	}
	agreed, err := g.accept(in)
	return vectors.Result{Verdict: vectors.Adopt, Out: in, Agreed: agreed}, err
}

func (g *wireGate) awaitCount(before vectors.Counters) (vectors.Counters, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		after, err := g.Counters()
		if err != nil {
			return nil, err
		}
		if !maps.EqualFunc(before, after, maps.Equal[map[string]uint64, map[string]uint64]) {
			return after, nil
		}
	}
	return nil, fmt.Errorf("the gate counted nothing within %v", patience)
}

// accept accepts the connection and reads the kernel's view of it.
func (g *wireGate) accept(in []byte) (*vectors.Agreed, error) {
	i, src := clientOf(in)
	c, err := acceptWithin(g.ns.listeners[i])
	if err != nil {
		return nil, err
	}
	// Kept until the end: a vector may send the same ACK again.
	g.keep(c)
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	if netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()) != src {
		return nil, fmt.Errorf("accepted %v, want %v", peer, src)
	}
	return agreedOf(c.(*net.TCPConn))
}

func (g *wireGate) keep(c net.Conn) { g.ns.kept = append(g.ns.kept, c) }

// clientOf finds the source in an untagged frame. Its port may follow IP
// options or extension headers, and is found by the server's port after it.
func clientOf(in []byte) (listener int, src netip.AddrPort) {
	ip := in[ethernetHeaderLen:]
	addr, rest := netip.AddrFrom4([4]byte(ip[12:16])), ip[20:]
	if ip[0]>>4 == 6 {
		listener, addr, rest = 1, netip.AddrFrom16([16]byte(ip[8:24])), ip[ipv6HeaderLen:]
	}
	for ; len(rest) >= 20; rest = rest[4:] {
		if rest[2] == 0 && rest[3] == serverPort && rest[0] >= 0x80 {
			return listener, netip.AddrPortFrom(addr, uint16(rest[0])<<8|uint16(rest[1]))
		}
	}
	return listener, netip.AddrPortFrom(addr, 0)
}

// Options in struct tcp_info, include/uapi/linux/tcp.h.
const (
	tcpiTimestamps = 1
	tcpiSACK       = 2
	tcpiWScale     = 4
	tcpiECN        = 8
)

func agreedOf(c *net.TCPConn) (*vectors.Agreed, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var info *unix.TCPInfo
	ctlErr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
	})
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, err
	}
	a := &vectors.Agreed{MSS: uint16(info.Snd_mss), WScale: 15, SACK: info.Options&tcpiSACK != 0,
		Timestamps: info.Options&tcpiTimestamps != 0, ECN: info.Options&tcpiECN != 0}
	if a.Timestamps {
		a.MSS += 12 // they take their room from each segment (RFC 6691)
	}
	if info.Options&tcpiWScale != 0 {
		scales := tcpInfoScales(info)
		a.WScale, a.RcvWScale = scales&15, scales>>4
	}
	return a, nil
}

// tcpInfoScales reads the byte of bit fields after tcpi_options, which
// unix.TCPInfo has as padding: snd_wscale low, rcv_wscale high.
func tcpInfoScales(info *unix.TCPInfo) byte {
	return (*[8]byte)(unsafe.Pointer(info))[6]
}

// TestWireSeesItself proves that these helpers can fail.
func TestWireSeesItself(t *testing.T) {
	all := load(t, dir)
	i := slices.IndexFunc(all, func(v vectors.Vector) bool { return v.Adopts() })
	listener, src := clientOf(all[i].Packets[0].In)
	if !src.IsValid() || src.Port() < 0x8000 || (listener == 0) != src.Addr().Is4() {
		t.Errorf("client %v of %s", src, &all[i])
	}
}
