// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"path/filepath"
)

// CleanOwn removes the files of this process's own instances from the state directory: an ended instance keeps its
// events for the next one of its name, which will not come. Call it last.
func CleanOwn() {
	own, err := Self()
	if err != nil {
		return
	}
	left, _ := filepath.Glob(filepath.Join(RunDir, InstPrefix+own.String()+"*"))
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}
