// SPDX-License-Identifier: Apache-2.0

// Package taggedtest runs the server role's translating side against an edge that was
// written from docs/split-protocol.md and docs/cookie-format.md alone: in Go, on
// packet sockets, sharing no code with core/ or bpf/. What the two agree on is what
// the documents say.
package taggedtest
