// SPDX-License-Identifier: Apache-2.0

// Package machines builds common kinds of machines, with their firewalls, containers,
// bridges and routers, and compares what the clients of each get without tidegate, with it, and
// with it under a flood. A Scenario is a small value; each group of them has a file. The package must
// not know how tidegate decides: it uses only what tidegate reports and what clients see.
package machines
