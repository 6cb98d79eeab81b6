// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// MD5Key sets a socket's TCP-MD5 key for a peer, an address of the socket's family.
func MD5Key(fd int, peer netip.Addr) error {
	key := unix.TCPMD5Sig{Keylen: 5}
	copy(key.Key[:], "tides")
	if peer.Is4() { // struct sockaddr_in: two bytes of port, then the address
		key.Addr.Family = unix.AF_INET
		copy(key.Addr.Data[2:], peer.AsSlice())
	} else { // struct sockaddr_in6: port, four bytes of flow label, address
		key.Addr.Family = unix.AF_INET6
		copy(key.Addr.Data[6:], peer.AsSlice())
	}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key)
}

// SignedPing connects a client and a server with keys for each other over IPv4, and has a word
// echoed. The client gives up a second after its first retransmission of the SYN.
func SignedPing(t *testing.T, client, server *rig.Namespace, from netip.Addr, to netip.AddrPort) error {
	t.Helper()
	l := signedSocket(t, server, from)
	at := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	if err := errors.Join(unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(l, at), unix.Listen(l, 16)); err != nil {
		t.Fatal(err)
	}
	c := signedSocket(t, client, to.Addr())
	if err := unix.Connect(c, at); err != nil {
		return err
	}
	s, _, err := unix.Accept(l)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, direction := range [][2]int{{c, s}, {s, c}} {
		b := make([]byte, 16)
		if _, err := unix.Write(direction[0], []byte("tidegate?")); err != nil {
			return err
		}
		if n, err := unix.Read(direction[1], b); err != nil || string(b[:n]) != "tidegate?" {
			return errors.Join(errors.New("the word did not come"), err)
		}
	}
	return nil
}

// signedSocket makes a socket with a key for a peer and timeouts of two seconds.
func signedSocket(t *testing.T, n *rig.Namespace, peer netip.Addr) (fd int) {
	t.Helper()
	err := n.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	tv := unix.NsecToTimeval(int64(2 * time.Second))
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
		err = errors.Join(MD5Key(fd, peer), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
