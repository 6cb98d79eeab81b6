// SPDX-License-Identifier: Apache-2.0

// Package rig builds hosts out of network namespaces and veth: ports, topologies, links
// that lose and delay, processes and the processors they are pinned to. Whatever it makes
// bears the name of its owner, and is removed when that one is gone, even if it was killed.
//
// It sends nothing by itself, and must not know what runs in a topology: floods and
// clients stand in load, what protects a server in defences.
package rig
