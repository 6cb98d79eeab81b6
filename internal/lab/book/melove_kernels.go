// SPDX-License-Identifier: Apache-2.0

package book

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"tidegate/internal/device"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/overload"
)

// kernelReleases are those of figure 1 beside this machine's own: Debian 12's, the oldest that the lab runs on, and its backport.
func kernelReleases() []string { return []string{"6.1", "6.12"} }

// meLoveKernels is figure 1 on other kernels, each in a virtual machine, as `make test-kernel` boots them.
func meLoveKernels(ctx context.Context, s Setting) (*Finding, error) {
	source, err := device.FindSource()
	if err != nil {
		return nil, errors.New("test/kernel/run, which boots the kernels, was not found: run this inside Tidegate's source tree, after `make build`")
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

// counted is how a processor came about whose clock is the number of its instructions (QEMU's icount).
const counted = "counted"

// kernelResult is what one kernel did.
type kernelResult struct {
	Accelerator string `json:"accelerator"` // of the virtual machine: kvm; counted, emulated with a nanosecond for each instruction; or tcg, emulated
	*overload.Result
}

// kernelsFinding reads a line for each kernel: its release, how its processor came about, and the result as JSON.
func kernelsFinding(out []byte) (*Finding, error) {
	all := map[string]kernelResult{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		release, text, _ := strings.Cut(lines.Text(), " ")
		accelerator, text, _ := strings.Cut(text, " ")
		r := &overload.Result{}
		if err := json.Unmarshal([]byte(text), r); err != nil {
			return nil, fmt.Errorf("result of Linux %s: %w", release, err)
		}
		all[release] = kernelResult{accelerator, r}
	}
	return figureOfKernels(all), lines.Err()
}

// deriveKernels makes the finding of kept results.
func deriveKernels(data json.RawMessage) (*Finding, error) {
	all := map[string]kernelResult{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return figureOfKernels(all), nil
}

func figureOfKernels(all map[string]kernelResult) *Finding {
	f := &Finding{Data: all}
	plot := Plot{Title: "Me Love, figure 1, on other kernels in virtual machines", X: "SYN/s offered", Y: "% served", LogX: true}
	for _, release := range slices.Sorted(maps.Keys(all)) {
		r := all[release]
		for _, d := range r.Defences {
			reason := ""
			switch r.Accelerator {
			case "kvm":
			case counted:
				reason = "an emulated processor that takes a nanosecond for each instruction and has no caches: rates are its own, their order and their ratios are the kernels'"
			default:
				reason = "an emulated processor: KVM does not run this kernel here, so only the order of the rows says something"
			}
			if quiet, ok := withoutFlood(d); ok {
				f.Lines = append(f.Lines, beside("figure 1", fmt.Sprintf("Linux %s: %s, without a flood", r.Kernel, d.Name), fmt.Sprintf("%.1f %% of requests served", 100*quiet), "", "what the others are compared with"))
				if !quietEnough(d) {
					reason = "nothing: so slow an emulation does not serve these clients within a second even without a flood"
				}
			}
			for _, l := range kernelLines(d, r.Kernel) {
				// Without cookies the backlog is the limit, on any processor.
				if reason != "" && !(r.Accelerator == counted && d.Name == defences.None && quietEnough(d)) {
					l.Agrees, l.Reason = nil, reason
				}
				f.Lines = append(f.Lines, l)
			}
		}
		for _, c := range served(r.Result) {
			c.Name += ", " + r.Kernel
			plot.Curves = append(plot.Curves, c)
		}
	}
	f.Plots = []Plot{plot}
	return f
}

func quietEnough(d *overload.Defence) bool {
	quiet, ok := withoutFlood(d)
	return !ok || quiet >= overload.Served
}

// withoutFlood is the share that a defence served when nothing was offered.
func withoutFlood(d *overload.Defence) (share float64, ok bool) {
	for _, p := range d.Points {
		if p.Offered == 0 {
			return p.Success, true
		}
	}
	return 0, false
}
