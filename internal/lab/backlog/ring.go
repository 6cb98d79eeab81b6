// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ringFrames = 4096 // as long as the queues of network cards
	ringCell   = 512  // bytes for one frame with its header: handshakes and requests are shorter
	ringBlock  = 1 << 16
)

// ring receives what enters at any interface of the namespace (packet(7), PACKET_RX_RING), without a system call for each frame.
type ring struct {
	fd   int
	mem  []byte
	next int
}

// openRing opens the ring and a socket to send from.
func openRing() (r *ring, out int, err error) {
	proto := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP)))
	r = &ring{}
	if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto); err != nil {
		return nil, -1, err
	}
	req := unix.TpacketReq{Block_size: ringBlock, Block_nr: ringFrames * ringCell / ringBlock, Frame_size: ringCell, Frame_nr: ringFrames}
	err = errors.Join(unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req))
	if err == nil {
		r.mem, err = unix.Mmap(r.fd, 0, ringFrames*ringCell, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, -1, fmt.Errorf("packet ring: %w", err)
	}
	if out, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, -1, err
	}
	return r, out, nil
}

// Offsets in struct tpacket2_hdr, and in the struct sockaddr_ll behind it.
const (
	hdrSnap    = 8
	hdrMac     = 12
	hdrIfindex = 32 + 4
)

func (r *ring) status(i int) *uint32 { return (*uint32)(unsafe.Pointer(&r.mem[i*ringCell])) }

// frame returns the next frame and the interface that it came in by; nil: there is none. The caller releases it.
func (r *ring) frame() (frame []byte, ifindex int) {
	if atomic.LoadUint32(r.status(r.next))&unix.TP_STATUS_USER == 0 {
		return nil, 0
	}
	cell := r.mem[r.next*ringCell : (r.next+1)*ringCell]
	mac, n := int(binary.NativeEndian.Uint16(cell[hdrMac:])), int(binary.NativeEndian.Uint32(cell[hdrSnap:]))
	return cell[mac:min(mac+n, ringCell)], int(binary.NativeEndian.Uint32(cell[hdrIfindex:]))
}

// release gives the frame's place back to the kernel.
func (r *ring) release() {
	atomic.StoreUint32(r.status(r.next), unix.TP_STATUS_KERNEL)
	r.next = (r.next + 1) % ringFrames
}

// wait returns when there is a frame, or after a moment.
func (r *ring) wait() error {
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, 20)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// lost returns how many frames found the ring full since the last call.
func (r *ring) lost() (uint64, error) {
	s, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, err
	}
	return uint64(s.Drops), nil
}
