// SPDX-License-Identifier: Apache-2.0

// Package p4_test runs our P4 programs on bmv2's simple_switch: compiled by p4c-bm2-ss,
// on veths in namespaces of their own, with the controller of internal/p4.
//
// The compiler and the switch are looked for in P4C and SIMPLE_SWITCH, then on PATH.
// Where they are missing the tests skip and say so; with TIDEGATE_P4=require
// (make test-p4) they fail.
package p4_test
