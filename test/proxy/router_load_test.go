// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/internal/dpdk"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// ACKs of no connection, which go to the server and are reset there, cost no handshake
// a SYN: a lost one is retransmitted after a second. The time is logged, not judged:
// it depends on the machine's load as much as on the box.
func TestRouterUnderACKs(t *testing.T) {
	w := router(t)
	w.serve(echo)
	f, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.ServiceAddr(false, port), Flags: load.FlagACK, CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan uint64)
	go func() {
		stats, err := f.Run(ctx, 100000)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		done <- stats.Frames
	}()
	const connections, mostRetransmits = 200, 4
	var took []time.Duration
	again := w.kernelCounter(w.Client, "netstat", "TcpExt:", "TCPSynRetrans")
	for range connections {
		began := time.Now()
		c, err := w.dial(false)
		if err != nil {
			t.Error(err)
			break
		}
		took = append(took, time.Since(began))
		_ = c.Close()
	}
	cancel()
	again = w.kernelCounter(w.Client, "netstat", "TcpExt:", "TCPSynRetrans") - again
	sent := <-done
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	slices.Sort(took)
	ports := map[string]uint64{}
	if testPlane == rig.PlaneDPDK {
		if err := dpdk.Telemetry("tidegate-"+w.Instance, "/tidegate/ports", &ports); err != nil {
			t.Error(err)
		}
	}
	portsJSON, _ := json.Marshal(ports)
	if len(took) == 0 {
		return
	}
	t.Logf("%d ACKs; connect p50 %v, p99 %v, most %v; %d SYNs sent again; ports %s",
		sent, took[len(took)/2], took[len(took)*99/100], took[len(took)-1], again, portsJSON)
	if again > mostRetransmits {
		t.Errorf("%d SYNs of %d connections had to be sent again, want at most %d", again, connections, mostRetransmits)
	}
}
