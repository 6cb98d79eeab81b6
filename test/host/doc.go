// SPDX-License-Identifier: Apache-2.0

// Package hosttest holds the end-to-end tests of the host gate: real kernels in
// network namespaces, the real binary between them. What one packet becomes is
// told by the vectors; here is told what becomes of connections. Nothing in it
// may depend on how fast the machine is.
package hosttest
