// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math/rand/v2"
	"time"
)

// longest is how many times the first pause the longest may be.
const longest = 8

// backoff is the pause before attempt number `again` (from 0): it doubles, up to longest times the first, and each node picks its own part of it. All nodes of a
// server lose it at the same moment; without that they would come back at the same moment, and again each time that the others cannot take them all.
func backoff(first time.Duration, again int) time.Duration {
	most := first * time.Duration(min(longest, 1<<min(max(again, 0), 10)))
	return most/2 + rand.N(most/2+1)
}
