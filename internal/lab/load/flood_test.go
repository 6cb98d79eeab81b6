// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// capture collects up to want frames that arrive at the port.
func capture(t *testing.T, p *rig.Port, send func()) [][]byte {
	t.Helper()
	var frames [][]byte
	err := p.NS.Do(func() error {
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: p.Index}); err != nil {
			return err
		}
		send()
		for {
			buf := make([]byte, 256)
			n, err := unix.Read(fd, buf)
			if err != nil {
				return nil
			}
			if buf[0]&1 == 0 { // IPv6 sends multicast on its own
				frames = append(frames, buf[:n])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func onesComplement(sum uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

func folded(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// checkSYN verifies every length and both checksums, and returns source and TCP header.
func checkSYN(t *testing.T, f []byte, v6 bool) (src string, tcp []byte) {
	t.Helper()
	return checkSegment(t, f, v6, FlagSYN)
}

// checkSegment is checkSYN for any flags.
func checkSegment(t *testing.T, f []byte, v6 bool, flags TCPFlags) (src string, tcp []byte) {
	t.Helper()
	var pseudo uint32
	if v6 {
		if len(f) < 74 || binary.BigEndian.Uint16(f[12:]) != 0x86dd || f[14]>>4 != 6 || f[20] != 6 {
			t.Fatalf("not a TCP packet over IPv6: %x", f)
		}
		tcp, src = f[54:], string(f[22:38])
		if int(binary.BigEndian.Uint16(f[18:])) != len(tcp) {
			t.Fatalf("IPv6 payload length does not match the frame: %x", f)
		}
		pseudo = onesComplement(0, f[22:54])
	} else {
		if len(f) < 54 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || f[23] != 6 {
			t.Fatalf("not a TCP packet over IPv4: %x", f)
		}
		tcp, src = f[34:], string(f[26:30])
		if int(binary.BigEndian.Uint16(f[16:])) != len(f)-14 || folded(onesComplement(0, f[14:34])) != 0xffff {
			t.Fatalf("IPv4 length or checksum: %x", f)
		}
		pseudo = onesComplement(0, f[26:34])
	}
	if folded(onesComplement(pseudo+6+uint32(len(tcp)), tcp)) != 0xffff {
		t.Fatalf("TCP checksum: %x", f)
	}
	if TCPFlags(tcp[13]) != flags || int(tcp[12]>>4)*4 > len(tcp) || binary.BigEndian.Uint16(tcp[2:]) != rig.ServicePort {
		t.Fatalf("not a segment to the service with flags %#x: %x", flags, tcp)
	}
	return src, tcp
}

// The frames come back overwritten by the receiver's stack; every byte of each must be right
// again, whatever kind it was before.
func TestFloodFramesAreWellFormed(t *testing.T) {
	needRoot(t)
	p, err := rig.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const n = 4096
	lengths := map[FloodMix][]int{MixTS: {40}, MixNoTS: {32}, MixAll: {20, 32, 40, 44}, MixBare: {20}, MixMacOS: {44}, MixOdd: {40}, MixMany: {60}, MixData: {60}}
	for _, v6 := range []bool{false, true} {
		for mix, want := range lengths {
			f, err := NewFlood(p.Near, p.Far, FloodOptions{Target: rig.ServiceAddr(v6), Mix: mix, CPU: -1})
			if err != nil {
				t.Fatal(err)
			}
			frames := capture(t, p.Far, func() {
				if b, err := f.Burst(n); err != nil || b.Frames < n {
					t.Errorf("burst: %+v, %v", b, err)
				}
			})
			sources, kinds := map[string]bool{}, map[int]int{}
			for _, frame := range frames {
				src, tcp := checkSYN(t, frame, v6)
				if data := len(tcp) - int(tcp[12]>>4)*4; data != map[FloodMix]int{MixData: 20}[mix] {
					t.Fatalf("v6=%v mix %d: %d bytes of data", v6, mix, data)
				}
				sources[src] = true
				kinds[len(tcp)]++
			}
			if len(frames) < n || len(sources) < n*99/100 {
				t.Errorf("v6=%v mix %d: %d frames from %d sources, want %d", v6, mix, len(frames), len(sources), n)
			}
			for _, l := range want {
				if kinds[l] == 0 {
					t.Errorf("v6=%v mix %d: no SYN with a header of %d bytes", v6, mix, l)
				}
			}
			if len(kinds) != len(want) {
				t.Errorf("v6=%v mix %d: header lengths %v, want %v", v6, mix, kinds, want)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// ACKs have no options, or those of the mix that is named.
func TestFloodACKsAreWellFormed(t *testing.T) {
	needRoot(t)
	p, err := rig.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const n = 256
	for mix, want := range map[FloodMix]string{MixAll: "", MixBare: "", MixTS: "0101080a", MixOdd: "080a", MixMany: strings.Repeat("fd02", 20)} {
		for _, v6 := range []bool{false, true} {
			f, err := NewFlood(p.Near, p.Far, FloodOptions{Target: rig.ServiceAddr(v6), Mix: mix, Flags: FlagACK, CPU: -1})
			if err != nil {
				t.Fatal(err)
			}
			frames := capture(t, p.Far, func() {
				if b, err := f.Burst(n); err != nil || b.Frames < n {
					t.Errorf("burst: %+v, %v", b, err)
				}
			})
			acks := 0
			for _, frame := range frames {
				_, tcp := checkSegment(t, frame, v6, FlagACK)
				options := hex.EncodeToString(tcp[20:])
				if !strings.HasPrefix(options, want) || (want == "") != (options == "") || (mix == MixOdd && !strings.HasSuffix(options, "0101")) {
					t.Fatalf("v6=%v mix %d: options %s, want %s", v6, mix, options, want)
				}
				acks++
			}
			if acks < n {
				t.Errorf("v6=%v mix %d: %d ACKs, want %d", v6, mix, acks, n)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// floodOnPair is a pair of namespaces with a flood of the service from the near one, for the length of a test.
func floodOnPair(t *testing.T) (*rig.Pair, *Flood) {
	t.Helper()
	needRoot(t)
	p, err := rig.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	f, err := NewFlood(p.Near, p.Far, FloodOptions{Target: rig.ServiceAddr(false), CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return p, f
}

// Spoofed sources must be unicast and must never be the lab's own or private.
func TestFloodSourcesArePublic(t *testing.T) {
	p, f := floodOnPair(t)
	var top [256]int
	for _, frame := range capture(t, p.Far, func() { _, _ = f.Burst(20000) }) {
		src, _ := checkSYN(t, frame, false)
		top[src[0]]++
	}
	for _, b := range []int{0, 10, 100, 127, 169, 172, 192, 198, 203} {
		if top[b] > 0 {
			t.Errorf("%d sources in %d.0.0.0/8", top[b], b)
		}
	}
	used := 0
	for b, n := range top {
		if n > 0 {
			used++
			if b >= 224 {
				t.Errorf("%d sources in %d.0.0.0/8", n, b)
			}
		}
	}
	if used < 200 {
		t.Errorf("sources from %d first octets, want over 200", used)
	}
}

func TestXDPMDIsTheKernels(t *testing.T) {
	if s := unsafe.Sizeof(xdpMD{}); s != 24 {
		t.Errorf("xdpMD is %d bytes, struct xdp_md is 24", s)
	}
}
