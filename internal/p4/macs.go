// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"encoding/binary"
	"net"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// Entries of p4/v1model/learn.p4: two pools, so that addresses forged outside never displace
// those inside.
const (
	poolOutside = iota
	poolInside

	macLimitMost = 2048 // of a pool; P4_TABLE_MACS is two pools and maxMACs
	maxMACs      = 4096 // of the configuration

	macPace  = 500 // digests a second from each port
	macBurst = 100
)

type mac [6]byte

// MACFigures are what has been learned about addresses since the process started.
type MACFigures struct {
	Outside int    `json:"outside"` // addresses known now, at outside ports
	Inside  int    `json:"inside"`
	Limit   int    `json:"limit"`   // of each; 0: none are learned
	Learned uint64 `json:"learned"` // seen for the first time
	Moved   uint64 `json:"moved"`   // seen at another port
	Aged    uint64 `json:"aged"`
	Full    uint64 `json:"full"`    // not learned: too many of this side are known
	Refused uint64 `json:"refused"` // rejected: configured, or known inside and seen outside
}

// plus adds the figures of earlier controllers of this process.
func (f MACFigures) plus(before MACFigures) MACFigures {
	f.Learned, f.Moved, f.Aged = f.Learned+before.Learned, f.Moved+before.Moved, f.Aged+before.Aged
	f.Full, f.Refused = f.Full+before.Full, f.Refused+before.Refused
	return f
}

// macs is the ports of addresses: configured ones, which are permanent, and learned ones,
// which move and age. The outside must never be able to change the port of an inside address.
type macs struct {
	c      *Controller
	homes  *entries // learn.p4's table: address and port. Its lock guards all of this
	static map[mac]int
	inside map[int]bool // ports
	at     map[mac]*place
	count  MACFigures
}

type place struct {
	port   int
	handle int32 // of the entry in forward.p4's table
}

func newMACs(c *Controller) *macs {
	m := &macs{c: c, static: map[mac]int{}, inside: map[int]bool{}, at: map[mac]*place{}}
	m.count.Limit = *c.cfg.MACLimit
	m.homes = &entries{c: c, name: c.names.in(tableHomes), most: *c.cfg.MACLimit, idle: time.Duration(c.cfg.MACAge), by: map[string]*entry{}}
	m.homes.full = func() error { m.count.Full++; return nil }
	m.homes.gone = m.aged
	return m
}

func (m *macs) pool(port int) int {
	if m.inside[port] {
		return poolInside
	}
	return poolOutside
}

func homeKeys(address mac, port int) [][]byte { return [][]byte{address[:], u16(uint16(port))} }

func homeKey(address mac, port int) string { return keyOf(nil, homeKeys(address, port)) }

// lay makes the configured entries and takes over what an earlier controller
// has learned; everything else is removed.
func (m *macs) lay() error {
	for _, name := range m.c.cfg.Inside {
		n, err := m.c.port(name)
		if err != nil {
			return err
		}
		m.inside[n] = true
	}
	for text, name := range m.c.cfg.MACs {
		hw, err := net.ParseMAC(text)
		if err != nil {
			return err
		}
		if m.static[mac(hw)], err = m.c.port(name); err != nil {
			return err
		}
	}
	m.homes.mu.Lock()
	defer m.homes.mu.Unlock()
	homes, err := m.left(m.homes.name)
	if err != nil {
		return err
	}
	rows, err := m.c.sw.Rows(m.c.names.in(tableMACs))
	if err != nil {
		return err
	}
	learned, fixed := map[string]bool{}, []row{}
	for _, r := range rows {
		address, port := mac(r.Keys[0].(simpleswitch.Exact)), int(r.Number(0))
		home, known := homes[homeKey(address, port)]
		if _, static := m.static[address]; static || !known || m.homes.pools[m.pool(port)] >= m.homes.most {
			continue
		}
		m.homes.add(&entry{homeKey(address, port), home.Handle, m.homes.idle, m.pool(port)})
		m.at[address] = &place{port, r.Handle}
		learned[string(address[:])], learned[homeKey(address, port)] = true, true
	}
	for address, port := range m.static {
		fixed = append(fixed, row{[]any{simpleswitch.Exact(address[:])}, m.c.names.in(actionToPort), [][]byte{u16(uint16(port))}})
	}
	if err := m.c.layRows(m.c.names.in(tableMACs), fixed, learned); err != nil {
		return err
	}
	fixed = fixed[:0]
	for address, port := range m.static { // so that they are not reported repeatedly
		keys := homeKeys(address, port)
		fixed = append(fixed, row{[]any{simpleswitch.Exact(keys[0]), simpleswitch.Exact(keys[1])}, m.c.names.in(actionHome), nil})
	}
	if err := m.c.layRows(m.homes.name, fixed, learned); err != nil {
		return err
	}
	return m.c.sw.MeterRates(m.c.names.in(meterPace), macPace, macBurst)
}

// left reads a table of exact keys.
func (m *macs) left(table string) (map[string]simpleswitch.Row, error) {
	rows, err := m.c.sw.Rows(table)
	if err != nil {
		return nil, err
	}
	out := map[string]simpleswitch.Row{}
	for _, r := range rows {
		out[keyOfRow(r.Keys)] = r
	}
	return out, nil
}

// take learns from a digest: this address was seen at this port, where it was not known.
func (m *macs) take(sample []byte) error {
	address, port := mac(sample[:6]), int(binary.BigEndian.Uint16(sample[6:]))
	m.homes.mu.Lock()
	defer m.homes.mu.Unlock()
	was := m.at[address]
	if home, static := m.static[address]; static && home != port ||
		was != nil && m.pool(was.port) == poolInside && m.pool(port) == poolOutside {
		m.count.Refused++
		return nil
	} else if static || was != nil && was.port == port { // reported twice
		return nil
	}
	if ok, err := m.homes.insert(homeKeys(address, port), m.pool(port), actionHome); !ok || err != nil {
		return err
	}
	table, action := m.c.names.in(tableMACs), m.c.names.in(actionToPort)
	if was == nil {
		handle, err := m.c.sw.Add(table, []any{simpleswitch.Exact(address[:])}, action, u16(uint16(port)))
		m.at[address] = &place{port, handle}
		m.count.Learned++
		return err
	}
	m.count.Moved++
	if err := m.c.sw.Modify(table, was.handle, action, u16(uint16(port))); err != nil {
		return err
	}
	before := was.port
	was.port = port
	return m.homes.drop(m.homes.by[homeKey(address, before)])
}

// aged forgets an address not seen at its port for mac_age.
func (m *macs) aged(key string) error {
	address := mac([]byte(key[:6]))
	was := m.at[address]
	delete(m.at, address)
	m.count.Aged++
	return m.c.sw.Delete(m.c.names.in(tableMACs), was.handle)
}

func (m *macs) figures() MACFigures {
	m.homes.mu.Lock()
	defer m.homes.mu.Unlock()
	f := m.count
	f.Outside, f.Inside = m.homes.pools[poolOutside], m.homes.pools[poolInside]
	return f
}
