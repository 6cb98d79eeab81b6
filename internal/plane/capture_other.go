// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"tidegate/internal/plane/capturebpf"
)

// Captures and proven sources of a packet path outside the kernel, which has the same structures: dpdk/daemon/observe.c.

// CaptureBytes are the settings of a capture: struct tg_capture_settings.
func (o *CaptureOptions) CaptureBytes() []byte {
	s := o.settings()
	b := &bytes.Buffer{}
	_ = binary.Write(b, binary.NativeEndian, &s) // a fixed size, into memory
	return b.Bytes()
}

// CaptureReader reads the messages of a capture.
type CaptureReader struct {
	wall         time.Duration
	lost, beyond uint64
}

// NewCaptureReader begins now. The clock of tidegate-dpdk, a process, is that of its time namespace, which is ours.
func NewCaptureReader() *CaptureReader {
	return &CaptureReader{wall: captureWall() - time.Duration(timeNamespaceNs())}
}

// Take reads a message: a packet, or (false) what is counted.
func (r *CaptureReader) Take(message []byte) (p Captured, is bool, err error) {
	var counts capturebpf.CaptureTgCaptureCounts
	switch len(message) {
	case binary.Size(&counts):
		if err := binary.Read(bytes.NewReader(message), binary.NativeEndian, &counts); err != nil {
			return p, false, err
		}
		r.lost, r.beyond = counts.Lost, counts.Beyond
		return p, false, nil
	case binary.Size(&capturebpf.CaptureTgCaptureEvent{}):
		p, err = capturedOf(message, r.wall)
		return p, err == nil, err
	}
	return p, false, fmt.Errorf("a message of %d bytes", len(message))
}

// Missed returns how many packets found no room, and how many were beyond their core's budget and not examined.
func (r *CaptureReader) Missed() (lost, beyond uint64) { return r.lost, r.beyond }

// ProvenOf reads slots of core/proven.h.
func ProvenOf(message []byte) ([]Proven, error) {
	rows := make([]Proven, len(message)/binary.Size(Proven{}))
	if len(rows)*binary.Size(Proven{}) != len(message) {
		return nil, fmt.Errorf("a message of %d bytes", len(message))
	}
	return rows, binary.Read(bytes.NewReader(message), binary.NativeEndian, rows)
}
