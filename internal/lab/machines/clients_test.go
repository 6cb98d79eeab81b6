// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
)

// The server never closes first: the client's kernel has to remember the connection, or its port may come again at once.
func TestTheClientClosesFirst(t *testing.T) {
	const size = 100_000
	for name, do := range map[string]func(c net.Conn, r *bufio.Reader) error{
		"request": func(c net.Conn, r *bufio.Reader) error {
			if _, err := fmt.Fprint(c, "GET /cgi-bin/whoami HTTP/1.0\r\n\r\n"); err != nil {
				return err
			}
			_, err := readAnswer(r)
			return err
		},
		"bulk": func(c net.Conn, r *bufio.Reader) error {
			if _, err := fmt.Fprintf(c, "PUT /%d HTTP/1.0\r\n\r\n", size); err != nil {
				return err
			}
			if err := give(c, size); err != nil {
				return err
			}
			if line, err := r.ReadString('\n'); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			_, err := io.CopyN(io.Discard, r, size)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			ended := make(chan struct{})
			go func() { defer close(ended); answer(server) }()
			if err := do(client, bufio.NewReader(client)); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte{0}); err != nil { // it arrives where the server still reads
				t.Errorf("the server has closed: %v", err)
			}
			<-ended
		})
	}
}
