// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Clients are offered what the server itself would offer: a connection through the box
// negotiates the same as one without it.
func TestServerOptionsAreLearned(t *testing.T) {
	w := newWorld(t, false)
	for name, value := range map[string]string{"net.ipv4.tcp_sack": "0", "net.ipv4.tcp_timestamps": "0"} {
		if err := w.Server.SetSysctl(name, value); err != nil {
			t.Fatal(err)
		}
	}
	w.serve(echo)
	direct := w.agreed(false)
	w.start(w.config("cookie"))
	w.await("the server's options are learned", func() bool { return w.agreed(false) == direct })
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_refused": 0})
}

// agreed is what a new connection negotiates, as the client sees it.
func (w *world) agreed(ipv6 bool) (a struct {
	options, shifts uint8 // struct tcp_info, bytes 5 and 6
	mss             uint32
}) {
	w.t.Helper()
	c, err := w.dial(ipv6)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	// Its end is a RST, which is not sent again: a FIN that is lost when the box takes over comes later, and to the box is an
	// ACK without a flow.
	if err := c.SetLinger(0); err != nil {
		w.t.Fatal(err)
	}
	use(w.t, c)
	info := tcpInfo(w.t, c)
	a.options, a.shifts, a.mss = info.Options, (*[8]byte)(unsafe.Pointer(info))[6], info.Snd_mss
	return a
}

func tcpInfo(t *testing.T, c *net.TCPConn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctl := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	return info
}
