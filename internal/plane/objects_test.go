// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
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

// What is compiled for this package is tried, but for the capture's program, which extends another one when somebody asks for it.
func TestEveryObjectIsTried(t *testing.T) {
	compiled, err := filepath.Glob("*/*_bpfel.o")
	if err != nil || len(compiled) == 0 {
		t.Fatalf("%d objects, %v", len(compiled), err)
	}
	tried := map[string]bool{"capture": true}
	for _, o := range Objects() {
		tried[strings.ReplaceAll(o.Name, "_", "")] = true
	}
	for _, path := range compiled {
		if name := strings.TrimSuffix(filepath.Base(path), "_bpfel.o"); !tried[name] {
			t.Errorf("%s is not among Objects: neither `tidegate check` nor make test-kernel tries it", name)
		}
	}
}

// Where the MTU is large, drivers refuse in native mode what cannot take a frame in more than one buffer.
func TestProgramsTakeFramesInMoreBuffers(t *testing.T) {
	ran := 0
	for _, o := range Objects() {
		if o.Name == "proxy_retransmit" {
			continue // makes frames, and is attached to nothing
		}
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range spec.Programs {
			if p.Type != ebpf.XDP {
				continue
			}
			ran++
			if p.Flags&unix.BPF_F_XDP_HAS_FRAGS == 0 {
				t.Errorf("%s: %s is SEC(\"xdp\"), want SEC(\"xdp.frags\")", o.Name, name)
			}
		}
	}
	if ran == 0 {
		t.Error("no program was looked at")
	}
}

// The verifier walks at most a million instructions of a program. Another kernel may need more
// than this one, and each start of a role costs the processor time (a quarter of a second for 400,000).
const mostVerified = 400_000

func TestObjectsLeaveTheVerifierRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the kernel's verifier is asked")
	}
	for _, o := range Objects() {
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range spec.Maps {
			shrink(m)
		}
		coll, err := ebpf.NewCollection(spec)
		if err != nil {
			t.Errorf("%s: %v", o.Name, err)
			continue
		}
		for name, p := range coll.Programs {
			info, err := p.Info()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if n, ok := info.VerifiedInstructions(); ok && n > mostVerified {
				t.Errorf("%s: the verifier walks %d instructions, want at most %d: end loops with TG_FORGET (core/base.h)", name, n, mostVerified)
			} else {
				t.Logf("%s: %d", name, n)
			}
		}
		coll.Close()
	}
}

// A program that reads an uninitialised register must be refused, with an error
// distinct from other failures.
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
