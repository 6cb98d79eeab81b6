// SPDX-License-Identifier: Apache-2.0

package simpleswitch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// Reading a switch: its entries, and whether it is there at all.

// Row is an entry of a table. Keys and parameters are big-endian numbers; the switch
// returns parameters without leading zeros.
type Row struct {
	Handle   int32
	Keys     []any // Exact or LPM
	Action   string
	Params   [][]byte
	SinceHit time.Duration // 0 where no time-out was set
}

// Same reports whether a row has this action with these parameters.
func (r Row) Same(action string, params [][]byte) bool {
	if r.Action != action || len(r.Params) != len(params) {
		return false
	}
	for i := range params {
		if !bytes.Equal(number(r.Params[i]), number(params[i])) {
			return false
		}
	}
	return true
}

// Number is a parameter of at most 8 bytes.
func (r Row) Number(param int) (v uint64) {
	for _, b := range r.Params[param] {
		v = v<<8 | uint64(b)
	}
	return v
}

// number is b without leading zeros.
func number(b []byte) []byte { return bytes.TrimLeft(b, "\x00") }

// Rows reads a whole table.
func (c *Client) Rows(table string) ([]Row, error) {
	v, err := c.call(c.standard, "bm_mt_get_entries", structure{1: int32(0), 2: table})
	if err != nil {
		return nil, err
	}
	l, _ := v.(list)
	rows := make([]Row, 0, len(l.items))
	for _, item := range l.items {
		entry, _ := item.(structure)
		row, err := rowOf(entry)
		if err != nil {
			return nil, fmt.Errorf("simple_switch: table %s: %w", table, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func rowOf(entry structure) (row Row, err error) {
	row.Handle, _ = entry[3].(int32)
	keys, _ := entry[1].(list)
	for _, item := range keys.items {
		k, _ := item.(structure)
		if exact, ok := k[2].(structure); ok {
			row.Keys = append(row.Keys, Exact(bytesOf(exact[1])))
			continue
		}
		lpm, ok := k[3].(structure)
		if !ok {
			return row, errors.New("a key that is neither exact nor a prefix")
		}
		n, _ := lpm[2].(int32)
		row.Keys = append(row.Keys, LPM{bytesOf(lpm[1]), int(n)})
	}
	action, _ := entry[4].(structure)
	row.Action, row.Params = actionOf(action)
	if life, ok := entry[5].(structure); ok {
		ms, _ := life[2].(int32)
		row.SinceHit = time.Duration(ms) * time.Millisecond
	}
	return row, nil
}

// bytesOf is a Thrift string or binary.
func bytesOf(v any) []byte {
	s, _ := v.(string)
	return []byte(s)
}

func actionOf(entry structure) (name string, params [][]byte) {
	name, _ = entry[2].(string)
	l, _ := entry[3].(list)
	for _, item := range l.items {
		params = append(params, bytesOf(item))
	}
	return name, params
}

// Default reads a table's default action, as a row without keys.
func (c *Client) Default(table string) (row Row, err error) {
	v, err := c.call(c.standard, "bm_mt_get_default_entry", structure{1: int32(0), 2: table})
	if err != nil {
		return row, err
	}
	entry, _ := v.(structure)
	row.Action, row.Params = actionOf(entry)
	return row, nil
}

// Modify gives an entry another action, atomically.
func (c *Client) Modify(table string, handle int32, action string, params ...[]byte) error {
	_, err := c.call(c.standard, "bm_mt_modify_entry", structure{1: int32(0), 2: table, 3: handle, 4: action, 5: data(params)})
	return err
}

// NumEntries returns the number of a table's entries.
func (c *Client) NumEntries(table string) (int, error) {
	v, err := c.call(c.standard, "bm_mt_get_num_entries", structure{1: int32(0), 2: table})
	n, _ := v.(int64)
	return int(n), err
}

// Count adds to one cell of a counter. Use it only where packets do not count: it reads and writes.
func (c *Client) Count(name string, index int, packets uint64) error {
	was, err := c.Counter(name, index)
	if err != nil {
		return err
	}
	return c.SetCounter(name, index, was+packets)
}

// SetCounter sets one cell of a counter.
func (c *Client) SetCounter(name string, index int, packets uint64) error {
	_, err := c.call(c.standard, "bm_counter_write", structure{1: int32(0), 2: name, 3: int32(index),
		4: structure{1: int64(0), 2: int64(packets)}})
	return err
}

// Gone reports whether an error means that the switch does not answer (any more): it has
// ended, is not started yet, or hangs. All other errors are its answers.
func Gone(err error) bool {
	var transport thrift.TTransportException
	var network net.Error
	if errors.Is(err, fs.ErrNotExist) { // it was not configured to have that socket
		return false
	}
	return errors.As(err, &transport) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}
