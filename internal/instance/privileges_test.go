// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLacks(t *testing.T) {
	for _, c := range []struct {
		caps uint64
		want string
	}{
		{1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON | 1<<unix.CAP_NET_ADMIN, ""},
		{1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN, ""},
		{1 << unix.CAP_NET_ADMIN, "CAP_BPF, CAP_PERFMON;"},
		{1 << unix.CAP_SYS_ADMIN, "CAP_NET_ADMIN;"},
		{0, "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN;"},
	} {
		if err := lacks(c.caps); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v, want %q", c.caps, err, c.want)
		}
	}
}
