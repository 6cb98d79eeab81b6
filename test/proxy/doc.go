// SPDX-License-Identifier: Apache-2.0

// Package proxytest holds the end-to-end tests of the proxy: client, box and server
// in network namespaces, real kernels, an unmodified server, the real binary in
// the box. Nothing in it may depend on how fast the machine is.
package proxytest
