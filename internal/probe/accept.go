// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
)

// acceptChecks passes the programs of every role to the kernel's verifier, one
// row per role. What the configured role needs must be accepted; what another
// role needs is worth a warning.
func acceptChecks(privileged bool, configured string) []Check {
	if !privileged {
		return nil // programChecks reports this
	}
	var list []Check
	var last string
	for _, o := range plane.Objects() {
		if o.Role != last {
			last = o.Role
			list = append(list, Check{Name: "role " + o.Role, Status: OK, Found: "programs are accepted by the verifier"})
		}
		if row := &list[len(list)-1]; row.Status == OK {
			if err := o.Try(); err != nil {
				*row = refused(o, err, o.Role == configured)
			}
		}
	}
	return list
}

func refused(o plane.Object, err error, needed bool) Check {
	c := Check{Name: "role " + o.Role, Status: Warn, Found: fmt.Sprintf("%s: %s", o.Name, firstLine(err)),
		Means: "this role cannot run here",
		Fix:   "run a kernel that `make test-kernel` knows (docs/host.md), and please report this one"}
	if needed {
		c.Status = Fail
	}
	if !errors.Is(err, plane.ErrRefused) && !errors.Is(err, ebpf.ErrNotSupported) {
		c.Fix = "see what the kernel says in Found; a container that filters bpf(2) is one cause"
	}
	return c
}
