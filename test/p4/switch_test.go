// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

const (
	patience   = time.Minute      // for what must come; never reached unless something is broken
	thriftAddr = "127.0.0.1:9090" // of the namespace that the switch is in
	switchMTU  = 9000
)

// tool finds a program by an environment variable or on PATH.
func tool(t *testing.T, variable, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if named := os.Getenv(variable); named != "" {
		path, err = exec.LookPath(named)
	}
	if err == nil {
		return path
	}
	if os.Getenv("TIDEGATE_P4") == "require" {
		t.Fatalf("%s is neither in %s nor on PATH: build p4lang/p4c and p4lang/behavioral-model (docs/p4.md)", name, variable)
	}
	t.Skipf("no %s: neither %s nor PATH has it; docs/p4.md says where it comes from", name, variable)
	return ""
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

var compiled = struct {
	sync.Mutex
	dir      string
	programs map[string]string
}{programs: map[string]string{}}

// compile makes a program of p4/v1model once, and returns its JSON.
func compile(t *testing.T, source string) string {
	t.Helper()
	p4c := tool(t, "P4C", "p4c-bm2-ss")
	compiled.Lock()
	defer compiled.Unlock()
	if out, ok := compiled.programs[source]; ok {
		return out
	}
	if compiled.dir == "" {
		dir, err := os.MkdirTemp("", "tidegate-p4-")
		if err != nil {
			t.Fatal(err)
		}
		compiled.dir = dir
	}
	out := filepath.Join(compiled.dir, filepath.Base(source)+".json")
	start := time.Now()
	if text, err := exec.Command(p4c, "--std", "p4-16", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, text)
	}
	t.Logf("%s compiled in %v", source, time.Since(start).Round(time.Millisecond))
	compiled.programs[source] = out
	return out
}

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is { // of lab_test.go
		os.Exit(code)
	}
	if _, err := rig.Clean(); err != nil && os.Geteuid() == 0 {
		fmt.Fprintln(os.Stderr, "clean up after killed tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	rig.CleanOwn()
	if compiled.dir != "" {
		os.RemoveAll(compiled.dir)
	}
	os.Exit(code)
}

// wire is the far end of a cable to the switch.
type wire struct {
	name, port string // the far end, and the switch's interface
	fd, index  int
}

// bench is a switch in a namespace of its own with cables: 1 outside, 2 inside, and others.
type bench struct {
	outside, inside *wire
	more            []*wire // from port 3 on
	notifications   string
	marker          uint64

	t    *testing.T
	sw   *exec.Cmd
	args []string // by which the switch is started
}

// newBench moves the calling goroutine into a new namespace for good and starts a
// switch there that runs the program; `more` are the far ends of further cables.
func newBench(t *testing.T, program string, more ...string) *bench {
	t.Helper()
	b := newStoppedBench(t, program, more...)
	b.startSwitch()
	return b
}

// newStoppedBench is a bench whose switch is not started.
func newStoppedBench(t *testing.T, program string, more ...string) *bench {
	t.Helper()
	needRoot(t)
	simpleSwitch := tool(t, "SIMPLE_SWITCH", "simple_switch")
	json := compile(t, program)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	for _, name := range []string{"all", "default"} { // no neighbour discovery on the wires
		path := "/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6"
		if err := os.WriteFile(path, []byte("1"), 0); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, outside: newWire(t, "out0", "sw1"), inside: newWire(t, "in0", "sw2"),
		notifications: filepath.Join(t.TempDir(), "n")}
	b.args = []string{simpleSwitch, "-i", "1@sw1", "-i", "2@sw2", "--thrift-port", "9090", "--notifications-addr", "ipc://" + b.notifications}
	for i, far := range more {
		port := fmt.Sprintf("sw%d", i+3)
		b.more = append(b.more, newWire(t, far, port))
		b.args = append(b.args, "-i", fmt.Sprintf("%d@%s", i+3, port))
	}
	b.args = append(b.args, json)
	return b
}

// startSwitch starts simple_switch on the calling thread and awaits its Thrift port.
func (b *bench) startSwitch() {
	t := b.t
	t.Helper()
	cmd := exec.Command(b.args[0], b.args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.sw = cmd
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("simple_switch said:\n%s", output.String())
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", thriftAddr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("simple_switch does not listen: %v\n%s", err, output.String())
		}
	}
}

func newWire(t *testing.T, far, port string) *wire {
	t.Helper()
	la := netlink.NewLinkAttrs()
	la.Name, la.MTU = port, switchMTU
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: far, PeerMTU: switchMTU}); err != nil {
		t.Fatal(err)
	}
	w := &wire{name: far, port: port}
	for _, name := range []string{port, far} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.index = l.Attrs().Index
	}
	if err := rig.AwaitUp(w.index); err != nil {
		t.Fatal(err)
	}
	var err error
	const all = unix.ETH_P_ALL << 8 // network order
	if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(w.fd) })
	for _, step := range []error{
		unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: w.index}),
		unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	return w
}

func (w *wire) send(frame []byte) error {
	return unix.Sendto(w.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: w.index})
}

// receive returns the next frame from the switch, with its outer VLAN tag restored, which
// the kernel removed.
func (w *wire) receive() ([]byte, error) {
	buffer, control := make([]byte, 65536), make([]byte, 256)
	for {
		n, cn, _, from, err := unix.Recvmsg(w.fd, buffer, control, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("nothing came out of %s: %w", w.port, err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		return withTag(buffer[:n], control[:cn])
	}
}

// withTag reads struct tpacket_auxdata (include/uapi/linux/if_packet.h).
func withTag(frame, control []byte) ([]byte, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		const vlanValid = 0x10 // TP_STATUS_VLAN_VALID
		if m.Data[0]&vlanValid == 0 {
			break
		}
		tci, tpid := m.Data[16:18], m.Data[18:20] // in host order: little-endian
		tag := []byte{tpid[1], tpid[0], tci[1], tci[0]}
		return bytes.Join([][]byte{frame[:12], tag, frame[12:]}, nil), nil
	}
	return bytes.Clone(frame), nil
}

// killSwitch ends the switch silently.
func (b *bench) killSwitch() {
	_ = b.sw.Process.Kill()
	_ = b.sw.Wait()
}

// A marker is a frame of an ethertype for experiments (IEEE 802, 0x88b5) that goes to
// every other port; its source is a group address, which is not learned. When it comes out, everything sent before it has been processed.
func (b *bench) nextMarker() []byte {
	b.marker++
	return append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0x99, 0x88, 0xb5},
		fmt.Sprintf("marker %016x", b.marker)...)
}

// through sends frames into one side and returns what came out of the other and what
// came back, in order. Two markers mark the end of each: it waits for no time.
func (b *bench) through(from, to *wire, frames ...[]byte) (forward, back [][]byte, err error) {
	for _, f := range frames {
		if err := from.send(f); err != nil {
			return nil, nil, err
		}
	}
	first, second := b.nextMarker(), b.nextMarker()
	if err := from.send(first); err != nil {
		return nil, nil, err
	}
	if forward, err = until(to, first); err != nil {
		return nil, nil, err
	}
	if err := to.send(second); err != nil {
		return nil, nil, err
	}
	back, err = until(from, second)
	return forward, back, err
}

func until(w *wire, marker []byte) (frames [][]byte, err error) {
	for {
		f, err := w.receive()
		if err != nil {
			return nil, err
		}
		if bytes.Equal(f, marker) {
			return frames, nil
		}
		frames = append(frames, f)
	}
}
