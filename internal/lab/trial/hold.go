// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"net"
	"sync"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// watchState samples until ctx ends and returns the peak.
func watchState(ctx context.Context, d defences.Stateful) *ProxyState {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var most plane.Usage
	for {
		if u := d.State(); u.Entries > most.Entries {
			most = u
		}
		select {
		case <-ctx.Done():
			return &ProxyState{Flows: most.Entries, BytesPerFlow: load.Round3(defences.BytesPerEntry(most, d.EmptyBytes()))}
		case <-tick.C:
		}
	}
}

// heldConns is how many connections are held open for a short time at the end of an attack:
// those of the load have ended before state can be sampled.
const heldConns = 32

// hold opens connections that begin a request, and keeps them for two samples: a connection without
// data so far is not in the proxy's flow table.
func (env *Env) hold(ctx context.Context, t *rig.Topology) {
	conns := make(chan net.Conn, heldConns)
	var wg sync.WaitGroup
	for i := range heldConns {
		wg.Go(func() {
			_ = t.Client.Do(func() error {
				d := net.Dialer{Timeout: env.opts.Timeout, LocalAddr: &net.TCPAddr{IP: rig.ClientAddr(i%env.opts.Clients, env.opts.IPv6).AsSlice()}}
				d.SetMultipathTCP(false)
				c, err := d.DialContext(ctx, "tcp", rig.ServiceAddr(env.opts.IPv6).String())
				if err != nil {
					return err
				}
				conns <- c
				_, err = c.Write([]byte("G"))
				return err
			})
		})
	}
	wg.Wait()
	close(conns)
	select {
	case <-time.After(2 * sampleEvery):
	case <-ctx.Done():
	}
	for c := range conns {
		c.Close()
	}
}
