// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"testing"

	harness "tidegate/test/world"
)

// After much data either way, of which a bridge's fast path has translated nearly all, the end of a connection is seen as ever: a client's RST, whose number is
// judged by what the server acknowledged last, and FINs. Its port can be used again at once.
func TestEndAfterMuchData(t *testing.T) {
	const words, again = 200, 5
	each(t, "cookie", echo, func(t *testing.T, w *world, ipv6 bool) {
		for i := range again {
			for _, end := range []string{"RST", "FIN"} {
				before := w.counters()["flow_closed"]
				c, err := harness.Client{LocalPort: 40000}.Dial(w.Client, w.ServiceAddr(ipv6, port))
				if err != nil {
					t.Fatalf("connection %d, %s: %v", i, end, err)
				}
				for range words {
					if err := harness.Word(c); err != nil {
						t.Fatalf("connection %d, %s: %v", i, end, err)
					}
				}
				if end == "RST" {
					_ = c.SetLinger(0)
					c.Close()
				} else if err := harness.Ping(c, nil); err != nil {
					t.Fatal(err)
				}
				w.await(fmt.Sprintf("the end of connection %d by %s", i, end), func() bool { return w.counters()["flow_closed"] == before+1 })
			}
		}
	})
}
