package plane

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

func TestObjectsAreAccepted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the kernel's verifier is asked")
	}
	for _, o := range Objects() {
		if err := o.Try(); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
}

// A program that reads a register that was never set must be refused, and told
// from trouble of another kind.
func TestRefusalIsTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the kernel's verifier is asked")
	}
	bad := Object{Role: "none", Name: "bad", Spec: func() (*ebpf.CollectionSpec, error) {
		return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"bad": {Type: ebpf.XDP, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Reg(asm.R0, asm.R5), asm.Return()}}}}, nil
	}}
	if err := bad.Try(); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}
