// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"tidegate/internal/keys"
)

// The counterparts of a measurement run in a child process of their own, on the other CPU.

// partConfig configures a counterpart, over its standard input.
type partConfig struct {
	Kind    string // bm, fm+patrol, bm-of-patrol
	CPU     int
	Peer    netip.AddrPort // the peer's address
	Seed    keys.Secret    // its identity
	PeerKey []byte
	Count   int // filters or requests
	PerMsg  int
}

// partReply is what a counterpart writes to its standard output.
type partReply struct {
	Addr netip.AddrPort
	Rate float64
}

// RunTerminusPart is the body of the hidden child process.
func RunTerminusPart(in io.Reader, out io.Writer) error {
	var c partConfig
	r := bufio.NewReader(in)
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return err
	}
	if err := pinAll(c.CPU); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	switch c.Kind {
	case "bm":
		return dummyBM(enc)
	case "patrol":
		return dummyPatrol(&c, enc)
	case "fm":
		return dummyFM(&c, enc)
	case "bm-of-patrol":
		return dummyBMOfPatrol(&c, enc)
	}
	return fmt.Errorf("no part %q", c.Kind)
}

// pinAll binds this process to a CPU: its current and future threads.
func pinAll(cpu int) error {
	runtime.GOMAXPROCS(1)
	return setAffinity(func(s *unix.CPUSet) { s.Set(cpu) })
}

func setAffinity(fill func(*unix.CPUSet)) error {
	var set unix.CPUSet
	fill(&set)
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// alone runs the measured part on one CPU and then restores the process's affinity and GOMAXPROCS.
func alone(cpu int, f func() error) error {
	procs := runtime.GOMAXPROCS(0)
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := pinAll(cpu); err != nil {
		return err
	}
	err := f()
	runtime.GOMAXPROCS(procs)
	return errors.Join(err, setAffinity(func(s *unix.CPUSet) { *s = before }))
}

// controlPart is a running counterpart.
type controlPart struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func (b *terminusBench) startPart(c partConfig) (*controlPart, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "bench", "_part")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// Not from a locked thread, which ends with its goroutine: Pdeathsig fires when the starting thread ends.
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &controlPart{cmd, in, json.NewDecoder(out)}
	if err := json.NewEncoder(in).Encode(c); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *controlPart) reply() (r partReply, err error) {
	if err = p.out.Decode(&r); err != nil {
		return r, fmt.Errorf("the peer process exited: %w", err)
	}
	return r, nil
}

func (p *controlPart) stop() {
	p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
