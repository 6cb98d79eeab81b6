// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A client's ports are reused at once, through a server that translates, from several ports
// at a time, so that several CPUs process the last segments of both sides at the same
// moment. None may fail, and no entry may remain that counts as half-open.
func TestPortsReusedTranslated(t *testing.T) {
	const workers, portsEach = 8, 5
	requests := 3000 // of each kind
	if os.Getenv("TIDEGATE_SOAK") != "" {
		requests = 30000
	}
	for _, protocol := range []string{"plain", "tagged"} {
		for _, timestamps := range []string{"1", "0"} {
			t.Run(fmt.Sprintf("%s, timestamps %s", protocol, timestamps), func(t *testing.T) {
				w := newTagged(t, nil, nil)
				if protocol == "plain" {
					w.Edge.configure("always", "learning: 0s")
					w.server.configure("always", "takeover: translate")
				}
				w.sysctl(w.place.Client, "net.ipv4.tcp_timestamps", timestamps)
				w.sysctl(w.place.Client, "net.ipv4.tcp_max_tw_buckets", "0")
				// The NIC's thread receives segments on one CPU while the server sends on another. Without native XDP, a veth
				// has a thread only with GRO.
				w.serve(oneShot)
				w.startBoth()
				if out, err := exec.Command("ip", "netns", "exec", w.place.Server.Name, "sh", "-c",
					"on() { echo 1 >/sys/class/net/tg-server/threaded; }; on 2>/dev/null || { ethtool -K tg-server gro on && on; }").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				var all sync.WaitGroup
				failures := make(chan error, requests)
				for n := range workers {
					all.Go(func() {
						for i := range requests / workers {
							from := uint16(firstPort + n*portsEach + i%portsEach)
							if err := w.requestFrom(from, portsEach, "sc"[i/portsEach%2]); err != nil {
								failures <- fmt.Errorf("request %d from port %d: %w", i, from, err)
								return // each further one would wait as long
							}
						}
					})
				}
				all.Wait()
				close(failures)
				for err := range failures {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("server %v", nonZero(w.server.counters()))
				}
				w.server.wantCounters(map[string]uint64{"split_full": 0})
			})
		}
	}
}

// requestFrom makes a request, and retries it while the client's own old socket at the port waits
// for its last ACK: then nothing has been sent.
func (w *place) requestFrom(from uint16, tries int, who byte) (err error) {
	for range 1000 * tries {
		if err = w.request(false, from, who); !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
	}
	return err
}
