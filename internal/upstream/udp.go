// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Batch sizes: datagrams for one system call.
const (
	BatchLen    = 64
	DatagramMax = 1500
)

// UDP is a socket that is read and written in batches without allocation. One
// goroutine may read while others write, each with an Outbox of its own.
type UDP struct {
	conn *net.UDPConn
	raw  syscall.RawConn
	v6   bool // the socket is of AF_INET6
}

// ListenUDP opens a socket at an address; an unspecified one takes both families.
// The DSCP of what it sends is dscp.
func ListenUDP(at netip.AddrPort, dscp uint8) (*UDP, error) {
	network := "udp"
	if at.Addr().Is4() {
		network = "udp4"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("listen for the filtering protocol: %w", err)
	}
	u := &UDP{conn: conn}
	if u.raw, err = conn.SyscallConn(); err != nil {
		conn.Close()
		return nil, err
	}
	var serr error
	err = u.raw.Control(func(fd uintptr) {
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		u.v6 = domain == unix.AF_INET6
		serr = err
		set := func(level, opt, value int) {
			serr = errors.Join(serr, unix.SetsockoptInt(int(fd), level, opt, value))
		}
		set(unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		set(unix.IPPROTO_IP, unix.IP_TOS, int(dscp)<<2)
		if u.v6 {
			set(unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
			set(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(dscp)<<2)
		}
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) // Linux 5.0; else one by one
		// as far as the system allows: a burst of answers is not lost
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20)
	})
	if err = errors.Join(err, serr); err != nil {
		conn.Close()
		return nil, fmt.Errorf("options of the socket: %w", err)
	}
	return u, nil
}

// LocalAddr is where the socket listens.
func (u *UDP) LocalAddr() netip.AddrPort {
	return u.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Close ends Read with net.ErrClosed.
func (u *UDP) Close() error { return u.conn.Close() }

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

const controlLen = 96

// readLen is how many system messages are read at once. The kernel may hand over
// equally long datagrams of one sender as one message (UDP_GRO); each of those is up
// to readBytes long.
const (
	readLen   = 16
	readBytes = 1 << 16
)

// Inbox holds one batch of received datagrams.
type Inbox struct {
	hdrs    [readLen]mmsghdr
	iovs    [readLen]unix.Iovec
	names   [readLen]unix.RawSockaddrInet6
	control [readLen][controlLen]byte
	data    [readLen][]byte
	list    []datagram
}

// datagram is one of them: where it stands.
type datagram struct {
	of, begin, end int
	tclass         uint8
}

// NewInbox makes an empty one.
func NewInbox() *Inbox {
	b := &Inbox{}
	for i := range b.hdrs {
		b.data[i] = make([]byte, readBytes)
		b.iovs[i].Base, b.iovs[i].Len = &b.data[i][0], readBytes
		h := &b.hdrs[i].hdr
		h.Name, h.Iov, h.Iovlen = (*byte)(unsafe.Pointer(&b.names[i])), &b.iovs[i], 1
		h.Control = &b.control[i][0]
	}
	return b
}

// Read waits for datagrams and takes as many as there are, up to a limit.
func (u *UDP) Read(b *Inbox) (n int, err error) {
	var errno syscall.Errno
	err = u.raw.Read(func(fd uintptr) bool {
		for i := range b.hdrs {
			b.hdrs[i].hdr.Namelen = uint32(unsafe.Sizeof(b.names[0]))
			b.hdrs[i].hdr.SetControllen(controlLen)
		}
		var r uintptr
		r, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.hdrs[0])), readLen,
			unix.MSG_DONTWAIT, 0, 0)
		n = int(r)
		return errno != unix.EAGAIN && errno != unix.EINTR
	})
	if err == nil && errno != 0 {
		err = errno
	}
	b.list = b.list[:0]
	if err != nil {
		return 0, err
	}
	for i := range n {
		b.split(i)
	}
	return len(b.list), nil
}

// split notes the datagrams of a message.
func (b *Inbox) split(i int) {
	tclass, segment := b.ancillary(i)
	size := int(b.hdrs[i].len)
	if segment <= 0 {
		segment = max(size, 1)
	}
	for at := 0; at < size || at == 0; at += segment {
		b.list = append(b.list, datagram{i, at, min(at+segment, size), tclass})
	}
}

// Data is datagram i; good until the next Read.
func (b *Inbox) Data(i int) []byte {
	d := &b.list[i]
	return b.data[d.of][d.begin:d.end]
}

// From is the sender of datagram i; IPv4 is never mapped.
func (b *Inbox) From(i int) netip.AddrPort {
	sa := &b.names[b.list[i].of]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&sa.Port))[:])
	if sa.Family == unix.AF_INET {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(sa4.Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), port)
}

// TClass is the traffic class (DSCP and ECN) that datagram i came with.
func (b *Inbox) TClass(i int) uint8 { return b.list[i].tclass }

