package vectors_test

import "testing"

func newWireGate(t *testing.T) *kernelGate { t.Skip(); return nil }
