// SPDX-License-Identifier: Apache-2.0

// Package simpleswitch is a client of bmv2's simple_switch: its Thrift runtime
// (behavioral-model, standard.thrift, simple_pre_lag.thrift, simple_switch.thrift) and
// its notifications. It knows calls and bytes; it must know nothing of what our
// programs use a table for.
//
// Protocol and transport are Apache Thrift's own library. The dozen calls are spelled
// out here; all that the compiler generates for the three services is 36,000 lines.
package simpleswitch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// callTimeout bounds every call: a switch that does not answer is gone.
const callTimeout = 10 * time.Second

// Client is a connection to a switch; its methods may be called concurrently.
type Client struct {
	mu        sync.Mutex
	transport thrift.TTransport
	standard  thrift.TClient
	multicast thrift.TClient
	target    thrift.TClient
}

// Dial connects to the Thrift port of a switch.
func Dial(ctx context.Context, addr string) (*Client, error) {
	d := net.Dialer{Timeout: callTimeout}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("simple_switch at %s: %w; start it with --thrift-port, or name its address", addr, err)
	}
	socket := thrift.NewTSocketFromConnConf(conn, &thrift.TConfiguration{SocketTimeout: callTimeout})
	c := &Client{transport: thrift.NewTBufferedTransport(socket, 4096)}
	protocol := thrift.NewTBinaryProtocolConf(c.transport, nil)
	service := func(name string) thrift.TClient {
		return thrift.NewTStandardClient(protocol, thrift.NewTMultiplexedProtocol(protocol, name))
	}
	c.standard, c.multicast, c.target = service("standard"), service("simple_pre_lag"), service("simple_switch")
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.transport.Close() }

// call makes one call; what the switch returns stands in field 0, an exception in 1.
func (c *Client) call(client thrift.TClient, method string, args structure) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	result := structure{}
	if _, err := client.Call(context.Background(), method, args, result); err != nil {
		return nil, fmt.Errorf("simple_switch: %s: %w", method, err)
	}
	if e, ok := result[1].(structure); ok {
		return nil, &RefusedError{Method: method, Code: e[1]}
	}
	return result[0], nil
}

// RefusedError is an exception of the switch.
type RefusedError struct {
	Method string
	Code   any // the number in the service's list of error codes
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("simple_switch refused %s with code %v; is it running our program?", e.Method, e.Code)
}

// Exact and LPM are the matches of a table entry, big-endian, as wide as the field.
type (
	Exact []byte
	LPM   struct {
		Key []byte
		Len int
	}
)

func match(keys []any) list {
	l := list{of: thrift.STRUCT}
	for _, k := range keys {
		switch k := k.(type) {
		case Exact:
			l.items = append(l.items, structure{1: int32(0), 2: structure{1: []byte(k)}})
		case LPM:
			l.items = append(l.items, structure{1: int32(1), 3: structure{1: k.Key, 2: int32(k.Len)}})
		default:
			panic(fmt.Sprintf("simpleswitch: no match of %T", k))
		}
	}
	return l
}

func data(params [][]byte) list {
	l := list{of: thrift.STRING}
	for _, p := range params {
		l.items = append(l.items, p)
	}
	return l
}

// SetDefault sets the default action of a table.
func (c *Client) SetDefault(table, action string, params ...[]byte) error {
	_, err := c.call(c.standard, "bm_mt_set_default_action", structure{1: int32(0), 2: table, 3: action, 4: data(params)})
	return err
}

// Add adds an entry and returns its handle.
func (c *Client) Add(table string, keys []any, action string, params ...[]byte) (int32, error) {
	v, err := c.call(c.standard, "bm_mt_add_entry", structure{1: int32(0), 2: table, 3: match(keys), 4: action,
		5: data(params), 6: structure{}})
	if err != nil {
		return 0, err
	}
	handle, ok := v.(int32)
	if !ok {
		return 0, fmt.Errorf("simple_switch: bm_mt_add_entry answered %T", v)
	}
	return handle, nil
}

// Delete removes an entry.
func (c *Client) Delete(table string, handle int32) error {
	_, err := c.call(c.standard, "bm_mt_delete_entry", structure{1: int32(0), 2: table, 3: handle})
	return err
}

// Clear removes all entries of a table.
func (c *Client) Clear(table string) error {
	_, err := c.call(c.standard, "bm_mt_clear_entries", structure{1: int32(0), 2: table, 3: false})
	return err
}

// SetTTL makes the switch report when an entry was not hit for this long.
func (c *Client) SetTTL(table string, handle int32, ttl time.Duration) error {
	_, err := c.call(c.standard, "bm_mt_set_entry_ttl", structure{1: int32(0), 2: table, 3: handle, 4: int32(ttl.Milliseconds())})
	return err
}

// SinceHit returns how long ago an entry was last hit; the table must support time-outs.
func (c *Client) SinceHit(table string, handle int32) (time.Duration, error) {
	v, err := c.call(c.standard, "bm_mt_get_entry", structure{1: int32(0), 2: table, 3: handle})
	if err != nil {
		return 0, err
	}
	entry, _ := v.(structure)
	life, ok := entry[5].(structure)
	if !ok {
		return 0, fmt.Errorf("simple_switch: table %s keeps no times", table)
	}
	ms, _ := life[2].(int32)
	return time.Duration(ms) * time.Millisecond, nil
}

