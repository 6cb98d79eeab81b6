// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// clientOptions are what a client's SYN offers.
type clientOptions struct {
	timestamps, scaling, sack bool
	ecn                       int // net.ipv4.tcp_ecn of the client
	mss                       int // TCP_MAXSEG; 0: what the interface gives
}

func (o clientOptions) String() string {
	return fmt.Sprintf("ts=%t ws=%t sack=%t ecn=%d mss=%d", o.timestamps, o.scaling, o.sack, o.ecn, o.mss)
}

// allClientOptions is every combination that a client of the family can offer.
// Without timestamps the sizes are entries of the cookie's table (core/mss.def); others are
// rounded down by the gate. With timestamps any size is kept, if the kernel adopts it.
func allClientOptions(ipv6 bool) (all []clientOptions) {
	entries, any := []int{0, 536, 1220, 1360, 1440}, []int{0, 536, 700, 1231, 1453}
	if ipv6 {
		entries, any = []int{0, 1220, 1280, 1360, 1420}, []int{0, 1220, 1239, 1331, 1439}
	}
	for bits := range 8 {
		sizes := entries
		if bits&1 != 0 {
			sizes = any
		}
		for _, ecn := range []int{0, 1} {
			for _, mss := range sizes {
				all = append(all, clientOptions{bits&1 != 0, bits&2 != 0, bits&4 != 0, ecn, mss})
			}
		}
	}
	return all
}

// agreed is what one end of a connection has negotiated.
type agreed struct {
	Options            uint8 // TCPI_OPT_*: timestamps, SACK, window scale, ECN
	SndScale, RcvScale uint8
	SndMSS, AdvMSS     uint32
	PathMTU            uint32
	Ssthresh           uint32 // of the receiver: how far it will open its window initially
	PeerWindow         uint32 // of the peer's first segment
}

// tcpiOptNegotiated are the bits of tcpi_options that the handshake determines:
// timestamps, SACK, window scale, ECN. ECN_SEEN depends on data.
const tcpiOptNegotiated = 1 | 2 | 4 | 8

func agreedBy(c conn) (agreed, error) {
	info, err := c.info()
	if err != nil {
		return agreed{}, err
	}
	// The window scales are in a byte that unix.TCPInfo lacks.
	scales := (*[8]byte)(unsafe.Pointer(info))[6]
	return agreed{Options: info.Options & tcpiOptNegotiated, SndScale: scales & 15, RcvScale: scales >> 4,
		SndMSS: info.Snd_mss, AdvMSS: info.Advmss, PathMTU: info.Pmtu, Ssthresh: info.Rcv_ssthresh,
		PeerWindow: info.Snd_wnd}, nil
}

// handshake is what both ends of one connection have negotiated.
type handshake struct{ client, server agreed }

// shakeHands opens a connection with these options and transfers data over it.
func (w *world) shakeHands(l *listener, ipv6 bool, o clientOptions, data []byte) (h handshake, err error) {
	for name, on := range map[string]bool{"tcp_timestamps": o.timestamps, "tcp_window_scaling": o.scaling, "tcp_sack": o.sack} {
		w.sysctl(w.Client, "net.ipv4."+name, map[bool]string{false: "0", true: "1"}[on])
	}
	w.sysctl(w.Client, "net.ipv4.tcp_ecn", fmt.Sprint(o.ecn))
	// An unused port: no TIME-WAIT, whose SYN would go to the kernel.
	w.nextPort++
	client, err := dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), localPort: firstPort + w.nextPort, setup: func(fd int) error {
		if o.mss == 0 {
			return nil
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.mss)
	}}.dial()
	if err != nil {
		return h, err
	}
	defer client.Close()
	if h.client, err = agreedBy(client); err != nil {
		return h, err
	}
	server, err := l.accept()
	if err != nil {
		return h, fmt.Errorf("accept: %w", err)
	}
	defer server.Close()
	if h.server, err = agreedBy(server); err != nil {
		return h, err
	}
	if err := transfer(client, server, data); err != nil {
		return h, fmt.Errorf("client to server: %w", err)
	}
	if err := transfer(server, client, data); err != nil {
		return h, fmt.Errorf("server to client: %w", err)
	}
	return h, nil
}

