// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// maxFloodRate bounds the attack; the device sees some thousand a second at most.
const maxFloodRate = 10000

// Flood sends SYNs with spoofed sources to one port of the device, this many for
// each second of the device's clock. It sends only into its own tap.
type Flood struct {
	net  *Net
	port uint16
	rate int
	rng  *rand.Rand
	Sent uint64
	// ByWork: seconds are those that the device worked, as for
	// throughput; otherwise those of its clock.
	ByWork bool
}

// NewFlood prepares an attack; seed makes it repeatable.
func NewFlood(n *Net, port uint16, rate int, seed uint64) *Flood {
	return &Flood{net: n, port: port, rate: rate, rng: rand.New(rand.NewPCG(seed, 6))}
}

// Run sends until ctx ends. Every beacon accounts for the time since the last one.
func (f *Flood) Run(ctx context.Context, clock *Clock) error {
	return f.net.NS.Do(func() error {
		if err := f.net.verify(); err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: f.net.index}
		last, err := clock.Next(ctx, Beacon{})
		due := 0.0
		for err == nil {
			var b Beacon
			if b, err = clock.Next(ctx, last); err != nil {
				break
			}
			ms := float64(b.TimeMS - last.TimeMS)
			if f.ByWork {
				ms = workedMS(last, b)
			}
			due += ms / 1000 * float64(f.rate)
			last = b
			for ; due >= 1 && err == nil; due-- {
				err = unix.Sendto(fd, f.frame(), 0, to)
				f.Sent++
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("flood: %w", err)
	})
}

// Options of real stacks: none (nmap, hping), MSS, Windows, Linux.
var synOptions = [][]byte{
	{},
	{2, 4, 5, 0xb4},
	{2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2},
	{2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7},
}

// frame is one SYN from 11.0.0.0/8 with random values for everything that a client chooses.
func (f *Flood) frame() []byte {
	opts := synOptions[f.rng.IntN(len(synOptions))]
	b := make([]byte, 14+20+20+len(opts))
	copy(b, deviceMAC)
	copy(b[6:], f.net.mac)
	b[12], b[13] = 8, 0
	ip, tcp := b[14:34], b[34:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-14))
	binary.BigEndian.PutUint32(ip[12:], 11<<24|f.rng.Uint32()>>8)
	copy(ip[16:], device4.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], ^sum(0, ip))
	binary.BigEndian.PutUint16(tcp, uint16(1024+f.rng.IntN(64000)))
	binary.BigEndian.PutUint16(tcp[2:], f.port)
	binary.BigEndian.PutUint32(tcp[4:], f.rng.Uint32())
	tcp[12], tcp[13] = byte(len(tcp)/4<<4), 0x02
	binary.BigEndian.PutUint16(tcp[14:], 64240)
	copy(tcp[20:], opts)
	pseudo := sum(uint32(unix.IPPROTO_TCP)+uint32(len(tcp)), ip[12:20])
	binary.BigEndian.PutUint16(tcp[16:], ^sum(uint32(pseudo), tcp))
	return b
}

// sum is the one's-complement sum of RFC 1071, folded; len(b) is even.
func sum(start uint32, b []byte) uint16 {
	s := start
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
