// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"fmt"
	"os"
	"testing"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// tidegate is the program under test.
var tidegate string

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(world.Main(m, &tidegate))
}

// Every place works: clients are served through the flood's port, every
// offered frame was processed or lost, and the victim's processor did the work.
func TestStand(t *testing.T) {
	world.NeedRoot(t)
	for _, c := range []struct {
		defence string
		kernel  bool // clients with sockets
		ipv6    bool
	}{{defences.Kernel, false, false}, {defences.Kernel, true, false}, {defences.Nft, false, false}, {defences.Host, false, true}, {defences.Edge, false, false}, {defences.ProxyPrefix + "auth-full", false, false}} {
		name := fmt.Sprintf("%+v", c)
		o := DefaultOptions().Base
		o.Alone = false // other packages' tests run, too
		o.Defence, o.IPv6, o.Exe, o.Server, o.Load, o.Duration, o.Retries = c.defence, c.ipv6, tidegate, load.ServerBuiltin, 50, time.Second, 1
		o.Timeout = 20 * time.Second // enough for a busy machine
		s, err := newStand(t.Context(), o, 4096, c.kernel)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = s.close() }) // after a failure; another time, it does nothing
		quiet, err := s.at(t.Context(), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		flooded, err := s.at(t.Context(), 5000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if quiet.Success != 1 || quiet.Offered != 0 || flooded.Success < 0.9 {
			t.Errorf("%s: quiet %+v, flooded %+v", name, quiet, flooded)
		}
		if frames := quiet.PerRequest; frames < 4 || frames > 9 { // SYN, ACK, request, FIN, ACKs; more if a box retransmits
			t.Errorf("%s: %g frames for each request", name, frames)
		}
		if sum := flooded.Processed + flooded.Lost; sum < 0.9*flooded.Offered || flooded.Offered < 100 || flooded.VictimCPU <= quiet.VictimCPU {
			t.Errorf("%s: %.0f offered, %.0f processed and %.0f lost; CPU %g, quiet %g", name, flooded.Offered, flooded.Processed, flooded.Lost, flooded.VictimCPU, quiet.VictimCPU)
		}
		// Every SYN that is processed is answered: a SYN that a port swallowed would look like one that was served cheaply.
		if taken := flooded.Offered - flooded.Lost; !c.kernel && (flooded.Answered < 0.85*taken || flooded.Answered > 2*taken) { // Linux answers some again after a second
			t.Errorf("%s: %.0f of %.0f SYNs answered", name, flooded.Answered, taken)
		}
		// The server must not reject ACKs of a defence that completes its handshakes.
		if n, err := s.top.Server.TCPExt("TSEcrRejected"); err == nil && n > 0 {
			t.Errorf("%s: the server refused %d ACKs for their timestamps", name, n)
		}
		if at, err := s.victim.LastCPU(); err != nil || at != s.env.Pin.Server && !flooded.Moved {
			t.Errorf("%s: the victim received on processor %d, want %d (%v)", name, at, s.env.Pin.Server, err)
		}
		if err := s.close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
