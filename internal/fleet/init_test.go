// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// Who asks for more copies than servers have found each other is told what to do. The servers say so for a moment after their start only.
func TestTooFewServersExplained(t *testing.T) {
	err := explain(fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement, peer offline"}))
	for _, want := range []string{"start the others", "try again", "peer offline"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}
