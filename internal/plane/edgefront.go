// SPDX-License-Identifier: Apache-2.0

package plane

import "sync/atomic"

// bloomFront is TG_BLOOM_FRONT of core/bloom.h: a position of the front stands for 2^bloomFront of the first partition.
const bloomFront = 6

// partitionWords is the number of words of the filter's partitions, which the front's follow.
func partitionWords(bits int) int { return BloomPartitions << (bits - 4) }

// filterWords is the number of words of a filter with 2^bits positions a partition.
func filterWords(bits int) int { return partitionWords(bits) + 1<<(bits-4-bloomFront) }

// FilterBytes is the size of such a filter.
func FilterBytes(bits int) int { return 8 * filterWords(bits) }

// setPosition sets a position, numbered across the partitions, and before it what stands for it in the front: whoever finds it in its partition
// has found it there.
func setPosition(words []uint64, bits int, position, generation uint32) {
	if front := position >> bloomFront; position < 1<<bits {
		setBit(&words[partitionWords(bits)+int(front/16)], front, generation)
	}
	setBit(&words[position/16], position, generation)
}

func setBit(word *uint64, position, generation uint32) {
	atomic.OrUint64(word, 1<<(position%16*BloomGenerations+generation))
}
