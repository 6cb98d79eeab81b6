// SPDX-License-Identifier: Apache-2.0

package simpleswitch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Digests reads a switch's notifications: a nanomsg socket of kind PUB on a Unix
// path (simple_switch --notifications-addr ipc://PATH). Two small formats are spoken
// here: nanomsg's handshake and framing over IPC (its documents sp-protocol-ids and
// sp-tcp-mapping-01: eight bytes each way, then messages behind a type byte and a
// 64-bit length), and bmv2's header of a learning message (learning.h, msg_hdr_t).
//
//	 0     4           12      16       20             28            32
//	+-----+-----------+-------+--------+--------------+-------------+------
//	|LEA| | switch id | cxt   | list   | buffer       | samples     | ...
//	+-----+-----------+-------+--------+--------------+-------------+------
//
// in the byte order of the switch's machine (little-endian); then the samples one after another.
type Digests struct {
	conn net.Conn
}

// Digest is one message: a list's samples, each of the same length.
type Digest struct {
	List    int32
	Buffer  int64
	Samples [][]byte
}

const (
	spHandshakeLen = 8
	spSub          = 33 // 2 * 16 + 1: a subscriber
	spPub          = 32
	spMessage      = 1
	learnHeaderLen = 32
	digestMaxLen   = 16 << 20
)

// ErrDigest is the class of all errors of a notification.
var ErrDigest = errors.New("notifications of simple_switch")

// DialDigests connects to the path of the notifications.
func DialDigests(ctx context.Context, path string) (*Digests, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; start simple_switch with --notifications-addr ipc://%s", ErrDigest, err, path)
	}
	if err := handshake(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w; is %s its notifications socket?", ErrDigest, err, path)
	}
	return &Digests{conn}, nil
}

func handshake(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{0, 'S', 'P', 0, 0, spSub, 0, 0}); err != nil {
		return err
	}
	var greeting [spHandshakeLen]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	if greeting != [spHandshakeLen]byte{0, 'S', 'P', 0, 0, spPub, 0, 0} {
		return fmt.Errorf("the greeting is %x", greeting)
	}
	return conn.SetDeadline(time.Time{})
}

// Close ends the connection; a Next that waits returns.
func (d *Digests) Close() error { return d.conn.Close() }

// Next waits for the next digest. It skips other notifications (ports, ageing).
func (d *Digests) Next() (Digest, error) {
	for {
		message, err := d.message()
		if err != nil {
			return Digest{}, err
		}
		if len(message) >= learnHeaderLen && string(message[:4]) == "LEA|" {
			return parseDigest(message)
		}
	}
}

func (d *Digests) message() ([]byte, error) {
	var head [9]byte
	if _, err := io.ReadFull(d.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint64(head[1:])
	if head[0] != spMessage || n > digestMaxLen {
		return nil, fmt.Errorf("%w: message of type %d and %d bytes", ErrDigest, head[0], n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(d.conn, body)
	return body, err
}

func parseDigest(message []byte) (Digest, error) {
	g := Digest{List: int32(binary.LittleEndian.Uint32(message[16:])), Buffer: int64(binary.LittleEndian.Uint64(message[20:]))}
	samples, body := int(binary.LittleEndian.Uint32(message[28:])), message[learnHeaderLen:]
	if samples == 0 || len(body)%samples != 0 {
		return Digest{}, fmt.Errorf("%w: %d samples in %d bytes", ErrDigest, samples, len(body))
	}
	for size := len(body) / samples; len(body) > 0; body = body[size:] {
		g.Samples = append(g.Samples, body[:size])
	}
	return g, nil
}
