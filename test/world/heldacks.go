// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	"tidegate/internal/lab/rig"
)

// HoldACKs has a namespace send nothing over TCP but SYNs, until release: a client's connect succeeds with the SYN-ACK, and the other
// end hears of it only afterwards, with the first data or when they are sent again.
func HoldACKs(t *testing.T, n *rig.Namespace) (release func()) {
	t.Helper()
	NFT(t, n, "table inet held {\n chain c {\n type filter hook output priority 0;\n meta l4proto tcp tcp flags & syn == 0 drop\n}\n}\n")
	return func() {
		t.Helper()
		NFT(t, n, "delete table inet held\n")
	}
}
