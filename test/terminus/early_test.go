// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"tidegate/internal/ifp"
	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// A first request is answered with its nonce by XDP, over a real network device: of a container, whose far end runs no program; with a
// large MTU; and, in native mode, behind a far end that loses its program.
func TestNoncesByXDPArrive(t *testing.T) {
	needRoot(t)
	self, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name string
		mtu  int
		far  bool // the far end runs a program
	}{{"container", 1500, false}, {"large MTU", 9000, true}, {"far end loses its program", 1500, true}} {
		for _, family := range []struct{ manager, sender, bits string }{{"10.77.0.1", "10.77.0.2", "/24"}, {"fd77::1", "fd77::2", "/64"}} {
			t.Run(c.name+", "+family.manager, func(t *testing.T) {
				t.Parallel()
				id := fmt.Sprintf("%d%d", i, len(family.manager))
				here, err := rig.MakeNamespace(self, "early"+id)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { here.Close() })
				there, err := rig.MakeNamespace(self, "asks"+id)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { there.Close() })
				near, far, err := rig.NewVeth(self, here, "tg-early", there, "tg-asks")
				if err != nil {
					t.Fatal(err)
				}
				for port, a := range map[*rig.Port]string{near: family.manager, far: family.sender} {
					if err := port.SetMTU(c.mtu); err != nil {
						t.Fatal(err)
					}
					if err := port.NS.Do(func() error { return rig.AddAddr(port.Index, netip.MustParsePrefix(a+family.bits)) }); err != nil {
						t.Fatal(err)
					}
				}
				if c.far {
					if _, err := far.AttachXDP(passing(t)); err != nil {
						t.Fatal(err)
					}
				}
				in := startManager(t, fmt.Sprintf("tg%s-early%s", self, id), here, netip.AddrPortFrom(netip.MustParseAddr(family.manager), 4747))
				q := newQuestioner(t, there, family.manager)
				q.untilAnswered(t)
				if c.name == "far end loses its program" {
					if err := far.DetachXDP(); err != nil {
						t.Fatal(err)
					}
					q.untilAnswered(t)
				}
				world.Until(t, "XDP's nonces in the status", func() bool { return upstreamStatus(t, in.Instance).Counters["nonce_sent_by_xdp"] > 0 })
				if n := upstreamStatus(t, in.Instance).Counters["nonce_sent"]; n != 0 {
					t.Errorf("%d nonces were sent by the daemon", n)
				}
			})
		}
	}
}

// XDP answers at one address. A manager that listens at all says that its program has none.
func TestXDPNeedsAnAddress(t *testing.T) {
	needRoot(t)
	self, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.MakeNamespace(self, "early")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	other, err := rig.MakeNamespace(self, "asks")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, err := rig.NewVeth(self, ns, "tg-early", other, "tg-asks"); err != nil {
		t.Fatal(err)
	}
	p := startManager(t, fmt.Sprintf("tg%s-early", self), ns, netip.MustParseAddrPort("0.0.0.0:4747"))
	if said := p.process.Log("XDP answers no first requests"); len(said) != 1 {
		t.Errorf("said %q", said)
	}
}

// passing is a program that leaves every frame to the kernel.
func passing(t *testing.T) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// borderManager is a border manager that runs.
type borderManager struct {
	*world.Instance
	process *world.Process
}

// startManager starts a border manager that has nobody to ask, with its XDP program on tg-early.
func startManager(t *testing.T, name string, ns *rig.Namespace, listen netip.AddrPort) borderManager {
	t.Helper()
	dir := t.TempDir()
	world.WriteSecret(t, dir)
	for name, content := range map[string]string{"bindings": "filter 203.0.113.0/24 10.77.0.2\n", "identity": strings.Repeat("6b", 32) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := &world.Instance{T: t, NS: ns, Binary: binary, Name: name, Config: filepath.Join(dir, "tidegate.yaml")}
	in.Write(fmt.Sprintf("role: border-manager\ninstance: %s\ninterfaces: [tg-early]\nidentity_file: identity\nsecret_file: secret\nlisten: %q\nbindings: bindings\n"+
		"patrols: [{name: p, address: 127.0.0.1:4748, key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, prefixes: [192.0.2.0/24]}]\n", in.Name, listen))
	return borderManager{in, in.Start()}
}

// questioner sends first requests.
type questioner struct {
	conn *net.UDPConn
	sent uint64
}

func newQuestioner(t *testing.T, ns *rig.Namespace, manager string) *questioner {
	t.Helper()
	q := &questioner{}
	err := ns.Do(func() (err error) {
		q.conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(manager), 4747)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.conn.Close() })
	return q
}

// untilAnswered asks until a nonce comes.
func (q *questioner) untilAnswered(t *testing.T) {
	t.Helper()
	filter := ifp.Filter{Src: netip.MustParsePrefix("192.0.2.1/32"), Dst: netip.MustParsePrefix("203.0.113.1/32"), Action: ifp.Block}
	world.Until(t, "a nonce", func() bool {
		q.sent++
		if _, err := q.conn.Write(ifp.AppendRequest(nil, ifp.Install, 0, q.sent, 0, []ifp.Filter{filter})); err != nil {
			return false // refused: the manager does not listen yet
		}
		answer := make([]byte, 2048)
		if err := q.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := q.conn.Read(answer)
		if err != nil {
			return false
		}
		h, err := ifp.ReadHeader(answer[:n])
		return err == nil && h.Type == ifp.Nonce && h.Nonce != 0 && h.Request <= q.sent
	})
}

// upstreamStatus is a manager's status, whose figures are written once a second.
func upstreamStatus(t *testing.T, in *world.Instance) (s instance.Upstream) {
	t.Helper()
	out, errs, err := in.Run("status", "--instance", in.Name, "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil {
		t.Fatalf("status: %v: %s %s", err, out, errs)
	}
	return s
}