// transfer sends data one way and compares what arrives.
func transfer(from, to conn, data []byte) error {
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(data)
		sent <- err
	}()
	sum := sha256.New()
	if _, err := io.CopyN(sum, to, int64(len(data))); err != nil {
		return errors.Join(err, <-sent)
	}
	if want := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), want[:]) {
		return errors.New("the data arrived changed")
	}
	return <-sent
}

// A connection through the gate is the one that the kernel would have made: the
// same options, scales and segment sizes at both ends, for everything that a client
// can offer.
func TestSameConnectionAsWithoutGate(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	compareWithout(t, w, l, allClientOptions)
}

// The same with the other influences on a handshake: the server's own settings.
func TestSameConnectionServerSettings(t *testing.T) {
	few := func(bool) []clientOptions {
		return []clientOptions{{true, true, true, 1, 0}, {false, true, true, 1, 0}, {true, false, false, 0, 0}}
	}
	for name, set := range map[string]func(w *world, l *listener){ // l: listens already
		"no timestamps": func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_timestamps", "0") },
		"no scaling":    func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_window_scaling", "0") },
		"no SACK":       func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_sack", "0") },
		"no ECN":        func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_ecn", "0") },
		"small buffers": func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_rmem", "4096 30000 300000") },
		"big buffers":   func(w *world, _ *listener) { w.sysctl(w.Server, "net.ipv4.tcp_rmem", "4096 262144 134217728") },
		"SO_RCVBUF": func(w *world, l *listener) {
			if err := unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 40000); err != nil {
				w.t.Fatal(err)
			}
		},
		"small MTU": func(w *world, _ *listener) {
			for _, port := range []*rig.Port{w.ServerPort, w.ClientPort} {
				if err := port.SetMTU(1400); err != nil {
					w.t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
			set(w, l)
			compareWithout(t, w, l, few)
		})
	}
}

// compareWithout makes every connection without the gate and with it.
func compareWithout(t *testing.T, w *world, l *listener, options func(ipv6 bool) []clientOptions) {
	t.Helper()
	// A SYN retransmitted on a busy machine must still request ECN.
	w.sysctl(w.Client, "net.ipv4.tcp_ecn_fallback", "0")
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	type key struct {
		ipv6 bool
		o    clientOptions
	}
	plain := map[key]handshake{}
	connections := uint64(0)
	each := func(how string, data []byte, do func(key, handshake)) {
		t.Helper()
		for _, ipv6 := range families() {
			for _, o := range options(ipv6) {
				h, err := w.shakeHands(l, ipv6, o, data)
				if err != nil {
					t.Fatalf("%s the gate, %s %s: %v", how, familyName(ipv6), o, err)
				}
				do(key{ipv6, o}, h)
			}
		}
	}
	each("without", data[:1000], func(k key, h handshake) { plain[k] = h })
	w.start(w.webConfig(webPort))
	each("with", data, func(k key, h handshake) {
		connections++
		want := plain[k]
		// The window of the SYN-ACK is a multiple of the segment size, of which the gate
		// knows only one.
		if less := int(want.client.PeerWindow) - int(h.client.PeerWindow); less > -1460 && less < 1460 {
			h.client.PeerWindow = want.client.PeerWindow
		}
		if h != want {
			t.Errorf("%s %s:\n  client with    %+v\n  client without %+v\n  server with    %+v\n  server without %+v",
				familyName(k.ipv6), k.o, h.client, want.client, h.server, want.server)
		}
	})
	w.wantCounters(map[string]uint64{"syn": connections, "cookie_sent": connections, "adopted": connections})
}
