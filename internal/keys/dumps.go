// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// forbidDumps ensures, for the life of this process, that no secret in its memory gets
// into a core file, or can be read by another user's debugger. Children inherit the limit on core files.
var forbidDumps = sync.OnceValue(func() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("%w: cannot forbid core files (RLIMIT_CORE): %w", ErrSecret, err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: cannot forbid core files (PR_SET_DUMPABLE): %w", ErrSecret, err)
	}
	return nil
})
