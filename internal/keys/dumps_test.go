// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A process that has read a secret leaves no core file.
func TestNoCoreFile(t *testing.T) {
	if _, err := LoadSecret(writeFile(t, goodHex, 0o400)); err != nil {
		t.Fatal(err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		t.Errorf("dumpable %d, %v", dumpable, err)
	}
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core != (unix.Rlimit{}) {
		t.Errorf("RLIMIT_CORE %+v, %v", core, err)
	}
}
