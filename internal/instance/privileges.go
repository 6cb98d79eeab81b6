// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the capabilities that a packet path requires. CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON, as in the kernel.
var needed = []struct {
	bit  int
	name string
}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}}

// CheckPrivileges returns what this process lacks to load and attach a packet path. It does not require root.
func CheckPrivileges() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return lacks(uint64(data[0].Effective) | uint64(data[1].Effective)<<32)
}

func lacks(caps uint64) error {
	var missing []string
	for _, c := range needed {
		if caps&(1<<c.bit) == 0 && (c.bit == unix.CAP_NET_ADMIN || caps&(1<<unix.CAP_SYS_ADMIN) == 0) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("tidegate run needs " + strings.Join(missing, ", ") + "; start it with sudo, or from a service unit that grants them (AmbientCapabilities=)")
}
