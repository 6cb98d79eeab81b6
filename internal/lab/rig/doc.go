// SPDX-License-Identifier: Apache-2.0

// Package rig builds hosts out of network namespaces and veth: ports, topologies, links
// that lose and delay packets, processes and the processors they are pinned to. Everything it makes
// carries the name of its owner, and is removed once that process is gone, even if it was killed.
//
// It sends nothing itself, and must not know what runs in a topology: floods and
// clients are in load, what protects a server is in defences.
package rig
