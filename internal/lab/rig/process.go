// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a child inside a namespace. It dies with this process
// (Pdeathsig), and the end of its stderr is kept for error messages.
type Process struct {
	name   string
	Cmd    *exec.Cmd
	Stderr tail
	Exited chan struct{}
	err    error
}

// StartProcess starts a child inside n (nil: where this process is), pinned to cpu (-1: unpinned). stdin and
// stdout may be nil.
func StartProcess(n *Namespace, cpu int, stdin io.Reader, stdout io.Writer, argv ...string) (*Process, error) {
	p := &Process{name: argv[0], Exited: make(chan struct{})}
	p.Cmd = exec.Command(argv[0], argv[1:]...)
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = stdin, stdout, &p.Stderr
	// Setpgid keeps a terminal's Ctrl-C for the parent, which stops the children in order.
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.Cmd.WaitDelay = 2 * time.Second
	inside := onThread
	if n != nil {
		inside = n.Do
	}
	err := inside(func() error {
		return WithAffinity(cpu, p.Cmd.Start)
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		close(p.Exited)
	}()
	return p, nil
}

// WithAffinity runs f with the calling thread pinned; children inherit that.
func WithAffinity(cpu int, f func() error) error {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := pinThread(cpu); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &before)
	return f()
}

// Stop sends SIGTERM, after the grace time SIGKILL, and waits.
func (p *Process) Stop(grace time.Duration) { p.End(syscall.SIGTERM, grace) }

// End is Stop with another signal.
func (p *Process) End(ask syscall.Signal, grace time.Duration) {
	_ = p.Cmd.Process.Signal(ask)
	select {
	case <-p.Exited:
		return
	case <-time.After(grace):
	}
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

// Wait returns when the child has ended; if ctx ends first, it kills the child.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.Exited:
	case <-ctx.Done():
		_ = p.Cmd.Process.Kill()
		<-p.Exited
		return ctx.Err()
	}
	return p.Failure()
}

// Failure describes a child's failure in one line; nil if it ended well.
func (p *Process) Failure() error {
	if p.err == nil {
		return nil
	}
	if text := p.Stderr.String(); text != "" {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, text)
	}
	return fmt.Errorf("%s: %w", p.name, p.err)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailLen = 2048

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailLen; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ReplaceAll(string(bytes.TrimSpace(t.buf)), "\n", "; ")
}
