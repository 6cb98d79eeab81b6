// SPDX-License-Identifier: Apache-2.0

// Package fleets puts fleets of gates to the test, against a real cluster of NATS servers, each a process of its own, with TLS and with the rights of
// docs/fleet.md: Run builds gates, servers, routers and clients out of namespaces and measures who knows what when; Simulate has many nodes without a
// packet path report to three servers, and measures what that costs.
package fleets
