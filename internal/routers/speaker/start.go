// SPDX-License-Identifier: Apache-2.0

package speaker

import (
	"os/exec"
	"runtime"
)

// lockedStart starts a command from a thread that lives as long as the command does.
func lockedStart(cmd *exec.Cmd, started, ended chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err == nil {
		ended <- cmd.Wait()
	}
}
