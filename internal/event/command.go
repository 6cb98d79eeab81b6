// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Command runs a program for each event, one at a time, with the event as JSON on its standard input.
type Command struct{ argv []string }

// commandTime is how long a program may take.
var commandTime = 30 * time.Second

const commandOutput = 1 << 10 // of what it says, in an error

// NewCommand runs argv.
func NewCommand(argv []string) *Command { return &Command{argv} }

// Name is the taker's name.
func (c *Command) Name() string { return "command " + strings.Join(c.argv, " ") }

// Take runs the program. Exit code 0 means that it has taken the event; if it takes too long it is killed with all its children.
func (c *Command) Take(ctx context.Context, e Event) error {
	body, err := json.Marshal(&e)
	if err != nil {
		return errors.Join(errNever, err)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	output := &head{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), output, output
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"TIDEGATE_EVENT=" + e.ID, "TIDEGATE_KIND=" + string(e.Kind), "TIDEGATE_INSTANCE=" + e.Instance}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(output.String()))
	}
	return nil
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	if room := commandOutput - h.Len(); room > 0 {
		h.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
