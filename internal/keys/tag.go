// SPDX-License-Identifier: Apache-2.0

package keys

// In the protocol `tagged` (docs/split-protocol.md) each kind of message between edges and servers
// has a key of its own: with a shared one, a message of one kind that an attacker makes an edge write
// could be read as another kind. Each is derived as EpochKey, with its own label.
const (
	tagLabel     = "TGT1"
	confirmLabel = "TGC1"
	syncLabel    = "TGS1"
)

// TagKey derives the key of the tags of epoch n, edge to server.
func (s *Secret) TagKey(n uint64) [EpochKeyLen]byte { return s.derive(tagLabel, n) }

// ConfirmKey derives the key of the confirmations of epoch n, server to edge.
func (s *Secret) ConfirmKey(n uint64) [EpochKeyLen]byte { return s.derive(confirmLabel, n) }

// SyncKey derives the key of messages between edges of epoch n.
func (s *Secret) SyncKey(n uint64) [EpochKeyLen]byte { return s.derive(syncLabel, n) }
