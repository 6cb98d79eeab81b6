// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"tidegate/internal/proginfo"
)

// Cost is the CPU time an installed program has used while the kernel counted.
type Cost struct {
	Hook      string `json:"hook"` // xdp, tc, egress
	Interface string `json:"interface"`
	Program   uint32 `json:"program"` // its ID; one program on several interfaces has one cost
	Runs      uint64 `json:"runs"`
	Ns        uint64 `json:"ns"`
}

// CountCosts makes the kernel count the run time of all BPF programs, ours and others', until the counter is closed or this
// process ends. That costs each run of a program about 30 ns, and needs CAP_SYS_ADMIN.
func CountCosts() (io.Closer, error) {
	const runTime = 0 // BPF_STATS_RUN_TIME
	c, err := ebpf.EnableStats(runTime)
	if err != nil {
		return nil, fmt.Errorf("counting the run time of BPF programs: %w; it needs CAP_SYS_ADMIN (root)", err)
	}
	return c, nil
}

// Costs reads the cost of an instance's programs since they were loaded, as far as it was counted.
func Costs(bpffs, instance string) (list []Cost, err error) {
	(&attachments{dir: PinDir(bpffs, instance)}).eachPin(func(path, kind, name string) {
		c, e := costOf(path)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s on %s: %w", kind, name, e))
			return
		}
		c.Hook, c.Interface = kind, name
		list = append(list, c)
	})
	return list, err
}

func costOf(path string) (c Cost, err error) {
	l, err := openHook(path)
	if err != nil {
		return c, err
	}
	defer l.Close()
	prog, err := programOf(l, path)
	if h, beside := l.(*dispatchedHook); beside && err == nil {
		prog.Close()
		prog, err = h.dispatcherProgram()
	}
	if err != nil {
		return c, err
	}
	defer prog.Close()
	id, err := proginfo.ID(prog)
	if err != nil {
		return c, err
	}
	s, err := prog.Stats()
	if err != nil {
		return c, err
	}
	c.Program, c.Runs, c.Ns = uint32(id), s.RunCount, uint64(s.Runtime)
	return c, nil
}