// ancillary reads what the kernel says beside a message: its traffic class, and the
// length of its datagrams if it is more than one.
func (b *Inbox) ancillary(i int) (tclass uint8, segment int) {
	c := b.control[i][:min(controlLen, int(b.hdrs[i].hdr.Controllen))]
	for len(c) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
		if int(h.Len) <= unix.SizeofCmsghdr || int(h.Len) > len(c) {
			break
		}
		body := c[unix.SizeofCmsghdr:h.Len]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS,
			h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			tclass = body[0] // an int for IPv6: little-endian, so its first byte
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(body) >= 4:
			segment = int(binary.NativeEndian.Uint32(body))
		}
		c = c[min(len(c), unix.CmsgSpace(int(h.Len)-unix.SizeofCmsghdr)):]
	}
	return tclass, segment
}

// Outbox gathers datagrams for one system call. Datagrams to one address that are
// equally long are handed to the kernel as one (UDP_SEGMENT), which sends them as
// the single datagrams that they are.
type Outbox struct {
	u     *UDP
	hdrs  [BatchLen]mmsghdr
	iovs  [BatchLen]unix.Iovec
	names [BatchLen]unix.RawSockaddrInet6
	ctl   [BatchLen][24]byte
	to    [BatchLen]netip.AddrPort
	seg   [BatchLen]int // length of the segments
	segs  [BatchLen]int
	begin [BatchLen]int // in buf
	buf   []byte
	n     int
	Lost  uint64 // datagrams that the kernel refused
	sink  func(to netip.AddrPort, datagram []byte)
}

const (
	outBufLen   = BatchLen * 1500
	segmentsMax = 60 // UDP_MAX_SEGMENTS is 64 in older kernels
	segBytesMax = 60000
)

// NewOutbox makes an empty one for a socket.
func (u *UDP) NewOutbox() *Outbox { return &Outbox{u: u, buf: make([]byte, 0, outBufLen)} }

// NewSink makes an Outbox without a socket: each datagram is handed to take at once,
// which must not keep it. State machines are run with it without a network.
func NewSink(take func(to netip.AddrPort, datagram []byte)) *Outbox {
	return &Outbox{sink: take, buf: make([]byte, 0, outBufLen)}
}

// Add queues what appendTo appends; full boxes are sent at once.
func (o *Outbox) Add(to netip.AddrPort, appendTo func([]byte) []byte) {
	if o.sink != nil {
		o.sink(to, appendTo(o.buf[:0]))
		return
	}
	if cap(o.buf)-len(o.buf) < DatagramMax {
		o.Flush()
	}
	begin := len(o.buf)
	o.buf = appendTo(o.buf)
	size := len(o.buf) - begin
	if o.n > 0 {
		last := o.n - 1
		if o.to[last] == to && o.seg[last] == size && o.segs[last] < segmentsMax &&
			(o.segs[last]+1)*size <= segBytesMax {
			o.segs[last]++
			return
		}
	}
	o.to[o.n], o.seg[o.n], o.segs[o.n], o.begin[o.n] = to, size, 1, begin
	if o.n++; o.n == BatchLen {
		o.Flush()
	}
}

// Flush sends what is queued. Datagrams that cannot be sent are lost, as datagrams
// may be; they are counted.
func (o *Outbox) Flush() {
	for i := range o.n {
		o.prepare(i)
	}
	for done := 0; done < o.n; {
		sent := 0
		var errno syscall.Errno
		err := o.u.raw.Write(func(fd uintptr) bool {
			r, _, e := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&o.hdrs[done])),
				uintptr(o.n-done), unix.MSG_DONTWAIT, 0, 0)
			sent, errno = int(r), e
			return e != unix.EAGAIN && e != unix.EINTR
		})
		if err != nil || errno != 0 || sent <= 0 {
			o.Lost += uint64(o.segs[done]) // the first one is what failed: the rest may go
			sent = 1
		}
		done += sent
	}
	o.n, o.buf = 0, o.buf[:0]
}

func (o *Outbox) prepare(i int) {
	size := o.seg[i] * o.segs[i]
	o.iovs[i].Base = &o.buf[o.begin[i]]
	o.iovs[i].SetLen(size)
	h := &o.hdrs[i].hdr
	h.Iov, h.Iovlen, h.Name = &o.iovs[i], 1, (*byte)(unsafe.Pointer(&o.names[i]))
	h.Namelen = o.u.sockaddr(&o.names[i], o.to[i])
	h.Control, h.Controllen = nil, 0
	if o.segs[i] > 1 {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&o.ctl[i][0]))
		c.Level, c.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		c.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(o.ctl[i][unix.SizeofCmsghdr:], uint16(o.seg[i]))
		h.Control = &o.ctl[i][0]
		h.SetControllen(unix.CmsgSpace(2))
	}
}

// sockaddr fills in an address of the socket's family.
func (u *UDP) sockaddr(sa *unix.RawSockaddrInet6, to netip.AddrPort) uint32 {
	if !u.v6 {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		sa4.Family, sa4.Addr = unix.AF_INET, to.Addr().Unmap().As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&sa4.Port))[:], to.Port())
		return unix.SizeofSockaddrInet4
	}
	*sa = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to.Addr().As16()}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&sa.Port))[:], to.Port())
	return unix.SizeofSockaddrInet6
}
