// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
)

// NFT loads rules, in the syntax of nftables, into a namespace.
func NFT(t *testing.T, n *rig.Namespace, rules string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	var out Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.Do(cmd.Run); err != nil {
		t.Fatalf("nft (apt-get install nftables): %v: %s", err, out.String())
	}
}

// Lose drops the first packet at a hook of a namespace ("input", "output") that matches, and no other, as if it were lost on a wire.
// The table is called loss.
func Lose(t *testing.T, n *rig.Namespace, hook, match string) {
	t.Helper()
	NFT(t, n, fmt.Sprintf("table inet loss {\n chain c {\n type filter hook %s priority 0;\n %s quota until 100 bytes drop\n}\n}\n", hook, match))
}
