// SPDX-License-Identifier: Apache-2.0

// Package p4 drives our P4 programs (p4/) on a switch: it turns a configuration, the
// secret and the clock into table entries, rotates the filter's generations,
// makes entries from digests and ages them. It must never decide about a packet, and
// the switch must never wait for it: keys are loaded ahead, by the switch's own clock.
package p4

//go:generate go run ./gen -core ../../core -out ../../p4/shared/generated.p4
