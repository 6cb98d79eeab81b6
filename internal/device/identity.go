// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
)

// Identity builds the images of the tables and identifies what decides their figures: the code and
// data that the device runs, and the emulator. Neither the machine nor the lab's own programs belong to it.
func Identity(ctx context.Context, o Options) (string, error) {
	r, err := newRunner(o)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, c := range tableConfigs() {
		image, err := r.image(ctx, c)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, c)
		if err := hashLoaded(h, image); err != nil {
			return "", fmt.Errorf("%s: %w", image, err)
		}
	}
	version, err := exec.CommandContext(ctx, "qemu-system-arm", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("qemu-system-arm --version: %w", err)
	}
	first, _, _ := bytes.Cut(version, []byte("\n"))
	fmt.Fprintf(h, "%s, 2^%d ns an instruction\n", first, icountShift)
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// hashLoaded hashes what of an image is loaded: neither symbols nor paths of its sources.
func hashLoaded(h io.Writer, image string) error {
	f, err := elf.Open(image)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		fmt.Fprintf(h, "%x %x %x\n", p.Vaddr, p.Filesz, p.Memsz)
		if _, err := io.Copy(h, p.Open()); err != nil {
			return err
		}
	}
	return nil
}
