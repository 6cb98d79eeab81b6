// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// The server never closes first: the client's kernel has to remember the connection, or its port may come again at once.
func TestTheClientClosesFirst(t *testing.T) {
	const size = 100_000
	for name, do := range map[string]func(c net.Conn) error{
		"request": func(c net.Conn) error {
			if _, err := fmt.Fprint(c, "GET /cgi-bin/whoami HTTP/1.0\r\n\r\n"); err != nil {
				return err
			}
			_, err := readAnswer(bufio.NewReader(c))
			return err
		},
		"bulk": func(c net.Conn) error {
			_, _, err := transfer(c, size)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			ended := make(chan struct{})
			go func() { defer close(ended); answer(server) }()
			if err := do(client); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte{0}); err != nil { // it arrives where the server still reads
				t.Errorf("the server has closed: %v", err)
			}
			<-ended
		})
	}
}
