// SPDX-License-Identifier: Apache-2.0

package speaker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	program = "tidegate-bgp"
	// ProgramEnv names the program, if it is neither beside tidegate nor on PATH.
	ProgramEnv = "TIDEGATE_BGP"

	retryFirst = time.Second
	retryLast  = 30 * time.Second
	endTime    = 5 * time.Second // for the program to close its sessions
)

// Find looks for the program: in the environment variable, beside this program, where packages put it, on PATH.
func Find() (string, error) {
	if at := os.Getenv(ProgramEnv); at != "" {
		if _, err := os.Stat(at); err != nil {
			return "", fmt.Errorf("%s: %w", ProgramEnv, err)
		}
		return at, nil
	}
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		for _, at := range []string{filepath.Join(dir, program), filepath.Join(dir, "..", "libexec", "tidegate", program)} { // the latter, of the packages
			if _, err := os.Stat(at); err == nil {
				return at, nil
			}
		}
	}
	if at, err := exec.LookPath(program); err == nil {
		return at, nil
	}
	return "", fmt.Errorf("%s is neither beside tidegate nor on PATH: `make build` makes it; or set %s", program, ProgramEnv)
}

// Speaker keeps the program running.
type Speaker struct {
	path     string
	settings Settings
	log      *slog.Logger

	mu      sync.Mutex
	paths   []Path
	report  Report
	running bool
	pid     int
	changed chan struct{} // has a value when there are new paths
	told    chan struct{} // has a value when there is a new report
}

// New fails if there is no program.
func New(settings Settings, log *slog.Logger) (*Speaker, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	return &Speaker{path: path, settings: settings, log: log, changed: make(chan struct{}, 1), told: make(chan struct{}, 1)}, nil
}

// Announce makes these all the paths that are announced. It must be called every OrderEvery: when the caller hangs, routes must end.
func (s *Speaker) Announce(paths []Path) {
	s.mu.Lock()
	s.paths = paths
	s.mu.Unlock()
	wake(s.changed)
}

// Report returns how the sessions are; without a running program, all of them are down.
func (s *Speaker) Report() (r Report, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report, s.running
}

// Told has a value when Report has something new.
func (s *Speaker) Told() <-chan struct{} { return s.told }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run keeps the program running until ctx ends.
func (s *Speaker) Run(ctx context.Context) {
	pause := retryFirst
	for ctx.Err() == nil {
		begun := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > retryLast {
			pause = retryFirst
		}
		s.log.Error("tidegate-bgp has ended, and nothing is announced; it is started again", "error", err, "in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryLast)
	}
}

// once runs the program until it or ctx ends.
func (s *Speaker) once(ctx context.Context) error {
	cmd := exec.Command(s.path)
	// Should this process be killed, its end of the pipe closes, too; the signal is for a program that hangs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var stderr lines
	stderr.log = s.log
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The signal follows the thread that starts the program, not the process: the thread must not end before it.
	started, ended := make(chan error), make(chan error, 1)
	go lockedStart(cmd, started, ended)
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.set(func() { s.running, s.pid = true, cmd.Process.Pid })
	defer s.set(func() { s.running, s.pid, s.report = false, 0, Report{} })
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read(out)
	}()
	wrote := s.write(ctx, in, read)
	_ = in.Close()
	timer := time.AfterFunc(endTime, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	<-read
	return errors.Join(wrote, <-ended, stderr.last())
}

// write sends orders until ctx ends or the program does.
func (s *Speaker) write(ctx context.Context, to io.Writer, ended <-chan struct{}) error {
	enc := json.NewEncoder(to)
	if err := enc.Encode(Order{Settings: &s.settings}); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		paths := s.paths
		s.mu.Unlock()
		if err := enc.Encode(Order{Paths: paths}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return nil
		case <-s.changed:
		}
	}
}

func (s *Speaker) read(from io.Reader) {
	for d := json.NewDecoder(from); ; {
		var r Report
		if err := d.Decode(&r); err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		s.set(func() { s.report = r })
	}
}

func (s *Speaker) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	wake(s.told)
}

// lines logs what the program writes to stderr, and keeps the last line.
type lines struct {
	log  *slog.Logger
	mu   sync.Mutex
	rest []byte
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			l.rest = l.rest[max(0, len(l.rest)-bufio.MaxScanTokenSize):]
			return len(b), nil
		}
		l.rest = rest
		l.text = string(line)
		l.log.Info("tidegate-bgp: " + l.text)
	}
}

func (l *lines) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return nil
	}
	return errors.New(l.text)
}
