// SPDX-License-Identifier: Apache-2.0

// Package lab builds hosts out of network namespaces and veth, floods them,
// drives real clients, measures, and takes everything down again.
//
// It is the only part of Tidegate that generates attack traffic, and it sends
// only through interfaces that it made itself, inside namespaces that it made
// itself (see Port.verify). It knows nothing of the packet programs under test:
// the host defence is the tidegate binary, started as a user would start it.
package lab
