// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	"tidegate/internal/vectors"
)

// planesWire is a bridge of two ports with a TC program on both: what the program sends, and on which
// port, is captured at the other ends. BPF_PROG_TEST_RUN cannot show that: a program that makes two
// packets from one sends the first itself.
type planesWire struct {
	gate, far [2]int // interfaces: the bridge's ports, and where their cables end; clients first
	fd        int
	turn      uint64
	buf       []byte
}

const (
	wireEthertype = 0x88b5 // for experiments (IEEE 802): a marker, which programs pass
	wireMTU       = 9000
)

// wired is a frame that came out of the bridge.
type wired struct {
	port  int
	frame []byte
}

// portName is that of a wire's port.
func portName(number, port int) string { return fmt.Sprintf("tg%d%d", number, port) }

// newPlanesWire must be called in a namespace of the test's own, and used on one locked thread that
// stays on one processor: frames are then processed in the order in which they are sent.
func newPlanesWire(t *testing.T, number int) *planesWire {
	t.Helper()
	w := openWire(t)
	for port := range w.gate {
		name := portName(number, port)
		far := name + "far"
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: wireMTU}, PeerName: far, PeerMTU: wireMTU})
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []struct {
			name string
			at   *int
		}{{name, &w.gate[port]}, {far, &w.far[port]}} {
			l, err := netlink.LinkByName(end.name)
			if err == nil { // the kernel must send nothing of its own there
				err = errors.Join(sysctl("ipv6/conf/"+end.name+"/disable_ipv6", "1"), netlink.LinkSetARPOff(l), netlink.LinkSetUp(l))
			}
			if err != nil {
				t.Fatal(err)
			}
			*end.at = l.Attrs().Index
		}
		if err := errors.Join(rig.AwaitUp(w.far[port]), rig.AwaitUp(w.gate[port])); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// openWire makes one without ports.
func openWire(t *testing.T) *planesWire {
	t.Helper()
	w := &planesWire{buf: make([]byte, 1<<16)}
	var err error
	if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(bigEndian16(unix.ETH_P_ALL))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(w.fd) })
	limit := unix.Timeval{Sec: int64(patience.Seconds())}
	err = errors.Join(unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// attach attaches a program to the ingress of both ports.
func (w *planesWire) attach(t *testing.T, prog *ebpf.Program) {
	t.Helper()
	for _, port := range w.gate {
		l, err := link.AttachTCX(link.TCXOptions{Interface: port, Program: prog, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
}

// pass sends a frame to a port and returns the resulting frames, in each port's order. A first marker after
// the frame shows that the program has processed it; everything the program has sent is then in the
// processor's queue, and a second marker follows that.
func (w *planesWire) pass(frame []byte, port int) (all []wired, err error) {
	return w.collect(func() error { return w.send(frame, port) }, port)
}

// collect is pass for any function that makes the bridge send.
func (w *planesWire) collect(run func() error, port int) (all []wired, err error) {
	if err := run(); err != nil {
		return nil, err
	}
	for range 2 {
		w.turn++
		marker := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(make([]byte, 12), wireEthertype), w.turn)
		if err := w.send(append(marker, make([]byte, 60)...), port); err != nil {
			return nil, err
		}
		for {
			at, got, err := w.receive()
			if err != nil {
				return nil, err
			}
			if len(got) >= 22 && binary.BigEndian.Uint16(got[12:]) == wireEthertype {
				if at == w.gate[port] && binary.BigEndian.Uint64(got[14:]) == w.turn {
					break
				}
				continue
			}
			for far := range w.far {
				if at == w.far[far] {
					all = append(all, wired{far, got})
					break
				}
			}
		}
	}
	return all, nil
}

func (w *planesWire) send(frame []byte, port int) error {
	to := unix.SockaddrLinklayer{Ifindex: w.far[port], Protocol: bigEndian16(unix.ETH_P_ALL)}
	if err := unix.Sendto(w.fd, frame, 0, &to); err != nil {
		return fmt.Errorf("a frame of %d bytes: %w", len(frame), err)
	}
	return nil
}

// receive returns the next frame that an interface received, with the VLAN tag that the kernel keeps as metadata.
func (w *planesWire) receive() (ifindex int, frame []byte, err error) {
	const vlanValid, tpidValid = 1 << 4, 1 << 6 // TP_STATUS_VLAN_*, linux/if_packet.h
	oob := make([]byte, 64)
	for {
		n, noob, _, from, err := unix.Recvmsg(w.fd, w.buf, oob, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("the marker does not come: %w", os.NewSyscallError("recvmsg", err))
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		frame = append([]byte{}, w.buf[:n]...)
		messages, err := unix.ParseSocketControlMessage(oob[:noob])
		if err != nil {
			return 0, nil, err
		}
		for _, m := range messages {
			if m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
				continue
			}
			if status := binary.NativeEndian.Uint32(m.Data); status&vlanValid != 0 && n >= 12 {
				tpid := uint16(unix.ETH_P_8021Q)
				if status&tpidValid != 0 {
					tpid = binary.NativeEndian.Uint16(m.Data[18:])
				}
				tag := binary.BigEndian.AppendUint16(nil, tpid)
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
				frame = append(append(append([]byte{}, frame[:12]...), tag...), frame[12:]...)
			}
		}
		return ll.Ifindex, frame, nil
	}
}

func bigEndian16(v uint16) uint16 { return v<<8 | v>>8 }

// outcome is the result of a frame: verdict and bytes of the first frame sent, and the others. Frames
// back to the sender come before forwarded ones.
type outcome struct {
	vectors.Result
	more []vectors.Result
}

func outcomeOf(sent []vectors.Result) outcome {
	if len(sent) == 0 {
		return outcome{Result: vectors.Result{Verdict: vectors.Drop}}
	}
	return outcome{sent[0], sent[1:]}
}

func (o outcome) all() []vectors.Result { return append([]vectors.Result{o.Result}, o.more...) }

// outcomeDifferences is vectors.Differences of all that was sent.
func outcomeDifferences(want, got outcome) (d []string) {
	if len(want.more) != len(got.more) {
		text := func(o outcome) (s string) {
			for _, r := range o.all() {
				s += fmt.Sprintf("\n  %s %x", r.Verdict, r.Out)
			}
			return s
		}
		return []string{strconv.Itoa(1+len(got.more)) + " frames, want " + strconv.Itoa(1+len(want.more)) + ":" + text(got) + "\nwant:" + text(want)}
	}
	others := got.all()
	for i, r := range want.all() {
		d = append(d, vectors.Differences(r, others[i])...)
	}
	return d
}
