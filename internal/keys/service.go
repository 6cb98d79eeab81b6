// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// The packages' units run as a user of their own, who must be able to read what root makes for him; and root reads what is his.

// ServiceUser is that user's name.
const ServiceUser = "tidegate"

// serviceIDs returns the user's numbers; ok is false on a machine without him. A variable for tests.
var serviceIDs = func() (uid, gid int, ok bool) {
	u, err := user.Lookup(ServiceUser)
	if err != nil {
		return 0, 0, false
	}
	uid, errU := strconv.Atoi(u.Uid)
	gid, errG := strconv.Atoi(u.Gid)
	return uid, gid, errU == nil && errG == nil
}

// trusts reports whether a private file may belong to this user: root, ourselves and, for root, the units' user.
func trusts(owner int) bool {
	if owner == 0 || owner == os.Geteuid() {
		return true
	}
	uid, _, ok := serviceIDs()
	return ok && owner == uid && os.Geteuid() == 0
}

// handOver gives a private file that root has made in a directory of the units' group (/etc/tidegate) to their user.
func handOver(f *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, ok := serviceIDs()
	if !ok {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if st, known := dir.Sys().(*syscall.Stat_t); !known || int(st.Gid) != gid {
		return nil
	}
	return f.Chown(uid, gid)
}
