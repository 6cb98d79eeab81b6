// SPDX-License-Identifier: Apache-2.0

// Package splittest runs the real binary twice, as edge and as server, between a
// client's, an edge's and a server's kernel: what becomes of connections, and of
// floods, with the work split in two.
package splittest
