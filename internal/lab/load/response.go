// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"errors"
	"strconv"
)

var errBadResponse = errors.New("not a complete 200 response with a length")

const headLenMax = 8 << 10

// response follows one HTTP response through its reads: success is status 200 and exactly
// the announced number of bytes.
type response struct {
	head []byte // until the header is complete
	left int
	body bool
}

// begun reports whether a byte of it has arrived.
func (r *response) begun() bool { return r.body || len(r.head) > 0 }

// add processes the next bytes and reports whether the response is complete.
func (r *response) add(b []byte) (complete bool, err error) {
	if !r.body {
		all := b
		if len(r.head) > 0 {
			r.head = append(r.head, b...)
			all = r.head
		}
		end := bytes.Index(all, []byte("\r\n\r\n"))
		if end < 0 {
			if len(r.head) == 0 {
				r.head = append(r.head, b...)
			}
			if len(r.head) > headLenMax {
				return false, errBadResponse
			}
			return false, nil
		}
		if r.left, err = contentLength(all[:end+2]); err != nil {
			return false, err
		}
		r.body, b, r.head = true, all[end+4:], nil
	}
	if len(b) > r.left {
		return false, errBadResponse
	}
	r.left -= len(b)
	return r.left == 0, nil
}

// contentLength parses a complete header.
func contentLength(head []byte) (int, error) {
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return 0, errBadResponse
	}
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("Content-Length")) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || n < 0 {
				return 0, errBadResponse
			}
			return n, nil
		}
	}
	return 0, errBadResponse
}
