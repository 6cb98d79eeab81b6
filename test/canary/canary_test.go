// SPDX-License-Identifier: Apache-2.0

// Package canary holds a test that fails when it is told to, so that the test
// runner can prove that it tells failures. It must hold nothing else.
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
