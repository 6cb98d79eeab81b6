// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"tidegate/internal/p4/simpleswitch"
	"tidegate/internal/schema"
)

const (
	ageAtOnce  = 256             // entries checked per tick
	endedAfter = time.Minute     // a connection that its server has closed
	tableFull  = 1               // standard.thrift, TableOperationErrorCode
	lostLogged = 5 * time.Second // at most this often
)

// entries are made from digests: one table of the switch, and how long each
// of its entries may be idle. Digests arrive in a goroutine of their own; age is called
// from another.
type entries struct {
	c    *Controller
	name string        // of the table
	most int           // maximum, of each pool
	idle time.Duration // unless the configuration sets another
	// While a quarter of the table or more is used, no entry may be idle for longer; 0: no such limit.
	crowded time.Duration
	full    func() error // called when a newcomer is refused
	gone    func(key string) error

	mu     sync.Mutex
	by     map[string]*entry // by key
	order  []*entry          // in which they are checked
	next   int
	pools  [2]int // entries in each
	warned time.Time
}

type entry struct {
	key    string
	handle int32
	idle   time.Duration
	pool   int
}

// newEntries makes the program's table of sources or of connections; nil if it has none.
func newEntries(c *Controller) *entries {
	e := &entries{c: c, name: c.names.in(tableFlows), most: maxTableRows, idle: time.Duration(c.cfg.Window), crowded: time.Duration(c.cfg.Crowded), by: map[string]*entry{}}
	full, _ := schema.ByName("flow_full")
	if c.cfg.isAuth() {
		e.name = c.names.in(tableWhite)
		full, _ = schema.ByName("white_full")
	}
	e.full = func() error { return c.sw.Count(c.names.in(counterAll), int(full), 1) }
	e.gone = func(string) error { return nil }
	return e
}

// adopt takes over what an earlier controller left in the table.
func (e *entries) adopt() error {
	rows, err := e.c.sw.Rows(e.name)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, row := range rows {
		key := ""
		for _, k := range row.Keys {
			exact, _ := k.(simpleswitch.Exact)
			key += string(exact)
		}
		e.add(&entry{key: key, handle: row.Handle, idle: e.idle})
	}
	return nil
}

// takeFlow makes an entry for a connection, or records that its server has closed it.
func (e *entries) takeFlow(sample []byte) error {
	var words [][]byte
	for at := 2; at < 2+9*4; at += 4 {
		words = append(words, sample[at:at+4])
	}
	options := sample[2+9*4:]
	if sample[1] == 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if known := e.by[keyOf(sample[:1], words)]; known != nil {
			known.idle = min(endedAfter, known.idle)
		}
		return nil
	}
	return e.put(sample[:1], words, actionFlow, options[:4], options[4:5], options[5:6], options[6:8])
}

func keyOf(family []byte, words [][]byte) string {
	key := string(family)
	for _, w := range words {
		key += string(w)
	}
	return key
}

func (e *entries) put(family []byte, words [][]byte, action string, params ...[]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.by[keyOf(family, words)]; known != nil { // a connection that reuses an old one's ports
		if err := e.drop(known); err != nil {
			return err
		}
	}
	_, err := e.insert(append([][]byte{family}, words...), 0, action, params...)
	return err
}

// insert makes an entry for keys that have none; false if the table, or the pool, is full.
func (e *entries) insert(keys [][]byte, pool int, action string, params ...[]byte) (bool, error) {
	if e.pools[pool] >= e.most {
		return false, e.lost()
	}
	match := make([]any, len(keys))
	for i, k := range keys {
		match[i] = simpleswitch.Exact(k)
	}
	handle, err := e.c.sw.Add(e.name, match, e.c.names.in(action), params...)
	var refused *simpleswitch.RefusedError
	if errors.As(err, &refused) && refused.Code == int32(tableFull) {
		return false, e.lost()
	}
	if err != nil {
		return false, err
	}
	if err := e.c.sw.SetTTL(e.name, handle, e.idle); err != nil { // without one the switch records no times
		return false, err
	}
	e.add(&entry{keyOf(nil, keys), handle, e.idle, pool})
	return true, nil
}

func (e *entries) add(made *entry) {
	e.by[made.key] = made
	e.order = append(e.order, made)
	e.pools[made.pool]++
}

// lost logs that the table is full; the newcomer is refused, existing entries stay.
func (e *entries) lost() error {
	if now := e.c.now(); now.Sub(e.warned) >= lostLogged {
		e.warned = now
		e.c.log.Warn("the switch's table is full; new entries are refused", "table", e.name, "entries", len(e.by))
	}
	return e.full()
}

// drop removes an entry; its place in order is freed when its turn comes.
func (e *entries) drop(was *entry) error {
	delete(e.by, was.key)
	e.pools[was.pool]--
	return e.c.sw.Delete(e.name, was.handle)
}

// age checks the next entries and removes those idle for too long.
func (e *entries) age() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range min(ageAtOnce, len(e.order)) {
		if e.next >= len(e.order) {
			e.next = 0
		}
		at := e.order[e.next]
		gone := e.by[at.key] != at
		if !gone {
			since, err := e.c.sw.SinceHit(e.name, at.handle)
			if err != nil {
				return err
			}
			if gone = since > e.idleFor(at, len(e.by)); gone {
				if err := errors.Join(e.drop(at), e.gone(at.key)); err != nil {
					return err
				}
			}
		}
		if !gone {
			e.next++
			continue
		}
		last := len(e.order) - 1
		e.order[e.next] = e.order[last]
		e.order = e.order[:last]
		if last == 0 {
			break
		}
	}
	return nil
}

// forget removes all entries.
func (e *entries) forget() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by, e.order, e.next, e.pools = map[string]*entry{}, nil, 0, [2]int{}
	return e.c.sw.Clear(e.name)
}

// len is the number of entries.
func (e *entries) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.by)
}

// Entries is the number of sources, or connections, in the switch's table; 0 for
// programs that have none.
func (c *Controller) Entries() int {
	if c.table == nil {
		return 0
	}
	return c.table.len()
}

// PutFlow makes an entry of a connection as a digest of the program `cookie` would:
// for tests of what it translates. Addresses are 16 bytes, IPv4 in the last four.
func (c *Controller) PutFlow(v6 bool, client, server [16]byte, clientPort, serverPort uint16, delta uint32,
	down, up int8, window uint16) error {
	family := flag(v6)
	var words [][]byte
	for _, address := range [][16]byte{client, server} {
		for at := 0; at < 16; at += 4 {
			words = append(words, address[at:at+4])
		}
	}
	words = append(words, binary.BigEndian.AppendUint16(u16(clientPort), serverPort))
	return c.table.put(family, words, actionFlow, u32(delta), u8(uint8(down)), u8(uint8(up)), u16(window))
}
