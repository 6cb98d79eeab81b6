// SPDX-License-Identifier: Apache-2.0

// Package device builds and runs the lwIP device of lwip/ behind a tap inside a
// network namespace, attacks it there, and measures what its clients still get
// and the cost of a SYN.
//
// The device is either the firmware in QEMU or its application as a program of
// this machine. Its time is its own: the device sends beacons that carry its
// clock, and throughput and the rate of the attack are counted by that clock,
// so that neither depends on how fast the emulator happens to run.
//
// It knows nothing of the other roles and their packet programs.
package device
