// SPDX-License-Identifier: Apache-2.0

// Package taggedtest runs the server role's translating side against an edge
// written from docs/split-protocol.md and docs/cookie-format.md alone: in Go, on
// packet sockets, sharing no code with core/ or bpf/. If both agree, the documents are
// right.
package taggedtest
