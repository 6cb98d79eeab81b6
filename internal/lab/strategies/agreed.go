// SPDX-License-Identifier: Apache-2.0

package strategies

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// agreed is what one end of a connection negotiated, by its own account (struct tcp_info).
type agreed struct {
	Options uint8 // TS 1, SACK 2, window scale 4, ECN 8
	Shifts  uint8
	MSS     uint32
}

func agreedOf(c *net.TCPConn) (a agreed, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return a, err
	}
	ctl := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			a = agreed{info.Options & 15, (*[8]byte)(unsafe.Pointer(info))[6], info.Snd_mss}
		}
	})
	return a, errors.Join(err, ctl)
}

// serveAgreed is a server that answers the first byte of a connection with what it
// negotiated, and echoes the rest.
func serveAgreed(n *rig.Namespace) (stop func(), err error) {
	var l net.Listener
	err = n.Do(func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(context.Background(), "tcp", rig.ServiceAddr(false).String())
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					return
				}
				a, err := agreedOf(c.(*net.TCPConn))
				if err != nil {
					return
				}
				if _, err := c.Write(binary.BigEndian.AppendUint32([]byte{a.Options, a.Shifts}, a.MSS)); err != nil {
					return
				}
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return func() { l.Close() }, nil
}

// open connects from the client's address and uses the connection.
func (r *run) open(client int, mss int) (c *net.TCPConn, ends [2]agreed, err error) {
	err = r.p.Client.Do(func() error {
		d := net.Dialer{Timeout: probeTimeout, LocalAddr: &net.TCPAddr{IP: rig.ClientAddr(client, false).AsSlice()},
			Control: func(_, _ string, raw syscall.RawConn) (err error) {
				ctl := raw.Control(func(fd uintptr) {
					if mss > 0 {
						err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss)
					}
				})
				return errors.Join(err, ctl)
			}}
		d.SetMultipathTCP(false)
		conn, err := d.DialContext(r.ctx, "tcp", rig.ServiceAddr(false).String())
		if err == nil {
			c = conn.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		return nil, ends, err
	}
	if ends, err = useAgreed(c); err != nil {
		c.Close()
		return nil, ends, err
	}
	return c, ends, nil
}

func useAgreed(c *net.TCPConn) (ends [2]agreed, err error) {
	_ = c.SetDeadline(time.Now().Add(probeTimeout))
	if _, err := c.Write([]byte{1}); err != nil {
		return ends, err
	}
	var b [6]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return ends, err
	}
	ends[1] = agreed{b[0], b[1], binary.BigEndian.Uint32(b[2:])}
	ends[0], err = agreedOf(c)
	return ends, err
}

// agreedRetry retries once if the connection is reset, as a browser does.
func (r *run) agreedRetry(client, mss int) (ends [2]agreed, err error) {
	for range 2 {
		var c *net.TCPConn
		if c, ends, err = r.open(client, mss); err == nil {
			return ends, c.Close()
		}
		if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			break
		}
	}
	return ends, err
}

// agreedAll makes one connection of each kind.
func (r *run) agreedAll() (all [][2]agreed, err error) {
	const client = 0 // reserved: it connects many times
	for _, v := range variants {
		err := r.p.Client.SetSysctls([2]string{"net.ipv4.tcp_timestamps", v.timestamps}, [2]string{"net.ipv4.tcp_ecn", v.ecn})
		if err != nil {
			return nil, err
		}
		ends, err := r.agreedRetry(client, v.mss)
		if err != nil {
			return nil, fmt.Errorf("client %s: %w", v.name, err)
		}
		all = append(all, ends)
	}
	return all, r.p.Client.SetSysctls([2]string{"net.ipv4.tcp_timestamps", "1"}, [2]string{"net.ipv4.tcp_ecn", "2"})
}

// measureOptions compares with what was negotiated without a defence in the box. The
// proxy learns what the server offers from its first answers: it is given time for that.
func (r *run) measureOptions(direct [][2]agreed) error {
	var got [][2]agreed
	var err error
	for until := time.Now().Add(settleFor); ; time.Sleep(100 * time.Millisecond) {
		if got, err = r.agreedAll(); err != nil {
			return err
		}
		if slices.Equal(got, direct) || time.Now().After(until) {
			break
		}
		if _, core := lostOptions(direct, got); !core && time.Now().After(until.Add(-settleFor/2)) {
			break // what is missing now will not be learned
		}
	}
	r.fig.OptionsAsked = len(direct) * 2 * 5
	r.fig.OptionsLost, r.fig.CoreLost = lostOptions(direct, got)
	return nil
}

// lostOptions names what differs, and reports whether more than MSS and ECN does.
func lostOptions(direct, got [][2]agreed) (lost []string, core bool) {
	lost = []string{}
	for i := range direct {
		for end, name := range []string{"client", "server"} {
			d, g := direct[i][end], got[i][end]
			note := func(what string, isCore bool) {
				lost = append(lost, fmt.Sprintf("%s, %s's end: %s", variants[i].name, name, what))
				core = core || isCore
			}
			for bit, option := range []string{"timestamps", "SACK", "window scale", "ECN"} {
				if (d.Options^g.Options)>>bit&1 != 0 {
					note(option, option != "ECN")
				}
			}
			if d.Options&g.Options&4 != 0 && d.Shifts != g.Shifts {
				note(fmt.Sprintf("window shifts %#x instead of %#x", g.Shifts, d.Shifts), true)
			}
			if (d.Options^g.Options)&1 == 0 && d.MSS != g.MSS {
				note(fmt.Sprintf("MSS %d instead of %d", g.MSS, d.MSS), false)
			}
		}
	}
	return lost, core
}
