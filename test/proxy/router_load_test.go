package proxytest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
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

// ACKs of nobody's connections, which go to the server and are reset there, cost no handshake
// a SYN: one that is lost comes again after a second. How long it takes is logged, not judged:
// that is the machine's load as much as the box.
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
	const connections, mostAgain = 200, 4
	var took []time.Duration
	again := w.synsSentAgain()
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
	again = w.synsSentAgain() - again
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
	if len(took) == 0 {
		return
	}
	t.Logf("%d ACKs; connect p50 %v, p99 %v, most %v; %d SYNs sent again; ports %s",
		sent, took[len(took)/2], took[len(took)*99/100], took[len(took)-1], again, said)
	if again > mostAgain {
		t.Errorf("%d SYNs of %d connections had to be sent again, want at most %d", again, connections, mostAgain)
	}
}

// synsSentAgain are those of the client's kernel.
func (w *world) synsSentAgain() int {
	w.t.Helper()
	var text []byte
	if err := w.Client.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n") // a line of names, then one of numbers
	for i := 0; i+1 < len(lines); i += 2 {
		values := strings.Fields(lines[i+1])
		if at := slices.Index(strings.Fields(lines[i]), "TCPSynRetrans"); at >= 0 && at < len(values) {
			n, err := strconv.Atoi(values[at])
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	w.t.Fatal("the kernel does not count TCPSynRetrans")
	return 0
}

func reuseAddr(_, _ string, raw syscall.RawConn) error {
	var err error
	return errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}), err)
}