// Counter reads the packets of one cell.
func (c *Client) Counter(name string, index int) (uint64, error) {
	v, err := c.call(c.standard, "bm_counter_read", structure{1: int32(0), 2: name, 3: int32(index)})
	if err != nil {
		return 0, err
	}
	s, _ := v.(structure)
	n, ok := s[2].(int64)
	if !ok {
		return 0, fmt.Errorf("simple_switch: counter %s has no packets", name)
	}
	return uint64(n), nil
}

// ResetCounters sets a whole counter array to zero.
func (c *Client) ResetCounters(name string) error {
	_, err := c.call(c.standard, "bm_counter_reset_all", structure{1: int32(0), 2: name})
	return err
}

// WriteRange writes the registers [first, end).
func (c *Client) WriteRange(name string, first, end int, value int64) error {
	_, err := c.call(c.standard, "bm_register_write_range", structure{1: int32(0), 2: name, 3: int32(first), 4: int32(end), 5: value})
	return err
}

// Registers reads a whole register array.
func (c *Client) Registers(name string) ([]int64, error) {
	v, err := c.call(c.standard, "bm_register_read_all", structure{1: int32(0), 2: name})
	if err != nil {
		return nil, err
	}
	l, _ := v.(list)
	out := make([]int64, len(l.items))
	for i, item := range l.items {
		out[i], _ = item.(int64)
	}
	return out, nil
}

// MeterRates sets a two-rate meter array: packets a second, and how many at once.
func (c *Client) MeterRates(name string, perSecond float64, burst int) error {
	rate := structure{1: perSecond / 1e6, 2: int32(burst)}
	_, err := c.call(c.standard, "bm_meter_array_set_rates", structure{1: int32(0), 2: name,
		3: list{of: thrift.STRUCT, items: []any{rate, rate}}})
	return err
}

// SetMulticastGroup makes a group of ports, or changes the ports of an existing one.
func (c *Client) SetMulticastGroup(group int, ports []int) error {
	portMap := make([]byte, 512)
	for i := range portMap {
		portMap[i] = '0'
	}
	for _, p := range ports {
		portMap[len(portMap)-1-p] = '1'
	}
	node, err := c.groupNode(group)
	if err != nil {
		return err
	}
	if node >= 0 {
		_, err := c.call(c.multicast, "bm_mc_node_update", structure{1: int32(0), 2: node, 3: string(portMap), 4: ""})
		return err
	}
	v, err := c.call(c.multicast, "bm_mc_mgrp_create", structure{1: int32(0), 2: int32(group)})
	if err != nil {
		return err
	}
	handle, _ := v.(int32)
	v, err = c.call(c.multicast, "bm_mc_node_create", structure{1: int32(0), 2: int32(0), 3: string(portMap), 4: ""})
	if err != nil {
		return err
	}
	node, _ = v.(int32)
	_, err = c.call(c.multicast, "bm_mc_node_associate", structure{1: int32(0), 2: handle, 3: node})
	return err
}

// groupNode is the first node of a group; -1 if there is no such group.
func (c *Client) groupNode(group int) (int32, error) {
	v, err := c.call(c.multicast, "bm_mc_get_entries", structure{1: int32(0)})
	if err != nil {
		return 0, err
	}
	var entries struct {
		Groups []struct {
			ID    int     `json:"id"`
			Nodes []int32 `json:"l1_handles"`
		} `json:"mgrps"`
	}
	text, _ := v.(string)
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return 0, fmt.Errorf("simple_switch: multicast groups: %w", err)
	}
	for _, g := range entries.Groups {
		if g.ID == group && len(g.Nodes) != 0 {
			return g.Nodes[0], nil
		}
	}
	return -1, nil
}

// AckDigests acknowledges a buffer of digests.
func (c *Client) AckDigests(listID int32, buffer int64) error {
	_, err := c.call(c.standard, "bm_learning_ack_buffer", structure{1: int32(0), 2: listID, 3: buffer})
	return err
}

// DigestLimits sets how long digests may wait for further samples, and the maximum per message.
func (c *Client) DigestLimits(listID int32, wait time.Duration, samples int) error {
	if _, err := c.call(c.standard, "bm_learning_set_timeout", structure{1: int32(0), 2: listID, 3: int32(wait.Milliseconds())}); err != nil {
		return err
	}
	_, err := c.call(c.standard, "bm_learning_set_buffer_size", structure{1: int32(0), 2: listID, 3: int32(samples)})
	return err
}

// Ports lists the interfaces of the switch by port number.
func (c *Client) Ports() (map[int]string, error) {
	v, err := c.call(c.standard, "bm_dev_mgr_show_ports", structure{})
	if err != nil {
		return nil, err
	}
	l, _ := v.(list)
	ports := make(map[int]string, len(l.items))
	for _, item := range l.items {
		s, _ := item.(structure)
		n, _ := s[1].(int32)
		ports[int(n)], _ = s[2].(string)
	}
	return ports, nil
}

// Elapsed is the switch's own clock: that of ingress_global_timestamp.
func (c *Client) Elapsed() (time.Duration, error) {
	v, err := c.call(c.target, "get_time_elapsed_us", structure{})
	if err != nil {
		return 0, err
	}
	us, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("simple_switch: get_time_elapsed_us answered %T", v)
	}
	return time.Duration(us) * time.Microsecond, nil
}
