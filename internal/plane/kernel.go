// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"sync"

	"github.com/cilium/ebpf/btf"
)

// KernelAdopts reports whether this kernel can create a connection from a cookie (bpf_sk_assign_tcp_reqsk).
// Without it, host_tc.bpf.c still loads, but adopts nothing.
var KernelAdopts = sync.OnceValue(func() bool {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var f *btf.Func
	return spec.TypeByName("bpf_sk_assign_tcp_reqsk", &f) == nil
})
