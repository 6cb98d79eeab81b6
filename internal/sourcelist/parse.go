// SPDX-License-Identifier: Apache-2.0

package sourcelist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"
)

const (
	maxLine = 1024
	// MaxComment is how many bytes of a comment are kept.
	MaxComment = 200
)

// LineError is what is wrong with a line of a list.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// ReadFile appends the entries of a file. room is how many there may be.
func ReadFile(path string, v Verdict, source uint8, room int, to []Entry) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return to, err
	}
	defer f.Close()
	return Read(f, path, v, source, room, to)
}

// Read appends the entries of a list: one a line, as docs/lists.md describes. It stops at the first line that is wrong.
func Read(r io.Reader, name string, v Verdict, source uint8, room int, to []Entry) ([]Entry, error) {
	read := 0
	err := scan(r, name, v, source, func(e *Entry) error {
		if read++; read > room {
			return fmt.Errorf("one entry more than the %d that all lists together may have", MaxEntries)
		}
		to = append(to, *e)
		return nil
	})
	return to, err
}

// scan calls each for every entry, until it or a line is wrong.
func scan(r io.Reader, name string, v Verdict, source uint8, each func(*Entry) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	comments := map[string]string{} // the same text once
	for line := 1; ; line++ {
		text, err := in.ReadSlice('\n')
		if len(text) > maxLine || errors.Is(err, bufio.ErrBufferFull) {
			return &LineError{name, line, fmt.Errorf("longer than %d bytes", maxLine)}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", name, err)
		}
		e, there, wrong := parseLine(text, v, comments)
		if wrong == nil && there {
			e.Source, e.Line = source, uint32(line)
			wrong = each(&e)
		}
		if wrong != nil {
			return &LineError{name, line, wrong}
		}
		if err != nil {
			return nil
		}
	}
}

// parseLine reads `PREFIX [until TIME] [# COMMENT]`; there is false for an empty line or one with a comment alone.
func parseLine(line []byte, v Verdict, comments map[string]string) (e Entry, there bool, err error) {
	text := string(line) // one allocation: netip wants it
	comment := ""
	if at := strings.IndexAny(text, "#;"); at >= 0 {
		text, comment = text[:at], strings.TrimSpace(text[at+1:])
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return e, false, nil
	}
	p, err := ParsePrefix(fields[0])
	if err != nil {
		return e, false, err
	}
	e = NewEntry(p, v)
	switch {
	case len(fields) == 3 && fields[1] == "until":
		until, err := time.Parse(time.RFC3339, fields[2])
		if err != nil {
			return e, false, fmt.Errorf("until %q: want a time such as 2027-01-31T12:00:00Z", fields[2])
		}
		e.Until = until.Unix()
		if e.Until <= 0 {
			return e, false, fmt.Errorf("until %q: want a time after 1970", fields[2])
		}
	case len(fields) > 1:
		return e, false, fmt.Errorf("%q: want PREFIX, `until TIME` if it shall expire, and a comment behind # or ;", strings.Join(fields[1:], " "))
	}
	if len(comment) > MaxComment {
		comment = comment[:MaxComment]
	}
	if comment != "" {
		comment = strings.ToValidUTF8(comment, "?")
		if known, ok := comments[comment]; ok {
			comment = known
		} else if len(comments) < 4096 {
			comment = strings.Clone(comment)
			comments[comment] = comment
		} else {
			comment = strings.Clone(comment)
		}
	}
	e.Comment = comment
	return e, true, nil
}

// ParsePrefix reads a prefix, or an address, which is the prefix of itself alone.
func ParsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is no prefix; want one such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.1", text)
		}
		if a.Is4In6() {
			a = a.Unmap()
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no prefix; want one such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.1", text)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q: write it as an IPv4 prefix", text)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has bits behind its length; want %s, or %s", text, p.Masked(), p.Addr())
	}
	return p, nil
}
