// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
)

// The part of the receiver's queue that a veth's ring cannot hold is kept by the
// generator (bpf/lab_queue.h). It is for paced floods; one at full speed fills the ring alone.

// VethRing is the number of frames that a veth's ring holds (VETH_RING_SIZE, Linux 6.18).
const VethRing = 256

// ringUsed is how many of them are part of the queue: all but RING_SLACK of bpf/lab_queue.h.
const ringUsed = VethRing - 128

// besideRing is how many of a queue's places the generator keeps.
func besideRing(queue int) int {
	if queue <= VethRing {
		return 0
	}
	return queue - ringUsed
}

// emptyQueue drops what waited when the last flood ended.
func (f *Flood) emptyQueue() error {
	o := &f.objs
	return errors.Join(o.QueueIn.Set(uint64(0)), o.QueueOut.Set(uint64(0)), o.QueuedHead.Set(uint32(0)), o.QueuedTail.Set(uint32(0)),
		o.QueueLostFlood.Set(uint64(0)), o.QueueLostClient.Set(uint64(0)))
}

// queueLost returns how many frames of the flood found the queue full. It fails if the program could not
// read the receiver's ring: then frames never waited.
func (f *Flood) queueLost() (lost uint64, err error) {
	var size uint32
	if err := errors.Join(f.objs.QueueLostFlood.Get(&lost), f.objs.RingSize.Get(&size)); err != nil {
		return 0, err
	}
	if size != VethRing {
		return 0, fmt.Errorf("the ring of this kernel's veth cannot be read (%d places, want %d): measure with --queue %d", size, VethRing, VethRing)
	}
	return lost, nil
}
