// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kind is what a device runs on.
type Kind int

const (
	Firmware Kind = iota // the image for lm3s6965evb, in QEMU
	Program              // the same application, lwIP and module on this machine, sanitizers on
)

// packages of Debian, and a file or command that shows that each is installed.
var packages = map[Kind][][2]string{
	Firmware: {
		{"qemu-system-arm", "qemu-system-arm"}, {"gcc-arm-none-eabi", "arm-none-eabi-gcc"},
		{"libnewlib-arm-none-eabi", "/usr/lib/arm-none-eabi/newlib/thumb/v7-m/nofp/libc_nano.a"},
		{"make", "make"}, {"dpkg-dev", "dpkg-source"},
	},
	Program: {{"gcc", "gcc"}, {"libc6-dev", "/usr/include/stdio.h"}, {"make", "make"}, {"dpkg-dev", "dpkg-source"}},
}

func missing(kind Kind) []string {
	var names []string
	for _, p := range packages[kind] {
		if filepath.IsAbs(p[1]) {
			if _, err := os.Stat(p[1]); err == nil {
				continue
			}
		} else if _, err := exec.LookPath(p[1]); err == nil {
			continue
		}
		names = append(names, p[0])
	}
	return names
}

// installMissing installs the packages that building and running need.
func installMissing(ctx context.Context, kind Kind, progress func(string, ...any)) error {
	names := missing(kind)
	if len(names) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s (names of Debian packages); install them, or run this as root", strings.Join(names, ", "))
	}
	progress("installing %s by apt-get", strings.Join(names, " "))
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, names...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get install %s: %w: %s", strings.Join(names, " "), err, lastLine(out))
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// FindSource returns the folder lwip/ of the source tree: beside the working
// directory or one above it, or beside the binary's own folder.
func FindSource() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for {
			candidate := filepath.Join(dir, "lwip")
			if _, err := os.Stat(filepath.Join(candidate, "fetch-lwip.sh")); err == nil {
				return candidate, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("the firmware's source, the folder lwip/, was not found: run this inside the source tree, or name it with --source")
}

// Build makes the image for a configuration and returns its path.
func Build(ctx context.Context, source string, kind Kind, c Config, progress func(string, ...any)) (string, error) {
	if err := installMissing(ctx, kind, progress); err != nil {
		return "", err
	}
	target, file := "firmware", "firmware-"+c.image()+".elf"
	if kind == Program {
		target, file = "tapserver-one", "tapserver-"+c.image()
	}
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", source, target, "POLICY="+c.Policy, "LAYOUT="+c.Layout)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the %s image: %w:\n%s", c, err, out)
	}
	return filepath.Join(source, "..", "build", "lwip", file), nil
}
