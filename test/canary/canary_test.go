// SPDX-License-Identifier: Apache-2.0

// Package canary holds a test that fails on request, so that the test
// runner can prove that it reports failures. It must hold nothing else.
package canary

import (
	"os"
	"testing"
)

func TestCanary(t *testing.T) {
	if os.Getenv("TIDEGATE_CANARY") != "" {
		t.Fatal("fails on purpose")
	}
}
