// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os/exec"
	"strings"
	"testing"
)

// Capture starts `tidegate capture` with further arguments and waits until the packet path captures. End it with End, or wait for its end.
func (i *Instance) Capture(args ...string) *Process {
	i.T.Helper()
	p := i.LaunchCommand(append([]string{"capture", "--instance", i.Name}, args...)...)
	p.Await("a capture", func() bool { return len(i.Status().Capturing) > 0 })
	return p
}

// CaptureComments returns the comments, as tshark shows them, of a capture's packets that a display filter selects.
func CaptureComments(t *testing.T, file, filter string) []string {
	t.Helper()
	cmd := exec.Command("tshark", "-n", "-r", file, "-Y", filter, "-T", "fields", "-e", "frame.comment")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark (tools/deps.sh test installs it): %v: %s", err, errs.String())
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// WantComment expects that a packet selected by a display filter was captured with this comment, with or without a turn at the end of
// the queue: in generic mode a veth does not gather packets, and each ACK takes one.
func WantComment(t *testing.T, file, filter, want string) {
	t.Helper()
	list := CaptureComments(t, file, filter)
	for _, comment := range list {
		if strings.Replace(comment, " after a turn at the end of the queue;", "", 1) == want {
			return
		}
	}
	t.Errorf("%s: no packet has the comment %q; these have: %q", filter, want, list)
}
