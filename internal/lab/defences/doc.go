// SPDX-License-Identifier: Apache-2.0

// Package defences starts the defences that the lab compares: plain Linux,
// its SYN cookies, nftables SYNPROXY, and Tidegate, on the server or in a box
// before it.
//
// It must not know the packet programs under test: Tidegate is the binary, started as
// users start it. Nor does it know floods, clients or what is measured.
package defences
