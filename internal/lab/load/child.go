// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"tidegate/internal/lab/rig"

	"golang.org/x/sys/unix"
)

// Names of the hidden subcommands of tidegate-lab that run inside a namespace.
const (
	ClientChild = "_client"
	childServer = "_httpd"
)

// RunClientChild is the body of `tidegate-lab _client`: read the configuration, check
// that the service answers, print ready, and begin on go.
func RunClientChild(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var cfg ClientConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	// Starts are scheduled to the microsecond: no timer slack.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if cfg.Urgent {
		if err := rig.Favour(os.Getpid()); err != nil {
			return fmt.Errorf("priority: %w", err)
		}
	}
	if err := preflight(cfg); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	if _, err := in.ReadBytes('\n'); err != nil {
		return fmt.Errorf("waiting for the start: %w", err)
	}
	res, err := runClient(cfg)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(res)
}

// preflight makes single requests until one succeeds.
func preflight(cfg ClientConfig) error {
	one := cfg
	one.Requests, one.Rate, one.Timeout = 1, 1, 2*time.Second
	var last map[string]int
	for range 4 {
		res, err := runClient(one)
		if err != nil {
			return err
		}
		if res.OK == 1 {
			return nil
		}
		last = res.Errors
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the service does not answer even before the flood: %v", last)
}

// RunServerChild is the body of `tidegate-lab _httpd SIZE`.
func RunServerChild(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the size of the response in bytes")
	}
	size, err := strconv.Atoi(args[0])
	if err != nil || size < 0 {
		return fmt.Errorf("size %q: want a number of bytes", args[0])
	}
	return serveBuiltin(size)
}

// IsChild reports whether the command line is one of the hidden children, and
// runs it. A test binary calls it first, since the lab re-executes itself.
func IsChild(args []string) (code int, is bool) {
	if len(args) < 2 {
		return 0, false
	}
	var err error
	switch args[1] {
	case ClientChild:
		err = RunClientChild(os.Stdin, os.Stdout)
	case childServer:
		err = RunServerChild(args[2:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}
