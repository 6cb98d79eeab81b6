// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/retransmitbpf"
)

// Retransmitter retransmits the SYN-ACKs of the SYN cache when they are due. The BPF program
// selects and writes them; this only runs it and hands its output to the ports.
type Retransmitter struct {
	prog   *ebpf.Program
	socket int
	next   uint32 // bucket
	in     []byte
}

// The buffer of bpf/proxy_retransmit.bpf.c: struct tg_retransmit, link header, IPv6, TCP.
const (
	retransmitHead  = 16
	retransmitFrame = 22 + 40 + 60
)

// NewRetransmitter is for the network namespace of the calling thread.
func (p *Proxy) NewRetransmitter() (*Retransmitter, error) {
	spec, err := retransmitbpf.LoadProxyRetransmit()
	if err != nil {
		return nil, err
	}
	a := &Retransmitter{in: make([]byte, retransmitHead+retransmitFrame)}
	if err := p.loadOne(spec, retransmitbpf.ProxyRetransmitProgTgProxyRetransmit, &a.prog); err != nil {
		return nil, explain(fmt.Errorf("program %s: %w", retransmitbpf.ProxyRetransmitProgTgProxyRetransmit, err))
	}
	// Protocol 0: it only sends.
	if a.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		a.prog.Close()
		return nil, fmt.Errorf("packet socket: %w; retransmitting SYN-ACKs takes CAP_NET_RAW beside the other capabilities", err)
	}
	return a, nil
}

// Close gives program and socket back.
func (a *Retransmitter) Close() error { return errors.Join(a.prog.Close(), unix.Close(a.socket)) }

// Send goes through the cache once, sends what is due, up to limit, and returns
// how many it sent. The rest is still due at the next call, which continues
// where this one stopped. Frames that a port does not accept are lost, as on a wire.
func (a *Retransmitter) Send(limit int) (sent int, err error) {
	for seen := uint32(0); sent < limit; {
		binary.LittleEndian.PutUint32(a.in, a.next)
		out := make([]byte, len(a.in))
		if _, err := a.prog.Run(&ebpf.RunOptions{Data: a.in, DataOut: out}); err != nil {
			return sent, fmt.Errorf("SYN cache: %w", err)
		}
		next, ifindex := binary.LittleEndian.Uint32(out), binary.LittleEndian.Uint32(out[4:])
		size, buckets := binary.LittleEndian.Uint32(out[8:]), binary.LittleEndian.Uint32(out[12:])
		seen += next - a.next
		if a.next = next; next >= buckets {
			a.next = 0
		}
		if size > 0 {
			_ = unix.Sendto(a.socket, out[retransmitHead:retransmitHead+size], 0, &unix.SockaddrLinklayer{Ifindex: int(ifindex)})
			sent++
		}
		if seen >= buckets {
			return sent, nil
		}
	}
	return sent, nil
}
