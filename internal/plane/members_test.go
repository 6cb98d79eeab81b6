// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Every program that asks which port a frame came by has the loader's mark, and none is left in it, whether there are bonds or not.
func TestBondsAreKnownWhenLoading(t *testing.T) {
	asks := []string{"host_xdp", "proxy_xdp", "edge_xdp", "edge_smart", "server_xdp", "patrol_xdp"}
	for _, o := range Objects() {
		for _, bonds := range []bool{false, true} {
			spec, err := o.Spec()
			if err != nil {
				t.Fatal(err)
			}
			if n := marks(spec); (n > 0) != slices.Contains(asks, o.Name) {
				t.Errorf("%s asks %d times whether there are bonds", o.Name, n)
			}
			setBonds(spec, bonds)
			if n := marks(spec); n != 0 {
				t.Errorf("%s, bonds %t: %d marks are left", o.Name, bonds, n)
			}
		}
	}
}

// marks counts the instructions that hold the mark in any form.
func marks(spec *ebpf.CollectionSpec) (n int) {
	for _, prog := range spec.Programs {
		for _, ins := range prog.Instructions {
			if ins.Constant == bondsMark {
				n++
			}
		}
	}
	return n
}

// Members that join and leave are followed.
func TestMembersAreFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if err := inNamespace(followMembers); errors.Is(err, unix.EOPNOTSUPP) && os.Getenv("TIDEGATE_TEST_MODULES") == "" {
		t.Skip("this kernel has no bonds; test/kernel/run runs this test on other kernels")
	} else if err != nil {
		t.Fatal(err)
	}
}

func followMembers() error {
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: "bond"})
	if err := netlink.LinkAdd(bond); err != nil {
		return err
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "one"}, PeerName: "two"}); err != nil {
		return err
	}
	p, err := Load(Options{KeySlots: 1, Bonds: HaveBonds([]string{"one", "bond"})})
	if err != nil {
		return err
	}
	defer p.Close()
	p.links = &attachments{interfaces: []string{"bond"}}
	want := map[uint32]uint32{}
	follow := func() error {
		if err := p.FollowMembers(); err != nil {
			return err
		}
		got := map[uint32]uint32{}
		err := Entries(p.Map(VarMembers), false, func(list []member) {
			for _, m := range list {
				if m != (member{}) {
					got[m.Device] = m.Bond
				}
			}
		})
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("members %v, want %v", got, want)
		}
		return err
	}
	for _, name := range []string{"one", "two"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		err = netlink.LinkSetMaster(l, bond)
		want[uint32(l.Attrs().Index)] = uint32(bond.Index)
		if err = errors.Join(err, follow()); err != nil {
			return err
		}
		if name == "two" {
			err = netlink.LinkSetNoMaster(l)
			delete(want, uint32(l.Attrs().Index))
			if err = errors.Join(err, follow()); err != nil {
				return err
			}
		}
	}
	return nil
}
