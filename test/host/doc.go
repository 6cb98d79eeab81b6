// SPDX-License-Identifier: Apache-2.0

// Package hosttest holds the end-to-end tests of the host gate: real kernels in
// network namespaces, the real binary between them. The vectors test
// single packets; these tests are about connections. They must not
// depend on how fast the machine is.
package hosttest
