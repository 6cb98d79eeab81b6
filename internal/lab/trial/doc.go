// SPDX-License-Identifier: Apache-2.0

// Package trial is one experiment after the other: a topology, a flood, real clients and a
// defence, and what was measured; and the distribution of the time to connect.
//
// It must not know how results are drawn (package report).
package trial
