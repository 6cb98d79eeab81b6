// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"tidegate/internal/lab/rig"
)

var worlds atomic.Int32

// newNamespace makes a network namespace for a test; without root there is none.
func newNamespace(t *testing.T) *rig.Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.MakeNamespace(owner, fmt.Sprintf("sv%d", worlds.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	run(t, ns, "link set lo up\naddr add 192.0.2.1/32 dev lo\naddr add 192.0.2.2/32 dev lo\naddr add 2001:db8::1/128 dev lo\n", "ip", "-batch", "-")
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	return ns
}

// run has a program load rules, which it reads from standard input.
func run(t *testing.T, ns *rig.Namespace, input string, command ...string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out.String())
	}
}

func read(t *testing.T, ns *rig.Namespace) (m *Machine) {
	t.Helper()
	if err := ns.Do(func() error { m = Read(); return nil }); err != nil {
		t.Fatal(err)
	}
	return m
}

func to(addrPort string, interfaces ...string) Destination {
	a := netip.MustParseAddrPort(addrPort)
	return Destination{a.Addr(), a.Port(), interfaces}
}
