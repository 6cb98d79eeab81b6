// SPDX-License-Identifier: Apache-2.0

// Package trial runs one experiment: a topology, a flood, real clients and a
// defence, and measures the result; and the distribution of the time to connect.
//
// It must not know how results are plotted (package report).
package trial
