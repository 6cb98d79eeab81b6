// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"runtime"
	"testing"
	"time"
)

func TestCoreToCore(t *testing.T) {
	cpus := allowedCPUs()
	if len(cpus) < 2 {
		t.Skip("one processor")
	}
	own := affinity(t, 0)
	d, err := CoreToCore(cpus[0], cpus[1])
	if err != nil || d < time.Nanosecond || d > time.Millisecond {
		t.Errorf("%s, %v; want a time between a clock cycle and a pause of the whole machine", d, err)
	}
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.GOMAXPROCS(1)
	if _, err := CoreToCore(cpus[0], cpus[1]); err != nil {
		t.Error(err)
	}
	if set := affinity(t, 0); set != own {
		t.Errorf("this thread is bound to %v, before it was to %v", set, own)
	}
	if _, err := CoreToCore(cpus[0], 1023); err == nil {
		t.Error("processor 1023 was measured; it does not exist")
	}
	if _, err := CoreToCore(cpus[0], cpus[0]); err == nil {
		t.Error("a processor was measured with itself")
	}
}
