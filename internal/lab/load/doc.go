// SPDX-License-Identifier: Apache-2.0

// Package load is what a topology of package rig bears: floods, clients and web servers
// that are measured, and frames and segments made by hand.
//
// It is the only part of Tidegate that generates attack traffic, and it sends only through
// interfaces that rig made, inside namespaces that rig made (see rig.Port.Verify). It must
// not know what protects the server.
package load
