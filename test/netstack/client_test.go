// SPDX-License-Identifier: Apache-2.0

package netstack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

const (
	port     = 80
	patience = time.Minute
	size     = 16 << 20
)

var (
	own4 = netip.MustParseAddr("198.18.31.220")
	own6 = netip.MustParseAddr("fd7d:7467:3::dc")
)

// gVisor as client, through `cookie` and under a flood: a word each way, bulk data
// each way, half-close; with SACK on and off. Through `auth-cookie` it reconnects once.
func TestNetstackClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "tidegate")
	build := exec.Command("go", "build", "-o", exe, "./cmd/tidegate")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	for _, strategy := range []string{"cookie", "auth-cookie"} {
		for _, sack := range []bool{true, false} {
			if strategy != "cookie" && !sack {
				continue // there the options are the server's own
			}
			t.Run(fmt.Sprintf("%s sack=%v", strategy, sack), func(t *testing.T) {
				p := newTopology(t, fmt.Sprintf("-g%d", time.Now().UnixNano()%1e6))
				serve(t, p)
				startBox(t, p, exe, strategy)
				s := newStack(t, p, sack)
				for _, ipv6 := range []bool{false, true} {
					if ipv6 && !rig.HaveIPv6() {
						continue
					}
					flood(t, p, ipv6)
					if strategy != "cookie" {
						if err := transfer(s, p, ipv6, 10); err == nil {
							t.Error("the first connection was not interrupted")
						}
					}
					for _, n := range []int64{1, 1000, size} {
						if err := transfer(s, p, ipv6, n); err != nil {
							t.Errorf("ipv6=%v, %d bytes: %v", ipv6, n, err)
						}
					}
				}
			})
		}
	}
}

func newTopology(t *testing.T, tag string) *rig.ProxyTopology {
	t.Helper()
	p, err := rig.NewProxyTopology(tag, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func flood(t *testing.T, p *rig.ProxyTopology, ipv6 bool) {
	t.Helper()
	f, err := load.NewFlood(p.AttackerPort, p.FloodPort, load.FloodOptions{Target: p.ServiceAddr(ipv6, port), CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := f.Run(ctx, 20000)
		done <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, f.Close()); err != nil {
			t.Error(err)
		}
	})
}

// serve answers what it received before the half-close with its sum and as many bytes.
func serve(t *testing.T, p *rig.ProxyTopology) {
	t.Helper()
	for _, ipv6 := range []bool{false, true} {
		if ipv6 && !rig.HaveIPv6() {
			continue
		}
		world.Server{Limit: patience}.Serve(t, p.Server, p.ServiceAddr(ipv6, port).String(), func(c *net.TCPConn) {
			defer c.Close()
			h := sha256.New()
			n, err := io.Copy(h, c)
			if err != nil {
				return
			}
			_, _ = c.Write(h.Sum(nil))
			_, _ = io.Copy(c, data(2, n))
		})
	}
}

func data(seed byte, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

func sum(seed byte, n int64) []byte {
	h := sha256.New()
	_, _ = io.Copy(h, data(seed, n))
	return h.Sum(nil)
}

// transfer sends n bytes each way and compares sums.
func transfer(s *stack.Stack, p *rig.ProxyTopology, ipv6 bool, n int64) error {
	addr, proto := p.ServiceAddr(ipv6, port), tcpip.NetworkProtocolNumber(header.IPv4ProtocolNumber)
	if ipv6 {
		proto = header.IPv6ProtocolNumber
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := gonet.DialContextTCP(ctx, s, tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(addr.Addr().AsSlice()), Port: addr.Port()}, proto)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.Copy(c, data(1, n)); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	up := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, up); err != nil {
		return fmt.Errorf("the server's sum: %w", err)
	}
	h := sha256.New()
	got, err := io.Copy(h, c)
	if err != nil || got != n || !bytes.Equal(up, sum(1, n)) || !bytes.Equal(h.Sum(nil), sum(2, n)) {
		return fmt.Errorf("%d of %d bytes came back, %w, or sums differ", got, n, err)
	}
	return nil
}

// startBox starts `tidegate run` in the box and waits until it is ready.
func startBox(t *testing.T, p *rig.ProxyTopology, exe, strategy string) {
	t.Helper()
	dir := t.TempDir()
	world.WriteSecret(t, dir)
	in := &world.Instance{T: t, NS: p.Proxy, Binary: exe, Name: p.Instance, Config: filepath.Join(dir, "tidegate.yaml")}
	in.Write(fmt.Sprintf("role: proxy\ninstance: %s\ninterfaces: [tg-flood, tg-legit, tg-inner]\nsecret_file: secret\ndrain: 0s\nservices:\n  - name: web\n    ports: [%d]\n    mode: always\n    strategy: %s\n",
		p.Instance, port, strategy))
	in.Start()
}

// newStack puts gVisor's TCP behind the client's machine, which routes for it, through a TUN device.
func newStack(t *testing.T, p *rig.ProxyTopology, sack bool) *stack.Stack {
	t.Helper()
	fd := -1
	err := p.Client.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		req, err := unix.NewIfreq("tg-gvisor")
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	commands := []string{"link set tg-gvisor up", "route add " + own4.String() + "/32 dev tg-gvisor"}
	if rig.HaveIPv6() {
		commands = append(commands, "-6 route add "+own6.String()+"/128 dev tg-gvisor")
	}
	for _, line := range commands {
		cmd := exec.Command("ip", strings.Fields(line)...)
		if err := p.Client.Do(cmd.Run); err != nil {
			t.Fatalf("ip %s: %v", line, err)
		}
	}
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if err := p.Client.SetSysctl(name, "1"); err != nil {
			t.Fatal(err)
		}
	}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{fd}, MTU: 1500})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(stack.Options{NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol}})
	t.Cleanup(s.Destroy)
	on := tcpip.TCPSACKEnabled(sack)
	if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, &on); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateNIC(1, link); err != nil {
		t.Fatal(err)
	}
	for proto, a := range map[tcpip.NetworkProtocolNumber]netip.Addr{header.IPv4ProtocolNumber: own4, header.IPv6ProtocolNumber: own6} {
		err := s.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: proto,
			AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix()}, stack.AddressProperties{})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}, {Destination: header.IPv6EmptySubnet, NIC: 1}})
	return s
}
