package p4

import (
	"encoding/binary"
	"fmt"

	"tidegate/internal/p4/simpleswitch"
)

// tagged tells whether the edge speaks the protocol `tagged`.
func (c *Controller) tagged() bool { return c.cfg.Protocol == ProtocolTagged }

// setTagged says who we are among the edges; nobody, in the protocol `plain`.
func (c *Controller) setTagged() error {
	if c.cfg.Program != ProgramEdge {
		return nil
	}
	if !c.tagged() {
		return c.sw.SetDefault(c.names.in(tableTagged), "NoAction")
	}
	return c.sw.SetDefault(c.names.in(tableTagged), c.names.in(actionTagged), u16(uint16(c.cfg.EdgeID)), u32(uint32(c.cfg.MTU)))
}

// loadTagKeys loads those of the epochs whose confirmations count: one more than the
// cookies' at either end. A controller that begins clears what another has left.
func (c *Controller) loadTagKeys(present, last uint64) error {
	if !c.tagged() {
		return nil
	}
	if len(c.tagKeys) == 0 {
		if err := c.sw.Clear(c.names.in(tableTagKeys)); err != nil {
			return err
		}
	}
	for n := present - 1; n <= last+1; n++ {
		if _, have := c.tagKeys[n]; have {
			continue
		}
		raw := c.secret.TagKey(n)
		k0 := binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[:8]))
		k1 := binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[8:]))
		h, err := c.sw.Add(c.names.in(tableTagKeys), []any{simpleswitch.Exact(u32(uint32(n)))}, c.names.in(actionTagKey), k0, k1)
		if err != nil {
			return fmt.Errorf("tag key of epoch %d: %w", n, err)
		}
		c.tagKeys[n] = h
	}
	for n, h := range c.tagKeys {
		if n+2 >= present && n <= last+1 {
			continue
		}
		if err := c.sw.Delete(c.names.in(tableTagKeys), h); err != nil {
			return err
		}
		delete(c.tagKeys, n)
	}
	return nil
}
