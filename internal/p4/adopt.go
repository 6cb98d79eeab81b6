// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/p4/simpleswitch"
)

// A controller that is started beside a switch which an earlier one has left protecting
// takes over what it finds: filter, keys, sources, connections and addresses. It changes tables
// only where they differ, so that the switch always protects.

// row is an entry that a table should have.
type row struct {
	keys   []any
	action string
	params [][]byte
}

// keyOfRow identifies an entry of a table.
func keyOfRow(keys []any) (key string) {
	for _, k := range keys {
		switch k := k.(type) {
		case simpleswitch.Exact:
			key += string(k)
		case simpleswitch.LPM:
			key += fmt.Sprintf("%s/%d ", k.Key, k.Len)
		}
	}
	return key
}

// layRows gives a table the wanted entries, and removes all others except those whose keys are in
// keep. Entries that are already right are not touched.
func (c *Controller) layRows(table string, wanted []row, keep map[string]bool) error {
	there, err := c.sw.Rows(table)
	if err != nil {
		return err
	}
	left := map[string]simpleswitch.Row{}
	for _, r := range there {
		left[keyOfRow(r.Keys)] = r
	}
	for _, w := range wanted {
		key := keyOfRow(w.keys)
		was, found := left[key]
		delete(left, key)
		switch {
		case !found:
			_, err = c.sw.Add(table, w.keys, w.action, w.params...)
		case !was.Same(w.action, w.params):
			err = c.sw.Modify(table, was.Handle, w.action, w.params...)
		}
		if err != nil {
			return err
		}
	}
	for key, r := range left {
		if keep[key] {
			continue
		}
		if err := c.sw.Delete(table, r.Handle); err != nil {
			return err
		}
	}
	return nil
}

// readGate determines whether an earlier controller protects, and with which numbers.
func (c *Controller) readGate() error {
	gate, err := c.sw.Default(c.names.in(tableGate))
	if err != nil {
		return err
	}
	if c.adopted = gate.Action == c.names.in(actionGate) && len(gate.Params) == gateParams; !c.adopted {
		return nil
	}
	c.adoptedLearning, c.generation = gate.Number(2) == 1, uint8(gate.Number(5)%bloomGenerations)
	copy(c.bloomKey[:4], u32(uint32(gate.Number(6))))
	copy(c.bloomKey[4:], u32(uint32(gate.Number(7))))
	if !c.cfg.isAuth() {
		return nil
	}
	strategy, err := c.sw.Default(c.names.in(tableStrategy))
	if err == nil && strategy.Action == c.names.in(actionStrategy) && len(strategy.Params) == 3 {
		salt := strategy.Number(2)
		c.salt = [8]byte(append(u32(uint32(salt>>32)), u32(uint32(salt))...))
	}
	return err
}

// span is the entries of an epoch and the ticks that they cover: [first, end).
type span struct {
	handles    []int32
	first, end uint64
	covered    uint64
}

// adoptEpochs takes over whole epochs with the right keys, removes other entries, and
// sets the switch's clock by them: new epochs join the old ones without a gap.
func (c *Controller) adoptEpochs() error {
	table := c.names.in(tableEpochs)
	rows, err := c.sw.Rows(table)
	if err != nil {
		return err
	}
	length := time.Duration(c.cfg.Epoch)
	now := c.now()
	present, last := keys.Epoch(now, length), keys.Epoch(now.Add(time.Duration(c.cfg.KeyHorizon)), length)
	wanted := map[uint32]uint64{} // by the entries' parameters
	for n := present - 1; n <= last; n++ {
		wanted[uint32(n)] = n
	}
	found := map[uint64]*span{}
	for _, r := range rows {
		n, near := wanted[uint32(r.Number(0))]
		lpm, _ := r.Keys[0].(simpleswitch.LPM)
		if !near || !r.Same(c.names.in(actionKeys), c.keyParams(n)) {
			if err := c.sw.Delete(table, r.Handle); err != nil {
				return err
			}
			continue
		}
		first, size := simpleswitch.Row{Params: [][]byte{lpm.Key}}.Number(0), uint64(1)<<(tickBits-lpm.Len)
		s := found[n]
		if s == nil {
			s = &span{first: first}
			found[n] = s
		}
		s.handles = append(s.handles, r.Handle)
		s.first, s.end, s.covered = min(s.first, first), max(s.end, first+size), s.covered+size
	}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		s := found[n]
		c.epochs[n] = s
		zero := keys.EpochStart(n, length).Add(-time.Duration(s.first) * tickUs * time.Microsecond)
		older := s.first == 0 // than the switch: its beginning says nothing about the clock
		whole := s.covered == s.end-s.first && (older || tickOf(length) <= s.covered+1)
		if whole && !older && c.zero.IsZero() {
			c.zero = zero
		}
		if !whole || !older && zero.Sub(c.zero).Abs() > clockSlack { // the earlier controller ended while loading them, or had another clock
			if err := c.forgetEpochs(func(e uint64) bool { return e == n }); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptTagKeys takes over the tag keys that are right and removes the others.
func (c *Controller) adoptTagKeys() error {
	if c.cfg.Program != ProgramEdge {
		return nil
	}
	rows, err := c.sw.Rows(c.names.in(tableTagKeys))
	if err != nil {
		return err
	}
	present := keys.Epoch(c.now(), time.Duration(c.cfg.Epoch))
	for _, r := range rows {
		given, _ := r.Keys[0].(simpleswitch.Exact)
		low := simpleswitch.Row{Params: [][]byte{given}}.Number(0)
		n := present + uint64(int64(int32(uint32(low)-uint32(present)))) // the epoch nearest to now
		k := tagKey{n, false}
		if len(r.Keys) > 1 { // the previous program had one key for both
			confirms, _ := r.Keys[1].(simpleswitch.Exact)
			k.confirms = slices.Equal(confirms, flag(true))
		}
		if c.tagged() && len(r.Keys) > 1 && r.Same(c.names.in(actionTagKey), c.tagKeyParams(k)) {
			c.tagKeys[k] = r.Handle
			continue
		}
		if err := c.sw.Delete(c.names.in(tableTagKeys), r.Handle); err != nil {
			return err
		}
	}
	return nil
}

// forgetAll makes the switch forward everything and clears its state, as if just started.
func (c *Controller) forgetAll() error {
	tables := []string{tableEpochs, tableMACs, tableHomes}
	switch {
	case c.cfg.isAuth():
		tables = append(tables, tableWhite)
	case c.cfg.Program == ProgramCookie:
		tables = append(tables, tableFlows)
	default:
		tables = append(tables, tableTagKeys)
	}
	err := c.Open()
	for _, t := range tables {
		if err == nil {
			err = c.sw.Clear(c.names.in(t))
		}
	}
	return errors.Join(err, c.emptyFilter(), c.emptySetup())
}
