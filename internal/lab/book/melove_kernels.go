// SPDX-License-Identifier: Apache-2.0

package book

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tidegate/internal/device"
	"tidegate/internal/lab/overload"
)

// kernelReleases are those of figure 1 beside this machine's own: Debian 12's, the oldest that the lab runs on, and its backport.
func kernelReleases() []string { return []string{"6.1", "6.12"} }

// meLoveKernels is figure 1 on other kernels, each in a virtual machine, as `make test-kernel` boots them.
func meLoveKernels(ctx context.Context, s Setting) (*Finding, error) {
	source, err := device.FindSource()
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(source)
	releases := kernelReleases()
	if s.Smallest {
		releases = releases[:1]
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "test/kernel/run"), append([]string{"--figure1"}, releases...)...)
	cmd.Dir = root
	// A group of its own: the script's children end with it, after Ctrl-C and when this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	said := &told{progress: s.Progress}
	cmd.Stdout, cmd.Stderr = &out, said
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the child
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("test/kernel/run: %w: %s", err, last(said.all.String(), 5))
	}
	return kernelsFinding(out.Bytes())
}

// told keeps what a child says, and passes it on line by line.
type told struct {
	all      bytes.Buffer
	begun    int // where the line begins that is not complete yet
	progress func(string, ...any)
}

func (t *told) Write(p []byte) (int, error) {
	t.all.Write(p)
	for {
		line, _, whole := bytes.Cut(t.all.Bytes()[t.begun:], []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		t.begun += len(line) + 1
		if t.progress != nil {
			t.progress("  %s", line)
		}
	}
}

// last returns the last lines of a text, as one.
func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// kernelsFinding reads a line for each kernel: its release, how its processor came about, and the result as JSON.
func kernelsFinding(out []byte) (*Finding, error) {
	all := map[string]*overload.Result{}
	f := &Finding{Data: all}
	plot := Plot{Title: "Me Love, figure 1, on other kernels in virtual machines", X: "SYN/s offered", Y: "% served", LogX: true}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		release, text, _ := strings.Cut(lines.Text(), " ")
		accelerator, text, _ := strings.Cut(text, " ")
		r := &overload.Result{}
		if err := json.Unmarshal([]byte(text), r); err != nil {
			return nil, fmt.Errorf("result of Linux %s: %w", release, err)
		}
		all[release] = r
		for _, d := range r.Defences {
			for _, l := range kernelLines(d, r.Kernel) {
				if accelerator != "kvm" {
					l.Agrees, l.Reason = nil, "an emulated processor: KVM does not run this kernel here, so only the order of the rows says something"
				}
				f.Lines = append(f.Lines, l)
			}
		}
		for _, c := range served(r) {
			c.Name += ", " + r.Kernel
			plot.Curves = append(plot.Curves, c)
		}
	}
	f.Plots = []Plot{plot}
	return f, lines.Err()
}
