package p4

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// Lists of samples, and the length of one; p4/v1model/white.p4 and flows.p4. bmv2
// numbers the lists of a program from 1 on and packs fields byte by byte.
const (
	digestList     = 1
	whiteSampleLen = 1 + 8
	flowSampleLen  = 1 + 1 + 9*4 + 4 + 1 + 1 + 2

	digestWait = time.Millisecond // for company, before digests are sent
	digestMost = 32               // at once

	ageAtOnce  = 256             // entries looked at every tick
	endedAfter = time.Minute     // a connection that its server has ended
	tableFull  = 1               // standard.thrift, TableOperationErrorCode
	lostLogged = 5 * time.Second // at most so often
)

// entries are what digests have asked for: one table of the switch, and how long each
// of its entries may be idle. Digests are handled by a goroutine of their own as they
// come; age is called from outside.
type entries struct {
	c       *Controller
	digests *simpleswitch.Digests
	name    string // of the table
	done    chan struct{}

	mu      sync.Mutex
	by      map[string]*entry // by key
	order   []*entry          // in which they are looked at
	next    int
	failed  error
	warned  time.Time
	closing bool
}

type entry struct {
	key    string
	handle int32
	idle   time.Duration
}

// listen begins to make entries of digests.
func listen(ctx context.Context, c *Controller) (*entries, error) {
	e := &entries{c: c, name: c.names.in(tableFlows), done: make(chan struct{}), by: map[string]*entry{}}
	if c.cfg.isAuth() {
		e.name = c.names.in(tableWhite)
	}
	if err := c.sw.Clear(e.name); err != nil {
		return nil, err
	}
	if err := c.sw.DigestLimits(digestList, digestWait, digestMost); err != nil {
		return nil, err
	}
	var err error
	if e.digests, err = simpleswitch.DialDigests(ctx, c.cfg.Notifications); err != nil {
		return nil, err
	}
	go e.run()
	return e, nil
}

func (e *entries) run() {
	defer close(e.done)
	for {
		d, err := e.digests.Next()
		if err == nil {
			err = e.take(d)
		}
		if err != nil {
			e.mu.Lock()
			if !e.closing {
				e.failed = err
			}
			e.mu.Unlock()
			return
		}
	}
}

func (e *entries) take(d simpleswitch.Digest) error {
	for _, sample := range d.Samples {
		var err error
		switch {
		case e.c.cfg.isAuth() && len(sample) == whiteSampleLen:
			err = e.put(sample[:1], [][]byte{sample[1:9]}, actionWhite)
		case !e.c.cfg.isAuth() && len(sample) == flowSampleLen:
			err = e.takeFlow(sample)
		default:
			err = fmt.Errorf("digest of %d bytes; is the switch running %s?", len(sample), e.c.cfg.Program)
		}
		if err != nil {
			return err
		}
	}
	return e.c.sw.AckDigests(d.List, d.Buffer)
}

// takeFlow makes an entry of a connection, or remembers that its server has ended it.
func (e *entries) takeFlow(sample []byte) error {
	var words [][]byte
	for at := 2; at < 2+9*4; at += 4 {
		words = append(words, sample[at:at+4])
	}
	said := sample[2+9*4:]
	if sample[1] == 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if known := e.by[keyOf(sample[:1], words)]; known != nil {
			known.idle = min(endedAfter, known.idle)
		}
		return nil
	}
	return e.put(sample[:1], words, actionFlow, said[:4], said[4:5], said[5:6], said[6:8])
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
	key := keyOf(family, words)
	if known := e.by[key]; known != nil { // a connection that took an old one's ports
		if err := e.drop(known); err != nil {
			return err
		}
	}
	if len(e.by) >= maxTableRows {
		return e.lost()
	}
	match := []any{simpleswitch.Exact(family)}
	for _, w := range words {
		match = append(match, simpleswitch.Exact(w))
	}
	handle, err := e.c.sw.Add(e.name, match, e.c.names.in(action), params...)
	var refused *simpleswitch.RefusedError
	if errors.As(err, &refused) && refused.Code == int32(tableFull) {
		return e.lost()
	}
	if err != nil {
		return err
	}
	idle := time.Duration(e.c.cfg.Window)
	if err := e.c.sw.SetTTL(e.name, handle, idle); err != nil { // without one the switch says no times
		return err
	}
	made := &entry{key, handle, idle}
	e.by[key] = made
	e.order = append(e.order, made)
	return nil
}

// lost says that the table is full; the newcomer is refused, those who are there stay.
func (e *entries) lost() error {
	if now := e.c.now(); now.Sub(e.warned) >= lostLogged {
		e.warned = now
		e.c.log.Warn("the switch's table is full; newcomers are refused", "table", e.name, "entries", len(e.by))
	}
	return nil
}

// drop removes an entry; its place in order is given up when its turn comes.
func (e *entries) drop(was *entry) error {
	delete(e.by, was.key)
	return e.c.sw.Delete(e.name, was.handle)
}

// age looks at the next entries and removes those that nobody has used for too long.
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
			if gone = since > at.idle; gone {
				if err := e.drop(at); err != nil {
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
	return e.failed
}

// forget removes all entries.
func (e *entries) forget() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by, e.order, e.next = map[string]*entry{}, nil, 0
	return errors.Join(e.c.sw.Clear(e.name), e.failed)
}

// len is how many entries there are.
func (e *entries) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.by)
}

// Entries is how many sources, or connections, the switch's table holds; 0 for
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

func (e *entries) close() error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	err := e.digests.Close()
	<-e.done
	return err
}
