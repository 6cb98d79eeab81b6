// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"fmt"

	"tidegate/internal/binding/store"
)

// Messages for whoever speaks the protocol without an engine: tests, and the
// hostile managers of the simulation. Nothing here checks anything.

// EncodeSummary writes a summary.
func EncodeSummary(roots [store.Trees]store.Hash) []byte {
	b := make([]byte, 0, summaryLen)
	for _, r := range roots {
		b = append(b, r[:]...)
	}
	return encode(Summary, 0, b)
}

// EncodePush writes a push.
func EncodePush(records [][]byte) []byte { return encode(Push, 0, records) }

// EncodeNodes answers get-nodes with Fanout hashes of 32 bytes for each node.
func EncodeNodes(id uint32, hashes []byte) []byte { return encode(Nodes, id, hashes) }

// EncodeEntries answers get-entries.
func EncodeEntries(id uint32, lists [][]byte, more bool) []byte {
	return encode(Entries, id, entriesBody{Lists: lists, More: more})
}

// EncodeRecords answers get-records.
func EncodeRecords(id uint32, records [][]byte) []byte { return encode(Records, id, records) }

// EncodeGetNodes asks for the hashes below nodes.
func EncodeGetNodes(id uint32, tree uint8, nodes []uint16) []byte {
	return encode(GetNodes, id, getNodesBody{Tree: tree, Nodes: nodes})
}

// EncodeGetEntries asks for the entries of leaves.
func EncodeGetEntries(id uint32, tree uint8, leaves []uint16) []byte {
	return encode(GetEntries, id, getEntriesBody{Tree: tree, Leaves: leaves, After: []byte{}})
}

// EncodeGetRecords asks for records: slot and digest of each.
func EncodeGetRecords(id uint32, tree uint8, wants []byte) []byte {
	return encode(GetRecords, id, getRecordsBody{Tree: tree, Wants: wants})
}

// Request is what somebody asks.
type Request struct {
	Kind   Kind
	ID     uint32
	Nodes  []uint16
	Leaves []uint16
	Wants  []byte
}

// ReadRequest reads a message; what is no request has only its Kind.
func ReadRequest(msg []byte) (*Request, error) {
	d, err := decode(msg)
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return &Request{Kind: d.kind, ID: d.id, Nodes: d.getNodes.Nodes, Leaves: d.getEntries.Leaves, Wants: d.getRecords.Wants}, nil
}
