// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Pinning assigns CPUs. The server's work on flood packets runs in
// the softirq of the flood's CPU, its work on the clients' packets in that of theirs.
type Pinning struct {
	Flood  int `json:"flood"`
	Server int `json:"server"`
	Client int `json:"client"`
}

// choosePinning spreads the parts over the CPUs this process may use: it separates the flood
// first, then the clients from the server.
func choosePinning(cpus []int) Pinning {
	switch len(cpus) {
	case 0:
		return Pinning{-1, -1, -1}
	case 1:
		return Pinning{cpus[0], cpus[0], cpus[0]}
	case 2:
		return Pinning{Flood: cpus[0], Server: cpus[1], Client: cpus[1]}
	}
	return Pinning{Flood: cpus[0], Server: cpus[1], Client: cpus[2]}
}

// allowedCPUs lists the CPUs this process may run on.
func allowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cpus []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// pinThread binds the calling thread; -1 leaves it unbound.
func pinThread(cpu int) error {
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}
