// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// icountShift makes every emulated instruction last 2^5 = 32 ns of the device's
// time: 31 million instructions a second, a class 2 device, whatever
// the host's speed is.
const icountShift = 5

// Machine is a running device. It dies with this process.
type Machine struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error

	mu  sync.Mutex
	log bytes.Buffer
}

func arguments(c Config, extra ...string) ([]string, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	return append([]string{"queue=" + strconv.Itoa(c.Queue), "secret=" + hex.EncodeToString(secret)}, extra...), nil
}

// qemu is the command line that runs an image with the given NIC.
func qemu(image, nic string, args []string) []string {
	semihosting := "enable=on,target=native,arg=firmware"
	for _, a := range args {
		semihosting += ",arg=" + a
	}
	return []string{"qemu-system-arm", "-M", "lm3s6965evb", "-nodefaults", "-display", "none", "-monitor", "none",
		"-serial", "stdio", "-nic", nic, "-icount", "shift=" + strconv.Itoa(icountShift) + ",sleep=on",
		"-semihosting-config", semihosting, "-kernel", image}
}

// Boot starts a device behind the tap and waits until it prints that it is ready.
func Boot(ctx context.Context, n *Net, kind Kind, image string, c Config) (*Machine, error) {
	args, err := arguments(c, "beacon=1")
	if err != nil {
		return nil, err
	}
	argv := append([]string{image, tapName}, args...)
	if kind == Firmware {
		argv = qemu(image, "tap,ifname="+tapName+",script=no,downscript=no,model=stellaris", args)
	}
	m := &Machine{cmd: exec.Command(argv[0], argv[1:]...), exited: make(chan struct{})}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	m.cmd.Stderr = m
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.NS.Do(m.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	ready := make(chan struct{})
	go m.read(stdout, ready)
	select {
	case <-ready:
		return m, nil
	case <-m.exited:
		return nil, fmt.Errorf("the device exited before it was ready: %w", m.failure())
	case <-ctx.Done():
		m.Stop()
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		m.Stop()
		return nil, fmt.Errorf("the device was not ready after 20 s: %s", m.Log())
	}
}

// read collects the console and detects the word ready; when the console ends,
// the device has ended.
func (m *Machine) read(stdout io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" && ready != nil {
			close(ready)
			ready = nil
			continue
		}
		fmt.Fprintln(m, lines.Text())
	}
	m.err = m.cmd.Wait()
	close(m.exited)
}

// Write adds to the log; it makes a Machine the child's stderr.
func (m *Machine) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(b)
}

// Log is the device's output, in one line.
func (m *Machine) Log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(m.log.String()), "\n", "; ")
}

func (m *Machine) failure() error {
	return fmt.Errorf("%w: %s", m.err, m.Log())
}

// Alive returns nil while the device runs.
func (m *Machine) Alive() error {
	select {
	case <-m.exited:
		return fmt.Errorf("the device has ended: %w", m.failure())
	default:
		return nil
	}
}

// Stop ends the device and waits for it.
func (m *Machine) Stop() {
	_ = m.cmd.Process.Kill()
	<-m.exited
}
