// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// Suricata's alerts: the metadata of a rule says what the rule has seen.
//
//	metadata: tidegate block, tidegate_witness ts;      the rule looks at the DSCP (`tos: 188;`)
//	metadata: tidegate reflected, tidegate_witness ts;  the source is a reflector
//
// An alert without `tidegate` requests nothing.

// eveLine is the part of a line of EVE JSON that is read.
type eveLine struct {
	EventType string `json:"event_type"`
	Src       string `json:"src_ip"`
	Dst       string `json:"dest_ip"`
	Alert     struct {
		Signature string              `json:"signature"`
		Metadata  map[string][]string `json:"metadata"`
	} `json:"alert"`
}

// ParseEVE reads a line; ok is false for a line that requests nothing.
func ParseEVE(line []byte) (r Request, ok bool, err error) {
	var e eveLine
	if err := json.Unmarshal(line, &e); err != nil {
		return r, false, err
	}
	what := e.Alert.Metadata["tidegate"]
	if e.EventType != "alert" || len(what) == 0 {
		return r, false, nil
	}
	src, errA := netip.ParseAddr(e.Src)
	dst, errB := netip.ParseAddr(e.Dst)
	if err := errors.Join(errA, errB); err != nil {
		return r, false, err
	}
	r = Request{Src: whole(src), Dst: whole(dst), Witness: SeenUnknown,
		Reflected: slices.Contains(what, "reflected"), Detector: "suricata: " + e.Alert.Signature}
	if w := e.Alert.Metadata["tidegate_witness"]; len(w) == 1 {
		r.Witness = WitnessOf(w[0])
	}
	return r, true, nil
}

func whole(a netip.Addr) netip.Prefix { a = a.Unmap(); return netip.PrefixFrom(a, a.BitLen()) }

const (
	eveLineMax = 1 << 20 // bytes, with the line's end
	evePoll    = 100 * time.Millisecond
)

// follower reads one file.
type follower struct {
	m       *Manager
	log     *slog.Logger
	add     func([]Request) []error
	unread  rate.Sometimes // of log lines, as are the next: an attack must not fill the log
	refused rate.Sometimes
	in      *bufio.Reader
	partial []byte // an unfinished line, at most eveLineMax and one buffer long
	skip    bool   // until the next line: this one is too long
}

// begin switches to another file.
func (f *follower) begin(file io.Reader) {
	f.in, f.partial, f.skip = bufio.NewReaderSize(file, 1<<16), nil, false
}

// FollowEVE sends requests for the lines added to a file, until ctx ends. A
// file that is replaced or truncated is followed from its beginning.
func FollowEVE(ctx context.Context, path string, m *Manager, log *slog.Logger) {
	f := &follower{m: m, log: log, unread: rate.Sometimes{First: 10, Interval: time.Second},
		refused: rate.Sometimes{First: 10, Interval: time.Second}, add: func(list []Request) []error { return m.AddAll(list, nil) }}
	var file *os.File
	fromEnd := true
	defer func() {
		if file != nil {
			file.Close()
		}
	}()
	for ctx.Err() == nil {
		if file == nil {
			opened, err := os.Open(path)
			if err == nil {
				if fromEnd {
					_, _ = opened.Seek(0, io.SeekEnd)
				}
				file = opened
				f.begin(file)
			}
			fromEnd = false
		}
		n := 0
		if file != nil {
			n = f.lines()
			if n == 0 && replaced(file, path) {
				file.Close()
				file = nil
				continue
			}
		}
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(evePoll): // no file event works on every file system
			}
		}
	}
}

// lines processes the complete lines, keeps an unfinished one, and returns how many lines there were.
func (f *follower) lines() (n int) {
	var list []Request
	for len(list) < 4096 {
		line, err := f.in.ReadSlice('\n')
		if !f.skip {
			f.partial = append(f.partial, line...)
		}
		if len(f.partial) > eveLineMax {
			f.skip, f.partial = true, nil
			f.m.EVESkipped.Add(1)
			f.unread.Do(func() { f.log.Warn("skipped a line of Suricata's EVE file that is too long", "bytes_max", eveLineMax) })
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			break
		}
		n++
		if f.skip {
			f.skip = false
			continue
		}
		if r, ok, err := ParseEVE(bytes.TrimSpace(f.partial)); err != nil {
			f.unread.Do(func() { f.log.Warn("cannot parse a line of Suricata's EVE file", "error", err) })
		} else if ok {
			list = append(list, r)
		}
		f.partial = f.partial[:0]
	}
	for i, err := range f.add(list) {
		if err != nil {
			f.refused.Do(func() { f.log.Warn("not asked for", "src", list[i].Src, "dst", list[i].Dst, "why", err) })
		}
	}
	return n
}

// replaced reports whether path is another file now, or was truncated.
func replaced(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return true
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || have.Size() < at {
		return true
	}
	now, err := os.Stat(path)
	return err == nil && !os.SameFile(have, now)
}
