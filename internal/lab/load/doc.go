// SPDX-License-Identifier: Apache-2.0

// Package load is the traffic on a topology of package rig: floods, clients and web servers
// that are measured, and hand-made frames and segments.
//
// It is the only part of Tidegate that generates attack traffic, and it sends only through
// interfaces that rig made, inside namespaces that rig made (see rig.Port.Verify). It must
// not know what protects the server.
package load
