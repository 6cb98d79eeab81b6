// SPDX-License-Identifier: Apache-2.0

package keys

// What edges and servers say to each other in the protocol `tagged` (docs/split-protocol.md)
// has a key for each kind of message: with one for all, what an attacker makes an edge write
// in one kind could be read as another. Each is derived as EpochKey, with its own label.
const (
	tagLabel     = "TGT1"
	confirmLabel = "TGC1"
	syncLabel    = "TGS1"
)

// TagKey derives the key of the tags of epoch n, edge to server.
func (s *Secret) TagKey(n uint64) [EpochKeyLen]byte { return s.derive(tagLabel, n) }

// ConfirmKey derives the key of the confirmations of epoch n, server to edge.
func (s *Secret) ConfirmKey(n uint64) [EpochKeyLen]byte { return s.derive(confirmLabel, n) }

// SyncKey derives the key of what edges tell each other in epoch n.
func (s *Secret) SyncKey(n uint64) [EpochKeyLen]byte { return s.derive(syncLabel, n) }
