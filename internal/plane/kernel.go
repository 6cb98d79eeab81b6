// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"sync"

	"github.com/cilium/ebpf/btf"
)

// KernelAdopts says whether this kernel can make a connection of a cookie (bpf_sk_assign_tcp_reqsk).
// Without, host_tc.bpf.c loads all the same, and adopts nothing.
var KernelAdopts = sync.OnceValue(func() bool {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var f *btf.Func
	return spec.TypeByName("bpf_sk_assign_tcp_reqsk", &f) == nil
})
