package proxytest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/dpdk"
	"tidegate/internal/lab"
)

// A client's port can be used again at once where the server has closed first: every last
// segment gets through.
func TestRouterSamePort(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			w.serve(func(c *net.TCPConn) {
				defer c.Close()
				b := make([]byte, 1)
				if _, err := c.Read(b); err == nil {
					_, _ = c.Write(b)
				}
			})
			// The last segments of a connection are on their way through userspace while the
			// next one is asked for: some milliseconds, not the second of one sent again.
			for i := range 20 {
				var err error
				for end := time.Now().Add(800 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if err = w.once(ipv6, 5555); !errors.Is(err, unix.EADDRNOTAVAIL) {
						break
					}
				}
				if err != nil {
					t.Fatalf("connection %d from the same port: %v", i, err)
				}
			}
		})
	}
}

// once has a byte echoed over a connection from that port, and closes after the server.
func (w *world) once(ipv6 bool, from int) error {
	return w.Client.Do(func() error {
		d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{Port: from}, Control: reuseAddr}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", w.ServiceAddr(ipv6, port).String())
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			return err
		}
		if n, err := c.Read(b); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("the server has not closed")
		}
		return nil
	})
}

// ACKs of nobody's connections, which go to the server and are reset there, delay no
// handshake: a SYN that is lost comes again after a second.
func TestRouterUnderACKs(t *testing.T) {
	w := router(t)
	w.serve(echo)
	f, err := lab.NewFlood(w.AttackerPort, w.FloodPort, lab.FloodOptions{Target: w.ServiceAddr(false, port), Flags: lab.FlagACK, CPU: -1})
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
	var took []time.Duration
	for range 200 {
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
	sent := <-done
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	slices.Sort(took)
	ports := map[string]uint64{}
	if testPlane == lab.PlaneDPDK {
		if err := dpdk.Telemetry("tidegate-"+w.Instance, "/tidegate/ports", &ports); err != nil {
			t.Error(err)
		}
	}
	said, _ := json.Marshal(ports)
	t.Logf("%d ACKs; connect p50 %v, p99 %v, most %v; ports %s", sent, took[len(took)/2], took[len(took)*99/100], took[len(took)-1], said)
	if p99 := took[len(took)*99/100]; p99 > 500*time.Millisecond {
		t.Errorf("connect took %v at the 99th percentile: SYNs are lost", p99)
	}
}

func reuseAddr(_, _ string, raw syscall.RawConn) error {
	var err error
	return errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}), err)
}
