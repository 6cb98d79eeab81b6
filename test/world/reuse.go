// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"tidegate/internal/lab/rig"
)

// Who closes a connection first: what Reuse asks CloseFirst for.
const (
	ClientCloses = 'c'
	ServerCloses = 's'
)

// CloseFirst is a server that sends back one byte, by which the client says who closes first.
func CloseFirst(c *net.TCPConn) {
	defer c.Close()
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil {
		return
	}
	_, _ = c.Write(b)
	if b[0] == ServerCloses {
		return
	}
	_, _ = c.Read(b)
}

// reuseWithin bounds connecting, and then what follows.
const reuseWithin = 5 * time.Second

// Reuse opens a connection to CloseFirst from a port that earlier connections have used.
func Reuse(n *rig.Namespace, to netip.AddrPort, local uint16, who byte) error {
	client := Client{LocalPort: local, Timeout: reuseWithin}
	c, err := client.Dial(n, to)
	// The client's own old socket waits for the ACK of its FIN, which need not come within the call that sends it.
	for until := time.Now().Add(Patience); errors.Is(err, syscall.EADDRNOTAVAIL) && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
		c, err = client.Dial(n, to)
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(reuseWithin))
	if _, err := c.Write([]byte{who}); err != nil {
		return err
	}
	b := make([]byte, 2)
	if n, err := c.Read(b); err != nil || n != 1 || b[0] != who {
		return fmt.Errorf("got %q, %w", b[:n], err)
	}
	if who == ServerCloses {
		if _, err := c.Read(b); !errors.Is(err, io.EOF) {
			return fmt.Errorf("end: %w", err)
		}
		return nil
	}
	// Closed by the client: a RST, since its own TIME-WAIT would keep the port.
	return c.SetLinger(0)
}
