// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"sync"
	"weak"

	"github.com/cilium/ebpf/btf"
)

var kernelTypes struct {
	sync.Mutex
	last weak.Pointer[btf.Cache]
}

// KernelTypes are the types of the running kernel: to read them takes 15 ms, and is done once for all that is loaded while somebody
// holds what this returns. They take 4 MiB.
func KernelTypes() *btf.Cache {
	kernelTypes.Lock()
	defer kernelTypes.Unlock()
	types := kernelTypes.last.Value()
	if types == nil {
		types = btf.NewCache()
		kernelTypes.last = weak.Make(types)
	}
	return types
}

// KernelAdopts reports whether this kernel can create a connection from a cookie (bpf_sk_assign_tcp_reqsk).
// Without it, host_tc.bpf.c still loads, but adopts nothing.
var KernelAdopts = sync.OnceValue(func() bool {
	spec, err := KernelTypes().Kernel()
	if err != nil {
		return false
	}
	var f *btf.Func
	return spec.TypeByName("bpf_sk_assign_tcp_reqsk", &f) == nil
})
