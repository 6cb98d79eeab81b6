// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// The dummies do the bare minimum, as the paper's did; only benchmarks use them.

// dummyBM answers every request at once: a nonce, then "OK".
func dummyBM(enc *json.Encoder) error {
	udp, err := upstream.ListenUDP(benchLoopback, 0)
	if err != nil {
		return err
	}
	if err := enc.Encode(partReply{Addr: udp.LocalAddr()}); err != nil {
		return err
	}
	in, out := upstream.NewInbox(), udp.NewOutbox()
	codes := make([]ifp.Code, 256)
	for {
		n, err := udp.Read(in)
		if err != nil {
			return err
		}
		for i := range n {
			h, err := ifp.ReadHeader(in.Data(i))
			if err != nil {
				continue
			}
			if h.Nonce == 0 {
				out.Add(in.From(i), func(b []byte) []byte { return ifp.AppendNonce(b, h.Request, 42) })
				continue
			}
			out.Add(in.From(i), func(b []byte) []byte {
				return ifp.AppendResult(b, h.Request, h.Nonce, codes[:min(int(h.Count), len(codes))], nil)
			})
		}
		out.Flush()
	}
}

// dummyPatrol acknowledges whatever comes.
func dummyPatrol(c *partConfig, enc *json.Encoder) error {
	id := upstream.NewIdentity(&c.Seed)
	config, err := id.TLS(c.PeerKey)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return err
	}
	if err := enc.Encode(partReply{Addr: l.Addr().(*net.TCPAddr).AddrPort()}); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			in, message := bufio.NewReaderSize(conn, 1<<17), make([]byte, ifp.MaxStream)
			codes, out := make([]ifp.Code, 4096), make([]byte, 0, 8192)
			for {
				if _, err := io.ReadFull(in, message[:ifp.HeaderLen]); err != nil {
					return
				}
				n := int(message[2])<<8 | int(message[3])
				if _, err := io.ReadFull(in, message[ifp.HeaderLen:n]); err != nil {
					return
				}
				h, err := ifp.ReadHeader(message[:n])
				if err != nil {
					return
				}
				if h.Type == ifp.Stats {
					out = ifp.AppendStatistics(out[:0], 0, 0, make([]ifp.Stat, h.Count))
				} else {
					out = ifp.AppendResult(out[:0], 0, 0, codes[:h.Count], nil)
				}
				if _, err := conn.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

// dummyFM keeps a window of requests open until it has all results.
func dummyFM(c *partConfig, enc *json.Encoder) error {
	udp, err := upstream.ListenUDP(benchLoopback, 47)
	if err != nil {
		return err
	}
	in, out := upstream.NewInbox(), udp.NewOutbox()
	const window = 1024
	filters := make([]ifp.Filter, c.PerMsg)
	request := func(n, nonce uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			for i := range filters {
				filters[i] = benchFilter((int(n)*c.PerMsg + i) % (benchSources * benchDsts))
			}
			return ifp.AppendRequest(b, ifp.Install, 0, n+1, nonce, filters)
		}
	}
	next, got, lost := uint64(0), 0, 0
	begin := time.Now()
	for ; next < window; next++ {
		out.Add(c.Peer, request(next, 0))
	}
	out.Flush()
	for got < c.Count {
		n, err := udp.Read(in)
		if err != nil {
			return err
		}
		for i := range n {
			h, err := ifp.ReadHeader(in.Data(i))
			if err != nil {
				continue
			}
			switch h.Type {
			case ifp.Nonce:
				out.Add(c.Peer, request(h.Request-1, h.Nonce))
			default:
				if h.Type != ifp.Result {
					lost++
				}
				got++
				out.Add(c.Peer, request(next, 0))
				next++
			}
		}
		out.Flush()
	}
	if lost > c.Count/1000 {
		return fmt.Errorf("%d of %d requests were refused", lost, c.Count)
	}
	return enc.Encode(partReply{Rate: float64(got*c.PerMsg) / time.Since(begin).Seconds()})
}

// dummyBMOfPatrol sends filters to a patrol and waits for their acknowledgements.
func dummyBMOfPatrol(c *partConfig, enc *json.Encoder) error {
	config, err := upstream.NewIdentity(&c.Seed).TLS(c.PeerKey)
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", c.Peer.String(), config)
	if err != nil {
		return err
	}
	begin := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		b, filters := []byte{}, make([]ifp.Filter, c.PerMsg)
		for n := 0; n < c.Count; n += c.PerMsg {
			for i := range filters {
				filters[i] = benchFilter(n + i)
			}
			if b = ifp.AppendRequest(b[:0], ifp.Install, 0, 0, 0, filters); err != nil {
				return
			}
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	})
	in, message := bufio.NewReaderSize(conn, 1<<16), make([]byte, ifp.MaxStream)
	for n := 0; n < c.Count; n += c.PerMsg {
		if _, err := io.ReadFull(in, message[:ifp.HeaderLen+c.PerMsg]); err != nil {
			return err
		}
		for _, code := range message[ifp.HeaderLen : ifp.HeaderLen+c.PerMsg] {
			if ifp.Code(code) != ifp.OK {
				return fmt.Errorf("the patrol says %v", ifp.Code(code))
			}
		}
	}
	rate := float64(c.Count) / time.Since(begin).Seconds()
	wg.Wait()
	return enc.Encode(partReply{Rate: rate})
}
