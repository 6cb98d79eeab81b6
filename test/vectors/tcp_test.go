// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/binary"

	"tidegate/internal/vectors"
)

// A codec of TCP segments, for tests that must compute what a segment made
// by the programs should be, without sharing code with them.

// tcpSegment is what a frame says.
type tcpSegment struct {
	l3, l4   int // where the headers begin
	ports    []byte
	seq, ack uint32
	flags    byte
	options  tcpOptions
	sumOK    bool
}

type tcpOptions struct {
	mss    uint16
	wscale int // -1: none
	sack   bool
	ts     bool
}

func (o tcpOptions) equal(other tcpOptions) bool { return o == other }

func agreedOptions(a *vectors.Agreed) tcpOptions {
	o := tcpOptions{mss: a.MSS, wscale: int(a.WScale), sack: a.SACK, ts: a.Timestamps}
	if a.WScale == 15 {
		o.wscale = -1
	}
	return o
}

// tcpOf reads a frame with or without tags; nil if it is no whole TCP segment.
func tcpOf(frame []byte) *tcpSegment {
	l3 := 12
	for len(frame) > l3+4 && (binary.BigEndian.Uint16(frame[l3:]) == 0x8100 || binary.BigEndian.Uint16(frame[l3:]) == 0x88a8) {
		l3 += 4
	}
	l3 += 2
	if len(frame) < l3+40 {
		return nil
	}
	s := &tcpSegment{l3: l3}
	ip := frame[l3:]
	var pseudo, segment []byte
	if ip[0]>>4 == 4 {
		s.l4 = l3 + int(ip[0]&15)*4
		segment = frame[s.l4 : l3+int(binary.BigEndian.Uint16(ip[2:]))]
		pseudo = append(pseudo, ip[12:20]...)
	} else {
		s.l4 = l3 + 40
		next, at := ip[6], 40
		for next != 6 {
			if at+8 > len(ip) {
				return nil
			}
			step := int(ip[at+1])*8 + 8
			switch next {
			case 44: // a fragment header
				step = 8
			case 51: // an authentication header
				step = int(ip[at+1])*4 + 8
			}
			next, at = ip[at], at+step
		}
		s.l4 = l3 + at
		end := l3 + 40 + int(binary.BigEndian.Uint16(ip[4:]))
		if end == l3+40 {
			end = len(frame) // no length: the frame's
		}
		segment = frame[s.l4:end]
		pseudo = append(pseudo, ip[8:40]...)
	}
	if len(segment) < 20 || len(segment) < int(segment[12]>>4)*4 || segment[12]>>4 < 5 {
		return nil
	}
	s.ports, s.flags = segment[:4], segment[13]
	s.seq, s.ack = binary.BigEndian.Uint32(segment[4:]), binary.BigEndian.Uint32(segment[8:])
	s.options = readOptions(segment[20 : int(segment[12]>>4)*4])
	sum := append(append(pseudo, 0, 6, byte(len(segment)>>8), byte(len(segment))), segment...)
	if len(sum)%2 != 0 {
		sum = append(sum, 0)
	}
	s.sumOK = checksum(sum) == 0
	return s
}

func readOptions(b []byte) tcpOptions {
	o := tcpOptions{wscale: -1}
	for len(b) > 0 && b[0] != 0 {
		if b[0] == 1 {
			b = b[1:]
			continue
		}
		if len(b) < 2 || int(b[1]) < 2 || int(b[1]) > len(b) {
			break
		}
		switch b[0] {
		case 2:
			o.mss = binary.BigEndian.Uint16(b[2:])
		case 3:
			o.wscale = int(b[2])
		case 4:
			o.sack = true
		case 8:
			o.ts = true
		}
		b = b[b[1]:]
	}
	return o
}

// synackOf is a stack's answer to a SYN: addresses swapped, with its own numbers.
// It has a plain IP header and right checksums.
func synackOf(frame []byte, syn *tcpSegment, isn, tsval uint32, timestamps bool) []byte {
	out := append([]byte{}, frame[6:12]...)
	out = append(append(out, frame[:6]...), frame[12:syn.l3]...)
	ip := frame[syn.l3:]
	tcp := append(append([]byte{}, syn.ports[2:4]...), syn.ports[:2]...)
	tcp = binary.BigEndian.AppendUint32(tcp, isn)
	tcp = binary.BigEndian.AppendUint32(tcp, syn.seq+1)
	options := []byte{2, 4, 5, 180, 1, 3, 3, 7}
	if timestamps {
		options = append(options, 1, 1, 8, 10)
		options = binary.BigEndian.AppendUint32(options, tsval)
		options = append(options, timestampsOf(frame[syn.l4+20:])...)
	}
	tcp = append(tcp, byte(20+len(options))<<2, 0x12, 0xff, 0xff, 0, 0, 0, 0)
	tcp = append(tcp, options...)
	var pseudo, header []byte
	if ip[0]>>4 == 4 {
		header = []byte{0x45, 0, 0, byte(20 + len(tcp)), 0, 0, 0x40, 0, 64, 6, 0, 0}
		header = append(append(header, ip[16:20]...), ip[12:16]...)
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		pseudo = header[12:20]
	} else {
		header = []byte{0x60, 0, 0, 0, 0, byte(len(tcp)), 6, 64}
		header = append(append(header, ip[24:40]...), ip[8:24]...)
		pseudo = header[8:40]
	}
	sum := append(append(bytes.Clone(pseudo), 0, 6, 0, byte(len(tcp))), tcp...)
	binary.BigEndian.PutUint16(tcp[16:], checksum(sum))
	return append(append(out, header...), tcp...)
}

// timestampsOf is the TSval among options.
func timestampsOf(options []byte) []byte {
	for len(options) >= 10 && options[0] != 0 {
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		if options[0] == 8 {
			return options[2:6]
		}
		options = options[max(int(options[1]), 2):]
	}
	return make([]byte, 4)
}
