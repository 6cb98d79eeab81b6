// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// How long a client waits for its connection, and then for its answer: long enough to lose two
// SYNs; less where no client is to be served.
const (
	patience       = 5 * time.Second
	patienceDenied = 1500 * time.Millisecond
)

// Seen is what the clients of a family saw.
type Seen struct {
	Clients int `json:"clients"`
	Served  int `json:"served"`
	// Sources are the addresses that the server saw them come from.
	Sources []string `json:"sources,omitempty"`
	// Failure is what happened to a client that was not served.
	Failure string `json:"failure,omitempty"`
}

// crowd has n clients connect at once, each on a connection of its own, and counts those that
// get an answer.
func (m *Machine) crowd(ctx context.Context, ipv6 bool, n int, hold bool) Seen {
	seen := Seen{Clients: n}
	var mu sync.Mutex
	var wg, tried sync.WaitGroup
	tried.Add(n)
	all := make(chan struct{})
	go func() { tried.Wait(); close(all) }()
	for range n {
		wg.Go(func() {
			from, c, err := request(ctx, m.Client, m.Target(ipv6), m.patience)
			tried.Done()
			if hold {
				<-all
			}
			if c != nil {
				if err != nil { // reset, so that no segment of it appears in the next column
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				seen.Failure = plain(err)
				return
			}
			seen.Served++
			if !contains(seen.Sources, from) {
				seen.Sources = append(seen.Sources, from)
			}
		})
	}
	wg.Wait()
	return seen
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// plain removes addresses and ports, which differ between clients, from an error.
func plain(err error) string {
	var errno syscall.Errno
	var nerr net.Error
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &nerr) && nerr.Timeout():
		return "timed out"
	}
	return err.Error()
}

// request opens a connection, sends a request, and reads the answer: the address that the server saw.
func request(ctx context.Context, n *rig.Namespace, to netip.AddrPort, patience time.Duration) (from string, c net.Conn, err error) {
	c, err = dial(ctx, n, to, patience)
	if err != nil {
		return "", nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "GET /cgi-bin/whoami HTTP/1.0\r\nHost: %s\r\n\r\n", to.Addr()); err != nil {
		return "", c, err
	}
	from, err = readAnswer(bufio.NewReader(c))
	return from, c, err
}

func dial(ctx context.Context, n *rig.Namespace, to netip.AddrPort, patience time.Duration) (c net.Conn, err error) {
	d := net.Dialer{Timeout: patience}
	d.SetMultipathTCP(false)
	err = n.Do(func() (err error) {
		c, err = d.DialContext(ctx, "tcp", to.String())
		return err
	})
	return c, err
}

// hello begins the body of every answer; the client's address follows.
const hello = "tidegate serves "

var errNoAnswer = errors.New("no answer of the service")

// readAnswer reads the first lines of an HTTP response up to the one with the client's address.
func readAnswer(r *bufio.Reader) (from string, err error) {
	for {
		line, err := r.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, hello); ok && strings.HasSuffix(rest, "\n") {
			return strings.TrimPrefix(strings.Trim(strings.TrimSpace(rest), "[]"), "::ffff:"), nil
		}
		if errors.Is(err, io.EOF) {
			return "", errNoAnswer
		}
		if err != nil {
			return "", err
		}
	}
}

// answer serves one connection: GET returns the client's address, PUT /N reads N bytes and sends as many.
func answer(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * patience))
	r := bufio.NewReaderSize(c, 256<<10)
	first, err := r.ReadString('\n')
	if err != nil {
		return
	}
	for line := first; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			return
		}
	}
	if size, ok := strings.CutPrefix(first, "PUT /"); ok {
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		n, _ := strconv.ParseInt(strings.Fields(size)[0], 10, 64)
		if got, err := io.Copy(io.Discard, io.LimitReader(r, n)); err != nil || got != n {
			return
		}
		if _, err := io.WriteString(c, "taken\n"); err != nil {
			return
		}
		if give(c, n) == nil {
			awaitClose(c)
		}
		return
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	body := hello + host + "\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	awaitClose(c)
}

// awaitClose has the client close first, so that its own kernel remembers the connection and does not use the port again. Remembered by
// the server alone, the next client with that port would be the kernel's (pass_existing), and one too few would be taken over.
func awaitClose(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }

// give writes n bytes.
func give(c net.Conn, n int64) error {
	block := bytes.Repeat([]byte("tidegate"), 32<<10)
	for n > 0 {
		part := block[:min(int64(len(block)), n)]
		if _, err := c.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
	}
	return nil
}

// bulk sends n bytes and receives as many, over one connection.
func (m *Machine) bulk(ctx context.Context, ipv6 bool, n int64) (up, down time.Duration, err error) {
	c, err := dial(ctx, m.Client, m.Target(ipv6), patience)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	return transfer(c, n)
}

// transfer has answer take n bytes and give as many; the server closes after the client.
func transfer(c net.Conn, n int64) (up, down time.Duration, err error) {
	begin := time.Now()
	if _, err := fmt.Fprintf(c, "PUT /%d HTTP/1.0\r\n\r\n", n); err != nil {
		return 0, 0, err
	}
	if err := give(c, n); err != nil {
		return 0, 0, fmt.Errorf("upload: %w", err)
	}
	r := bufio.NewReaderSize(c, 256<<10)
	if line, err := r.ReadString('\n'); err != nil || line != "taken\n" {
		return 0, 0, fmt.Errorf("upload: the server answered %q: %w", line, err)
	}
	turned := time.Now()
	got, err := io.CopyN(io.Discard, r, n)
	if err != nil {
		return 0, 0, fmt.Errorf("download: %d of %d bytes: %w", got, n, err)
	}
	return turned.Sub(begin), time.Since(turned), nil
}

// listening waits until a service of another program answers in a namespace.
func (m *Machine) listening(n *rig.Namespace, to netip.AddrPort) error {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && m.ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		var c net.Conn
		if _, c, err = request(m.ctx, n, to, patience); c != nil {
			c.Close()
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, unix.ENETUNREACH) {
			break
		}
	}
	return fmt.Errorf("%s does not answer: %w", to, err)
}
