// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// get makes one request over a connection of its own, from the kernel of this
// machine, and returns the body.
func get(ctx context.Context, n *Net, ipv6 bool, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dial(ctx, n, ipv6, httpPort)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	head, body, ok := strings.Cut(string(answer), "\r\n\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.0 200 ") || !strings.HasSuffix(body, "}\n") {
		return "", fmt.Errorf("not the status page: %q", answer)
	}
	return body, nil
}

// dial connects from inside the namespace.
func dial(ctx context.Context, n *Net, ipv6 bool, port uint16) (conn net.Conn, err error) {
	err = n.NS.Do(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", target(ipv6, port).String())
		return err
	})
	return conn, err
}

// Load is the result of honest clients.
type Load struct {
	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Errors   map[string]int `json:"errors,omitempty"`
}

// Success is the share of requests that were answered.
func (l Load) Success() float64 {
	if l.Requests == 0 {
		return 0
	}
	return float64(l.OK) / float64(l.Requests)
}

const (
	requestEvery   = 100 * time.Millisecond
	requestTimeout = 3 * time.Second
)

// RunLoad starts requests at fixed times, whether or not earlier ones have been
// answered, and waits for all of them.
func RunLoad(ctx context.Context, n *Net, ipv6 bool, requests int) (Load, error) {
	results := make(chan error, requests)
	tick := time.NewTicker(requestEvery)
	defer tick.Stop()
	for range requests {
		go func() {
			_, err := get(ctx, n, ipv6, requestTimeout)
			results <- err
		}()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Load{}, ctx.Err()
		}
	}
	l := Load{Requests: requests, Errors: map[string]int{}}
	for range requests {
		if err := <-results; err == nil {
			l.OK++
		} else {
			l.Errors[kindOf(err)]++
		}
	}
	return l, ctx.Err()
}

func kindOf(err error) string {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case strings.Contains(err.Error(), "refused"):
		return "refused"
	case strings.Contains(err.Error(), "reset"):
		return "reset"
	}
	return err.Error()
}

// bulk sends to the sink as fast as it takes, until ctx ends.
func bulk(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	chunk := make([]byte, 64<<10)
	for {
		if _, err := conn.Write(chunk); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("bulk transfer: %w", err)
		}
	}
}
