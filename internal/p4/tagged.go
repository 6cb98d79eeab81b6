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
// cookies' at either end.
func (c *Controller) loadTagKeys(present, last uint64) error {
	if !c.tagged() {
		return nil
	}
	for n := present - 1; n <= last+1; n++ {
		if _, have := c.tagKeys[n]; have {
			continue
		}
		h, err := c.sw.Add(c.names.in(tableTagKeys), []any{simpleswitch.Exact(u32(uint32(n)))}, c.names.in(actionTagKey), c.tagKeyParams(n)...)
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

// tagKeyParams are the key of epoch n's confirmations and tags.
func (c *Controller) tagKeyParams(n uint64) [][]byte {
	raw := c.secret.TagKey(n)
	return [][]byte{binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[:8])),
		binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[8:]))}
}
