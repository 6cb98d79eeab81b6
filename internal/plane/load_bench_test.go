// SPDX-License-Identifier: Apache-2.0

package plane

import "testing"

// How long the kernel takes to check and load the proxy's programs and to make its (small) tables: most of what a start or
// a restart of that role takes.
func BenchmarkLoadProxy(b *testing.B) {
	for b.Loop() {
		p, err := LoadProxy(ProxyOptions{Options: Options{KeySlots: 4}, Flows: 1024, Sources: 1024, Halves: 1024})
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}
