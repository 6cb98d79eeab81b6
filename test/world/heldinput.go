// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// HoldInput has the packets to TCP ports wait where an inspecting firewall would look at them (NFQUEUE at INPUT: behind XDP and TC, before
// sockets), until `ripe` says so of one (an IP packet, its first 128 octets). Then they go on in their order, as do all that follow, until
// the next call of `again`. `held` counts the times.
func HoldInput(t *testing.T, n *rig.Namespace, ripe func(packet []byte) bool, ports ...uint16) (again func(), held *atomic.Uint64) {
	t.Helper()
	q := &inputQueue{ripe: ripe}
	if err := n.Do(q.open); err != nil {
		t.Fatalf("queue at INPUT (CONFIG_NETFILTER_NETLINK_QUEUE): %v", err)
	}
	rules := "*filter\n"
	for _, port := range ports {
		rules += fmt.Sprintf("-A INPUT -p tcp --dport %d -j NFQUEUE --queue-num 0\n", port)
	}
	for _, tool := range []string{"iptables-nft-restore", "ip6tables-nft-restore"} {
		cmd := exec.Command(tool)
		cmd.Stdin = strings.NewReader(rules + "COMMIT\n")
		var out Output
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := n.Do(cmd.Run); err != nil {
			t.Fatalf("%s (apt-get install iptables): %v: %s", tool, err, out.String())
		}
	}
	done := make(chan error, 1)
	go func() { done <- q.run() }()
	t.Cleanup(func() {
		q.end.Store(true)
		if err := <-done; err != nil {
			t.Errorf("queue at INPUT: %v", err)
		}
		_ = unix.Close(q.fd)
	})
	return func() { q.holding.Store(true) }, &q.held
}

// Of include/uapi/linux/netfilter/nfnetlink_queue.h.
const (
	nfqPacket  = unix.NFNL_SUBSYS_QUEUE<<8 | 0
	nfqVerdict = unix.NFNL_SUBSYS_QUEUE<<8 | 1
	nfqConfig  = unix.NFNL_SUBSYS_QUEUE<<8 | 2

	nfqConfigCommand = 1 // {command, 0, family, big-endian}
	nfqConfigParams  = 2 // {copy range, big-endian; copy mode}
	nfqBind          = 1
	nfqCopyPacket    = 2

	nfqPacketHeader  = 1 // {ID, big-endian, ...}
	nfqVerdictHeader = 2 // {verdict, ID, both big-endian}
	nfqPayload       = 10
	nfAccept         = 1

	nfgenmsgLen = 4
	heldLen     = 128
)

type inputQueue struct {
	fd           int
	ripe         func([]byte) bool
	holding, end atomic.Bool
	held         atomic.Uint64
	waiting      [][]byte // IDs
}

func (q *inputQueue) open() (err error) {
	q.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	if err := unix.Bind(q.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// A read that waits for ever could not be ended.
	if err := unix.SetsockoptTimeval(q.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		return err
	}
	if err := q.send(nfqConfig, nfqConfigCommand, []byte{nfqBind, 0, 0, 0}); err != nil {
		return err
	}
	return q.send(nfqConfig, nfqConfigParams, []byte{0, 0, 0, heldLen, nfqCopyPacket})
}

func (q *inputQueue) send(kind, attribute int, data []byte) error {
	request := nl.NewNetlinkRequest(kind, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC})
	request.AddData(nl.NewRtAttr(attribute, data))
	return unix.Sendto(q.fd, request.Serialize(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func (q *inputQueue) run() error {
	buf := make([]byte, 1<<16)
	for !q.end.Load() {
		n, _, err := unix.Recvfrom(q.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:(n+3)&^3]) // the kernel does not pad the last one
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := q.take(m.Header.Type, m.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *inputQueue) take(kind uint16, data []byte) error {
	switch {
	case kind == unix.NLMSG_ERROR && len(data) >= 4 && int32(binary.NativeEndian.Uint32(data)) != 0:
		return unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
	case kind != nfqPacket || len(data) < nfgenmsgLen:
		return nil
	}
	var packet []byte
	for a := range nl.ParseAttributes(data[nfgenmsgLen:]) {
		switch a.Type {
		case nfqPacketHeader:
			q.waiting = append(q.waiting, append([]byte(nil), a.Value[:4]...))
		case nfqPayload:
			packet = a.Value
		}
	}
	if q.holding.Load() {
		if !q.ripe(packet) {
			return nil
		}
		q.held.Add(1)
		q.holding.Store(false)
	}
	for _, id := range q.waiting {
		if err := q.send(nfqVerdict, nfqVerdictHeader, append([]byte{0, 0, 0, nfAccept}, id...)); err != nil {
			return err
		}
	}
	q.waiting = q.waiting[:0]
	return nil
}
