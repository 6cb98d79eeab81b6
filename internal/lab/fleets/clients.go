// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// clients make requests to every gate, a connection each, without end. A request that is reset or not answered in time is not tried again.
type clients struct {
	hub     *rig.Namespace
	gates   []netip.AddrPort
	every   time.Duration // between two requests to the same gate
	timeout time.Duration

	wg   sync.WaitGroup
	stop context.CancelFunc
	mu   sync.Mutex
	made int
	ok   int
	errs map[string]int
}

func (c *clients) start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.errs = map[string]int{}
	for i, to := range c.gates {
		c.wg.Go(func() {
			select { // not all at once
			case <-ctx.Done():
				return
			case <-time.After(c.every * time.Duration(i) / time.Duration(len(c.gates))):
			}
			tick := time.NewTicker(c.every)
			defer tick.Stop()
			for ctx.Err() == nil {
				c.wg.Go(func() {
					err := c.request(to)
					c.mu.Lock()
					defer c.mu.Unlock()
					c.made++
					if err == nil {
						c.ok++
					} else {
						c.errs[fmt.Sprintf("%v: %v", to.Addr(), load.ErrorName(err))]++
					}
				})
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
}

// end lets requests under way end, and stops.
func (c *clients) end() {
	if c.stop != nil {
		c.stop()
		c.wg.Wait()
	}
}

func (c *clients) request(to netip.AddrPort) error {
	d := net.Dialer{Timeout: c.timeout}
	d.SetMultipathTCP(false)
	end := time.Now().Add(c.timeout)
	var conn net.Conn
	err := c.hub.Do(func() (err error) {
		conn, err = d.Dial("tcp", to.String())
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(end)
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		return fmt.Errorf("answer %q", line)
	}
	return nil
}
