// SPDX-License-Identifier: Apache-2.0

// Package splittest runs the real binary twice, as edge and as server, between the kernels of a
// client, an edge and a server: what happens to connections, and to
// floods, when two machines share the work.
package splittest
