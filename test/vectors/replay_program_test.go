// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/vectors"
)

// replayProgram is a program that answers commands line by line (core/test/commands.h).
type replayProgram struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startReplay(t *testing.T, program string) *replayProgram {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // DPDK never frees what it allocates at the start
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("native replay ended with %v\n%s", err, stderr)
		}
	})
	return &replayProgram{in: in, out: bufio.NewReaderSize(out, 1<<18)}
}

// ask sends one command and returns the words of the answer.
func (g *replayProgram) ask(format string, args ...any) ([]string, error) {
	answers, err := g.askAll([]string{fmt.Sprintf(format, args...)})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// askAll sends commands in one write, so that the program and this one do not wait for each other after each, and returns the
// words of each answer.
func (g *replayProgram) askAll(commands []string) (answers [][]string, err error) {
	written := make(chan error, 1)
	go func() { // beside the reading: neither pipe may have room for all
		_, err := io.WriteString(g.in, strings.Join(commands, "\n")+"\n")
		written <- err
	}()
	for _, c := range commands {
		line, err := g.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("%.60s: %w", c, err)
		}
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "error:" {
			return nil, fmt.Errorf("%.60s: answer %q", c, line)
		}
		answers = append(answers, words)
	}
	return answers, <-written
}

// obey gives commands that are answered by no more than "ok".
func (g *replayProgram) obey(commands ...string) error {
	_, err := g.askAll(commands)
	return err
}

// Counters asks for all counters that are not zero.
func (g *replayProgram) Counters() (vectors.Counters, error) {
	words, err := g.ask("counters")
	if err != nil {
		return nil, err
	}
	return countersOf(words)
}

// countersOf reads the answer to `counters`.
func countersOf(words []string) (vectors.Counters, error) {
	c := vectors.Counters{}
	for _, w := range words[1:] {
		where, value, _ := strings.Cut(w, "=")
		number, name, _ := strings.Cut(where, ":")
		id, err1 := strconv.ParseUint(number, 10, 32)
		n, err2 := strconv.ParseUint(value, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%q: %w", w, err)
		}
		if c[uint32(id)] == nil {
			c[uint32(id)] = map[string]uint64{}
		}
		c[uint32(id)][name] = n
	}
	return c, nil
}
