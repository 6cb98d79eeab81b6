// SPDX-License-Identifier: Apache-2.0

// Package natsd runs NATS's server, with JetStream, in a namespace of a test. It is not in package world, so that only the tests that
// need a fleet are linked with it.
package natsd

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/lab/rig"
)

// dirVar makes the test's binary a NATS server with this directory: it has to be a process, to listen in a namespace.
const dirVar = "TIDEGATE_TEST_NATS"

// Port is where it listens, at every address of its namespace.
const Port = 4222

// Main is the first thing in TestMain: in a process that Start has made it is the server, and does not return.
func Main() {
	dir := os.Getenv(dirVar)
	if dir == "" {
		return
	}
	s, err := server.NewServer(&server.Options{Host: "0.0.0.0", Port: Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Start()
	s.WaitForShutdown()
	os.Exit(0)
}

// Start runs the server until the test ends, or the caller kills it. What it has stored in `dir` is there again for the next one.
func Start(t *testing.T, n *rig.Namespace, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dirVar+"="+dir)
	if err := n.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}
