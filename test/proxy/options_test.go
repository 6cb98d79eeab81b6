// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

// Other clients: their SYNs have options in other orders, with unknown ones
// between them, or lack some. The SYN to the server must offer the same.
func TestOptionOrders(t *testing.T) {
	const mss, scale, tsval = 1460, 6, 0x01020304
	optMSS, optWS, optSACK := []byte{2, 4, mss >> 8, mss & 255}, []byte{3, 3, scale}, []byte{4, 2}
	optTS := []byte{8, 10, 1, 2, 3, 4, 0, 0, 0, 0}
	nop, end := []byte{1}, []byte{0}
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie"))
	w.acquaint(false) // clients of an unknown server are offered no options
	server, err := load.NewTap(w.ServerPort)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for i, o := range []struct {
		name    string
		options [][]byte
		want    string // of m, w, s, t
	}{
		{"Linux", [][]byte{optMSS, optSACK, optTS, nop, optWS}, "mwst"},
		{"macOS", [][]byte{optMSS, nop, optWS, nop, nop, optTS, optSACK, end, end}, "mwst"},
		{"Windows", [][]byte{optMSS, nop, optWS, nop, nop, optSACK}, "mws"},
		{"gVisor", [][]byte{optMSS, optTS, nop, nop, optSACK, nop, optWS}, "mwst"},
		{"timestamps first", [][]byte{nop, nop, optTS, optWS, nop, optSACK, nop, nop, optMSS}, "mwst"},
		{"scale and an unknown option", [][]byte{optWS, {254, 5, 1, 2, 3}, optMSS}, "mw"},
		{"bare", nil, ""},
	} {
		options := slices.Concat(o.options...)
		for len(options)%4 != 0 {
			options = append(options, 0)
		}
		r := w.raw(uint16(42000 + i))
		s := load.Segment{Src: r.src, Dst: r.dst, Flags: load.FlagSYN, Seq: r.seq, Window: 65535, Options: options}
		if err := load.SendSegment(w.Client, s); err != nil {
			t.Fatal(err)
		}
		answer := r.expect(o.name+": SYN-ACK", func(s load.Segment) bool { return s.Flags == load.FlagSYN|load.FlagACK })
		ack := load.Segment{Src: r.src, Dst: r.dst, Flags: load.FlagACK, Seq: r.seq + 1, Ack: answer.Seq + 1, Window: 512}
		if ts := option(answer.Options, 8); (ts != nil) != bytes.ContainsRune([]byte(o.want), 't') {
			t.Errorf("%s: the SYN-ACK's timestamps: %x", o.name, ts)
		} else if ts != nil {
			ack.Options = slices.Concat(nop, nop, []byte{8, 10}, binary.BigEndian.AppendUint32(nil, tsval+1), ts[:4])
		}
		if err := load.SendSegment(w.Client, ack); err != nil {
			t.Fatal(err)
		}
		syn, ok := server.Next(time.Now().Add(patience/2), func(s load.Segment) bool { return s.Src == r.src && s.Flags == load.FlagSYN })
		if !ok {
			t.Fatalf("%s: no SYN reached the server", o.name)
		}
		for _, part := range []struct {
			letter rune
			kind   byte
			want   []byte
		}{{'m', 2, optMSS[2:]}, {'w', 3, optWS[2:]}, {'s', 4, []byte{}}} {
			got := option(syn.Options, part.kind)
			asked := bytes.ContainsRune([]byte(o.want), part.letter)
			if part.letter == 'm' && !asked {
				continue // the cookie encodes the smallest MSS, which is what a missing option means
			}
			if asked != (got != nil) || asked && !bytes.Equal(got, part.want) {
				t.Errorf("%s: option %d of the SYN to the server is %x", o.name, part.kind, got)
			}
		}
		if got := option(syn.Options, 8); (got != nil) != bytes.ContainsRune([]byte(o.want), 't') {
			t.Errorf("%s: timestamps of the SYN to the server: %x", o.name, got)
		}
		r.expect(o.name+": the server's window", func(s load.Segment) bool { return s.Flags == load.FlagACK && s.Window > 0 })
	}
}

// option is the value of the first option of a kind; nil if there is none.
func option(options []byte, kind byte) []byte {
	for len(options) > 0 && options[0] != 0 {
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || int(options[1]) < 2 || int(options[1]) > len(options) {
			return nil
		}
		if options[0] == kind {
			return append([]byte{}, options[2:options[1]]...)
		}
		options = options[options[1]:]
	}
	return nil
}
