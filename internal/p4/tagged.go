// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"encoding/binary"
	"fmt"

	"tidegate/internal/p4/simpleswitch"
)

// tagged reports whether the edge uses the protocol `tagged`.
func (c *Controller) tagged() bool { return c.cfg.Protocol == ProtocolTagged }

// setTagged sets our number among the edges; 0 with the protocol `plain`.
func (c *Controller) setTagged() error {
	if c.cfg.Program != ProgramEdge {
		return nil
	}
	if !c.tagged() {
		return c.sw.SetDefault(c.names.in(tableTagged), "NoAction")
	}
	return c.sw.SetDefault(c.names.in(tableTagged), c.names.in(actionTagged), u16(uint16(c.cfg.EdgeID)), u32(uint32(c.cfg.MTU)))
}

// tagKey names an entry of the switch's table: an epoch's key of tags or of confirmations.
type tagKey struct {
	epoch    uint64
	confirms bool
}

// loadTagKeys loads both of the epochs whose confirmations count: one more than the
// cookies' at either end.
func (c *Controller) loadTagKeys(present, last uint64) error {
	if !c.tagged() {
		return nil
	}
	for n := present - 1; n <= last+1; n++ {
		for _, k := range []tagKey{{n, false}, {n, true}} {
			if err := c.loadTagKey(k); err != nil {
				return fmt.Errorf("tag key of epoch %d: %w", n, err)
			}
		}
	}
	for k, h := range c.tagKeys {
		if k.epoch+2 >= present && k.epoch <= last+1 {
			continue
		}
		if err := c.sw.Delete(c.names.in(tableTagKeys), h); err != nil {
			return err
		}
		delete(c.tagKeys, k)
	}
	return nil
}

func (c *Controller) loadTagKey(k tagKey) error {
	if _, have := c.tagKeys[k]; have {
		return nil
	}
	match := []any{simpleswitch.Exact(u32(uint32(k.epoch))), simpleswitch.Exact(flag(k.confirms))}
	h, err := c.sw.Add(c.names.in(tableTagKeys), match, c.names.in(actionTagKey), c.tagKeyParams(k)...)
	if err == nil {
		c.tagKeys[k] = h
	}
	return err
}

func (c *Controller) tagKeyParams(k tagKey) [][]byte {
	raw := c.secret.TagKey(k.epoch)
	if k.confirms {
		raw = c.secret.ConfirmKey(k.epoch)
	}
	return [][]byte{binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[:8])),
		binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(raw[8:]))}
}
