// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf/rlimit"
)

// removeMemlock lets maps be as large as they are, where the kernel counts them as locked memory (before Linux 5.11).
func removeMemlock() error { return explainMemlock(rlimit.RemoveMemlock()) }

// explainMemlock: whether the kernel counts is found out by bpf(2), so that a refusal of that looks like an old kernel.
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
