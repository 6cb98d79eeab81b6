// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/detect"
)

// BenchmarkSharing is what it takes to have so many nodes tell one another what they see of a service and 16 addresses, in one process with their server: messages
// delivered a second, and processors, of which the nodes' own share is what decoding takes.
func BenchmarkSharing(b *testing.B) {
	for _, nodes := range []int{20, 50, 100, 200} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c := newLoneServer(b)
			o, err := Connect(Access{Servers: c.urls})
			if err != nil {
				b.Fatal(err)
			}
			defer o.Close()
			if err := o.Init(context.Background(), 1); err != nil {
				b.Fatal(err)
			}
			said := []detect.ServiceClaim{{Service: "web", Claim: detect.Claim{Missing: 12.345678, Done: 1234.56789}}}
			for i := range detect.MaxClaimedPrefixes {
				said[0].Prefixes = append(said[0].Prefixes, detect.PrefixClaim{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 32), Claim: said[0].Claim})
			}
			ctx, cancel := context.WithCancel(context.Background())
			var heard atomic.Uint64
			done := make(chan struct{}, nodes)
			for i := range nodes {
				m := NewMember(Access{Servers: c.urls}, fmt.Sprintf("gate%d", i), &memoryGate{}, slog.New(slog.DiscardHandler))
				m.Share(func() []detect.ServiceClaim { return said }, func(string, []detect.ServiceClaim, time.Duration) { heard.Add(1) })
				go func() { m.Run(ctx); done <- struct{}{} }()
			}
			for heard.Load() < uint64(8*nodes*(nodes-1)) { // until each speaks as often as it shall
				time.Sleep(100 * time.Millisecond)
			}
			cpu := func() time.Duration {
				var u syscall.Rusage
				_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
				return time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
			for b.Loop() {
				used, before, began := cpu(), heard.Load(), time.Now()
				time.Sleep(12 * time.Second)
				took := time.Since(began).Seconds()
				b.ReportMetric(float64(heard.Load()-before)/took, "heard/s")
				b.ReportMetric((cpu()-used).Seconds()/took, "processors")
			}
			cancel()
			for range nodes {
				<-done
			}
		})
	}
}
