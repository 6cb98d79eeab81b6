// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"

	"tidegate/internal/plane/hostbpf"
)

const synsTickShift = 34 // TG_FILTER_TICK_SHIFT of core/tuple_filter.h

// kernelMayHaveAnswered has the final ACK check take any SYN for one that has come by now (bpf/lib/kernel_cookie.h): what has come before
// a program was there to see it is not known, and the kernel may have answered it with a cookie of its own.
func (p *Plane) kernelMayHaveAnswered() error {
	return p.fillKernelSYNs(max(uint64(MonotonicNs())>>synsTickShift&0xffff, 1))
}

// ForgetKernelSYNs has it that no SYN has come for minutes: for tests and benchmarks.
func (p *Plane) ForgetKernelSYNs() error { return p.fillKernelSYNs(0) }

func (p *Plane) fillKernelSYNs(tick uint64) error {
	m, has := p.maps[hostbpf.HostTcMapTgKernelSyns]
	if !has {
		return nil
	}
	list, values := make([]uint32, m.MaxEntries()), make([]uint64, m.MaxEntries())
	for i := range list {
		list[i], values[i] = uint32(i), tick
	}
	if _, err := m.BatchUpdate(list, values, nil); err != nil {
		return fmt.Errorf("which SYNs the kernel may have answered: %w", err)
	}
	return nil
}
