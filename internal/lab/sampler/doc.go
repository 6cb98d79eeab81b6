// SPDX-License-Identifier: Apache-2.0

// Package sampler asks, some thousand times a second, what one processor is doing (perf_event_open(2), by the software
// clock, so that it works without performance counters, too), and says which functions of the kernel that was.
//
// With interrupts off a processor cannot be asked: such stretches are charged to the instruction that turns them on again.
package sampler
