// SPDX-License-Identifier: Apache-2.0

// Package machines builds machines as people have them, with their firewalls, containers,
// bridges and routers, and compares what the clients of each get without tidegate, with it, and
// with it under a flood. A Scenario is a small value; one file has each group of them. It must
// know neither how tidegate decides nor what it finds, only what it says and what clients see.
package machines
