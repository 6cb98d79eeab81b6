// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
	harness "tidegate/test/world"
)

// Real clients through tidegate-dpdk during a flood, with each treatment of
// first data and a strategy without translation.
func TestDPDKUnderFlood(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	for name, c := range map[string]struct{ strategy, firstData, counter string }{
		// Whether data arrive before the server is ready is a race here; dpdk/test/test_store.c
		// shows that they are kept and forwarded.
		"store":       {"cookie", "store", "flow_ready"},
		"notify":      {"cookie", "notify", "flow_ready"},
		"cache":       {"cache", "zero-window", "cache_valid"},
		"auth-cookie": {"auth-cookie", "", "white_added"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(httpOnce)
			config := w.config(c.strategy)
			if c.firstData != "" {
				config += "    first_data: " + c.firstData + "\n"
			}
			w.start(config)
			stop := w.flood()
			for range 20 {
				w.curl(c.strategy != "cookie" && c.strategy != "cache")
			}
			sent := stop()
			got := w.counters()
			if sent < 1000 || got["syn"] < sent/2 || got[c.counter] == 0 {
				t.Errorf("%d SYNs sent, counters %v", sent, got)
			}
			// Most of a flood takes the fast path, and so do segments of translated connections.
			d := w.status().DPDK
			if short := c.strategy != "cache"; short && d.ShortSYNs < sent/4 || c.strategy == "cookie" && d.ShortSegments == 0 {
				t.Errorf("%d of %d SYNs went the fast path, and %d segments", d.ShortSYNs, sent, d.ShortSegments)
			}
		})
	}
}

// The lab runs this plane, too, with the command that users run.
func TestDPDKLabFlood(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	out, err := exec.Command(harness.BuildLab(t, tidegate), "flood", "--defence", "proxy-cookie", "--plane", "dpdk", "--rate", "20k",
		"--duration", "4s", "--load", "20", "--clients", "4", "--server", "builtin", "--json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var res trial.Result
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if res.Plane != rig.PlaneDPDK || res.Success < 0.9 {
		t.Errorf("%.3f of the requests were served on plane %q:\n%s", res.Success, res.Plane, out)
	}
}

// And the distribution of connect times, the figure of the prototype's authors.
func TestDPDKLabConnectTime(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	cmd := exec.Command(harness.BuildLab(t, tidegate), "connect-time", "--plane", "dpdk", "--curve", "proxy-cookie", "--rate", "5k",
		"--connections", "60", "--load", "50", "--out", "", "--json")
	var errs harness.Output
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	var times trial.ConnectTimes
	if err := json.Unmarshal(out, &times); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(times.Curves) != 1 || times.Curves[0].Plane != rig.PlaneDPDK || times.Curves[0].Connected != 60 {
		t.Errorf("60 connections are wanted of one curve on plane dpdk:\n%s", out)
	}
}

func httpOnce(c *net.TCPConn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != ""; {
	}
	fmt.Fprint(c, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
}

// curl makes one request; after a challenge the first connection is reset, and it makes another.
func (w *world) curl(again bool) {
	w.t.Helper()
	args := []string{"-sS", "--max-time", "10", "http://" + w.ServiceAddr(false, port).String() + "/"}
	if again {
		args = slices.Insert(args, 0, "--retry", "3", "--retry-all-errors", "--retry-delay", "1")
	}
	var out, errs harness.Output
	cmd := exec.Command("curl", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.Client.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != "ok" {
		w.t.Fatalf("curl: %v: %q %s; counters %v", err, out.String(), errs.String(), w.counters())
	}
}

// flood sends 20,000 SYNs a second until stop is called, which returns how many it sent.
func (w *world) flood() (stop func() uint64) { w.t.Helper(); return w.floodAt(20000) }

func (w *world) floodAt(rate load.Rate) (stop func() uint64) {
	w.t.Helper()
	f, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.ServiceAddr(false, port), CPU: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan load.FloodStats)
	go func() {
		stats, err := f.Run(ctx, rate)
		if err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		done <- stats
	}()
	return func() uint64 {
		cancel()
		stats := <-done
		if err := f.Close(); err != nil {
			w.t.Error(err)
		}
		return stats.Frames
	}
}
