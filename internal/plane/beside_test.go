// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"tidegate/internal/dispatcher"
)

// The XDP program of every role runs as a component of a dispatcher: the verifier accepts it; it joins, is replaced by that
// of a later process, is restored, and leaves.
func TestComponents(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("XDP needs root")
	}
	if err := dispatcher.Possible(); err != nil {
		if os.Getenv("TIDEGATE_TEST_DISPATCHER") == "" {
			t.Skipf("%v; test/kernel/run runs this test on other kernels", err)
		}
		t.Fatal(err)
	}
	roles := map[string]func() (*Plane, error){
		"host": func() (*Plane, error) { return Load(Options{KeySlots: 4, Flows: 1024}) },
		"proxy": func() (*Plane, error) {
			p, err := LoadProxy(ProxyOptions{Options: Options{KeySlots: 4}, Flows: 1024, Sources: 1024, Halves: 1024})
			if err != nil {
				return nil, err
			}
			return p.Plane, p.SetTwins([]string{"near", "far"}) // which a component does not send, but this kernel can
		},
		"edge": func() (*Plane, error) {
			p, err := LoadEdge(EdgeOptions{Options: Options{KeySlots: 4}, BloomBits: 16})
			if err != nil {
				return nil, err
			}
			return p.Plane, nil
		},
		"edge, smartcookie": func() (*Plane, error) {
			p, err := LoadEdge(EdgeOptions{Options: Options{KeySlots: 4}, BloomBits: 16, Smart: true})
			if err != nil {
				return nil, err
			}
			return p.Plane, nil
		},
		"server": func() (*Plane, error) {
			p, err := LoadServer(ServerOptions{Options: Options{KeySlots: 4}, Flows: 1024})
			if err != nil {
				return nil, err
			}
			return p.Plane, nil
		},
		"patrol": func() (*Plane, error) {
			p, err := LoadPatrol(PatrolOptions{Buckets: 1024})
			if err != nil {
				return nil, err
			}
			return p.Plane, nil
		},
	}
	if old := os.Getenv("TIDEGATE_TEST_ROLES"); old != "" { // kernels on which only some roles are supported
		for role := range roles {
			if word, _, _ := strings.Cut(role, ","); !strings.Contains(old, word) {
				delete(roles, role)
			}
		}
	}
	dir := fmt.Sprintf("/sys/fs/bpf/tg-beside-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for role, load := range roles {
		t.Run(role, func(t *testing.T) {
			if err := inNamespace(func() error {
				return component(t, dir, load)
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func component(t *testing.T, dir string, load func() (*Plane, error)) error {
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"}); err != nil {
		return err
	}
	dev, err := netlink.LinkByName("near")
	if err != nil {
		return err
	}
	index, place := dev.Attrs().Index, dispatcher.Place{Ifindex: dev.Attrs().Index}
	o := AttachOptions{XDPMode: XDPNative, Dispatcher: DispatcherAlways, Priority: 20}
	start := func() (*Plane, ebpf.ProgramID, error) {
		p, err := load()
		if err != nil {
			return nil, 0, err
		}
		p.dir, p.links = dir, &attachments{dir: dir, xdp: map[string]*attachment{}}
		if err := p.attachXDP("near", index, o); err != nil {
			return nil, 0, err
		}
		id, err := p.links.xdp["near"].link.program()
		return p, id, err
	}
	runs := func(when string, want ebpf.ProgramID) {
		t.Helper()
		s, err := place.Look()
		if err != nil {
			t.Errorf("%s: %v", when, err)
			return
		}
		defer s.Close()
		if len(s.Components) != 1 || s.Components[0].ID != want || s.Components[0].Priority != 20 || s.Generic {
			t.Errorf("%s: %+v, want %d", when, s.Components, want)
		}
	}
	first, id, err := start()
	if err != nil {
		return err
	}
	runs("a first process", id)
	first.links.commit([]string{"near"}, map[string]bool{"xdp": true})
	second, next, err := start()
	if err != nil {
		return err
	}
	if next == id {
		t.Error("a second process runs the program of the first")
	}
	runs("a second process", next)
	if err := second.links.undo(); err != nil {
		return err
	}
	runs("a start that failed", id)
	third, id, err := start()
	if err != nil {
		return err
	}
	third.links.commit([]string{"near"}, map[string]bool{"xdp": true})
	runs("a third process", id)
	if id, err = takenOff(t, third, place); err != nil {
		return err
	}
	runs("taken off, and back", id)
	third.links.commit(nil, nil) // off
	if mode := attachedMode(index); mode != "" {
		t.Errorf("still attached: %s", mode)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	return nil
}

// takenOff has others take the program off: it comes back, each time after a longer pause, but never in place of another program.
func takenOff(t *testing.T, p *Plane, place dispatcher.Place) (ebpf.ProgramID, error) {
	t.Helper()
	p.final, p.priority = true, 20
	now := time.Now()
	expect := func(when string, after time.Duration, missed, back, detached bool) {
		t.Helper()
		m, b, err := p.Rejoin(now.Add(after))
		if err != nil || (len(m) == 1) != missed || (len(b) == 1) != back || (detachedIn(p.dir)["near"] != "") != detached {
			t.Errorf("%s: missed %v, back %v, detached %v, %v", when, m, b, detachedIn(p.dir), err)
		}
	}
	leave := func() {
		t.Helper()
		id, err := p.links.xdp["near"].link.program()
		if err == nil {
			err = place.Leave(id)
		}
		if err != nil {
			t.Error(err)
		}
	}
	expect("there", 0, false, false, false)
	leave()
	expect("taken off", time.Second, true, false, true)
	expect("a second later", 2*time.Second, false, false, true)
	expect("two seconds later", 3*time.Second, false, true, false)
	leave()
	expect("taken off again", 4*time.Second, true, false, true)
	expect("before a longer pause is over", 7*time.Second, false, false, true)
	foreign, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		return 0, err
	}
	defer foreign.Close()
	theirs, err := link.AttachXDP(link.XDPOptions{Program: foreign, Interface: place.Ifindex})
	if err != nil {
		return 0, err
	}
	expect("another program is there", time.Minute, false, false, true)
	if err := theirs.Close(); err != nil {
		return 0, err
	}
	expect("it is gone", 61*time.Second, false, true, false)
	return p.links.xdp["near"].link.program()
}
