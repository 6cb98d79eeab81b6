// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf/rlimit"
)

// removeMemlock lifts the limit on locked memory, against which the kernel counts maps before Linux 5.11.
func removeMemlock() error { return explainMemlock(rlimit.RemoveMemlock()) }

// explainMemlock: rlimit probes the kernel's accounting with bpf(2), so that a refused bpf(2) looks like an old kernel.
func explainMemlock(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("bpf(2) or the memlock limit: %w; a container engine whose seccomp filter allows bpf only with CAP_SYS_ADMIN needs "+
			"--security-opt seccomp=unconfined, a kernel before 5.11 LimitMEMLOCK=infinity", err)
	}
	return fmt.Errorf("memlock limit: %w", err)
}
