// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"tidegate/internal/plane"
)

// The program's second socket, of messages: dpdk/daemon/observe.c.

// What a request is about: enum tg_observe_what.
const (
	observeCapture = 1
	observeProven  = 2
)

// observeMost is longer than any message.
const observeMost = 64 << 10

// SocketPath is an instance's control socket.
func SocketPath(stateDir, instance string) string { return filepath.Join(stateDir, instance+".dpdk") }

// observePath is the socket beside a control socket.
func observePath(control string) string { return control + "-observe" }

// observe sends a request: struct tg_observe_request.
func observe(control string, what uint64, count int, o *plane.CaptureOptions) (*net.UnixConn, error) {
	conn, err := dial(observePath(control))
	if err != nil {
		return nil, fmt.Errorf("tidegate-dpdk cannot be observed: %w", err)
	}
	request := binary.NativeEndian.AppendUint64(nil, what)
	request = binary.NativeEndian.AppendUint64(request, uint64(count))
	if _, err := conn.Write(append(request, o.CaptureBytes()...)); err != nil {
		return nil, errors.Join(fmt.Errorf("tidegate-dpdk cannot be observed: %w", err), conn.Close())
	}
	return conn, nil
}

// ReadProven reads the tables of proven sources of all cores, always in the same order; none if nobody is remembered.
func ReadProven(control string) (rows []plane.Proven, err error) {
	conn, err := observe(control, observeProven, 0, &plane.CaptureOptions{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	for buf := make([]byte, observeMost); ; {
		n, err := conn.Read(buf)
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("proven sources, of tidegate-dpdk: %w", err)
		}
		some, err := plane.ProvenOf(buf[:n])
		if err != nil {
			return nil, fmt.Errorf("proven sources, of tidegate-dpdk: %w; are the two programs of one version?", err)
		}
		rows = append(rows, some...)
	}
}

// Capture is a capture under way on all cores. It ends with its connection.
type Capture struct {
	*plane.CaptureReader
	conn *net.UnixConn
	buf  [observeMost]byte
}

// StartCapture starts a capture; all cores capture when it returns.
func StartCapture(control string, o plane.CaptureOptions) (*Capture, error) {
	conn, err := observe(control, observeCapture, o.Count, &o)
	if err != nil {
		return nil, err
	}
	c := &Capture{CaptureReader: plane.NewCaptureReader(), conn: conn}
	if err := c.begun(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// begun waits until all cores capture.
func (c *Capture) begun() error {
	if err := c.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	for { // packets that cores have captured before the last one did come first; the counts follow
		n, err := c.conn.Read(c.buf[:])
		if err != nil {
			return fmt.Errorf("tidegate-dpdk does not capture: %w", err)
		}
		if _, is, err := c.Take(c.buf[:n]); err != nil || !is {
			return err
		}
	}
}

// Read waits for the next packet until a deadline; os.ErrDeadlineExceeded if none came.
func (c *Capture) Read(until time.Time) (p plane.Captured, err error) {
	if err := c.conn.SetReadDeadline(until); err != nil {
		return p, err
	}
	for {
		n, err := c.conn.Read(c.buf[:])
		if err == nil && n == 0 || errors.Is(err, io.EOF) {
			return p, errors.New("tidegate-dpdk has ended the capture")
		}
		if err != nil {
			return p, err
		}
		p, is, err := c.Take(c.buf[:n])
		if err != nil {
			return p, fmt.Errorf("capture, of tidegate-dpdk: %w; are the two programs of one version?", err)
		}
		if is {
			return p, nil
		}
	}
}

// Renew has nothing to do: the capture lasts as long as its connection.
func (c *Capture) Renew() error { return nil }

// Stop ends the capture.
func (c *Capture) Stop() error { return c.conn.Close() }
