// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tidegate/internal/config"
)

const (
	// ProgramEnv names the program, if it is neither beside tidegate nor on PATH.
	ProgramEnv = "TIDEGATE_DPDK"
	program    = "tidegate-dpdk"
	startTime  = 60 * time.Second
	stopTime   = 5 * time.Second

	// ringFrames are buffered by the kernel, per interface and direction, while the program does
	// not poll: 2 KiB each. The driver's 512 were full after 5 ms of 100,000 frames a second, which
	// is less than other processes on the same core may take.
	ringFrames = 8192
)

// Find looks for this plane's program: in the environment variable, beside this
// program, on PATH.
func Find(name string) (string, error) {
	if at := os.Getenv(ProgramEnv); at != "" {
		if name != program {
			at = filepath.Join(filepath.Dir(at), name)
		}
		if _, err := os.Stat(at); err != nil {
			return "", fmt.Errorf("%s: %w", ProgramEnv, err)
		}
		return at, nil
	}
	if self, err := os.Executable(); err == nil {
		at := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	if at, err := exec.LookPath(name); err == nil {
		return at, nil
	}
	return "", fmt.Errorf("%s is neither beside tidegate nor on PATH: build it with `make dpdk`, or set %s", name, ProgramEnv)
}

// Process is a running tidegate-dpdk.
type Process struct {
	Prefix string // DPDK's --file-prefix
	Socket string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
	stderr tail
}

// Start starts the program for a configuration and waits until it is ready. It
// dies with this process.
func Start(ctx context.Context, cfg *config.Config, prefix, socket string, log *slog.Logger) (*Process, error) {
	path, err := Find(program)
	if err != nil {
		return nil, err
	}
	p := &Process{Prefix: prefix, Socket: socket, exited: make(chan struct{})}
	p.cmd = exec.Command(path, arguments(cfg, prefix, socket)...)
	p.cmd.Stderr = io.MultiWriter(&p.stderr, lineLogger{log})
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ready := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				close(ready)
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.exited:
		return nil, p.Failure()
	case <-time.After(startTime):
		return nil, errors.Join(fmt.Errorf("%s is not ready after %s", path, startTime), p.Stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Stop())
	}
}

// arguments are DPDK's, and ours.
func arguments(cfg *config.Config, prefix, socket string) []string {
	d := &cfg.Proxy.DPDK
	args := []string{"-l", d.Cores, "--file-prefix", prefix, "-m", fmt.Sprint(d.MemoryMiB), "--log-level", "lib.*:warning"}
	if d.HugePages {
		args = append(args, "--huge-unlink") // otherwise the pages stay allocated when the program has ended
	} else {
		args = append(args, "--no-huge", "--no-shconf")
	}
	pci := false
	for _, dev := range d.Devices {
		if strings.Contains(dev, ".") && strings.Contains(dev, ":") {
			args, pci = append(args, "-a", dev), true
		} else {
			args = append(args, "--vdev", dev)
		}
	}
	if len(d.Devices) == 0 {
		for i, name := range cfg.Interfaces {
			args = append(args, "--vdev", fmt.Sprintf("net_af_packet%d,iface=%s,framecnt=%d", i, name, ringFrames))
		}
	}
	if !pci {
		args = append(args, "--no-pci")
	}
	args = append(args, "--", "--socket", socket, "--max-flows", fmt.Sprint(cfg.Proxy.MaxFlows),
		"--max-sources", fmt.Sprint(cfg.Proxy.MaxSources), "--cache-entries", fmt.Sprint(cfg.Proxy.CacheEntries), "--idle-us", fmt.Sprint(d.IdleUs))
	if d.WhiteBitmap {
		args = append(args, "--white-bitmap")
	}
	return args
}

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Failure returns how it ended, with its last output.
func (p *Process) Failure() error {
	return fmt.Errorf("tidegate-dpdk ended: %w: %s", p.err, p.stderr.String())
}

// Stop ends the program and removes what DPDK leaves behind.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return errors.Join(os.RemoveAll(RuntimeDir(p.Prefix)), os.RemoveAll(p.Socket), os.RemoveAll(observePath(p.Socket)))
}

// tail keeps the end of what was written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailMost = 2048

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailMost; n > 0 {
		t.buf = t.buf[n:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}

// lineLogger logs the program's output.
type lineLogger struct{ log *slog.Logger }

func (l lineLogger) Write(b []byte) (int, error) {
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if line != "" {
			l.log.Debug(line)
		}
	}
	return len(b), nil
}
