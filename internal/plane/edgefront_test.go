// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"math/rand/v2"
	"testing"
)

// Whatever is set in the first partition is set in the front, in the same generation, and nothing else is.
func TestFrontStandsForTheFirstPartition(t *testing.T) {
	for bits := BloomBitsMin; bits <= 16; bits++ {
		words := make([]uint64, filterWords(bits))
		random := rand.New(rand.NewPCG(1, uint64(bits)))
		for range 200 {
			setPosition(words, bits, random.Uint32N(BloomPartitions<<bits), random.Uint32N(BloomGenerations))
		}
		has := func(position, generation uint32) bool {
			return words[position/16]>>(position%16*BloomGenerations+generation)&1 != 0
		}
		first := uint32(partitionWords(bits) * 16) // position of the front, numbered as those of the partitions
		for front := range uint32(1) << (bits - bloomFront) {
			for g := range uint32(BloomGenerations) {
				some := false
				for position := front << bloomFront; position < (front+1)<<bloomFront; position++ {
					some = some || has(position, g)
				}
				if has(first+front, g) != some {
					t.Fatalf("%d bits: position %d of the front says %v of generation %d, the partition %v", bits, front, !some, g, some)
				}
			}
		}
	}
}
