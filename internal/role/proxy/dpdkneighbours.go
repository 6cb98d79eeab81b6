// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
)

// watchNeighbours begins to keep the program's neighbours equal to the kernel's.
func (d *dpdkProxy) watchNeighbours() (err error) {
	if d.onKernel() && d.Cfg.Proxy.Forwarding == config.ForwardRouter {
		d.neighbours, err = dpdk.WatchNeighbours(d.Cfg.Interfaces)
	}
	return err
}

// neighbourUpdates are the kernel's; nil, which never delivers, if the kernel has no part in this.
func (d *dpdkProxy) neighbourUpdates() chan netlink.NeighUpdate {
	if d.neighbours == nil {
		return nil
	}
	return d.neighbours.Updates
}

// refusedEvery is how often it is logged that the kernel does not ask for neighbours.
const refusedEvery = time.Minute

// ask makes the kernel resolve a neighbour. The program repeats its request as long as frames come for it.
func (d *dpdkProxy) ask(u dpdk.Unresolved) {
	if d.neighbours == nil {
		return
	}
	err := d.neighbours.Ask(u.Neighbour, u.Host)
	if err == nil || errors.Is(err, dpdk.ErrBusy) || time.Since(d.refused) < refusedEvery {
		return
	}
	d.refused = time.Now()
	d.Log.Warn("the kernel does not ask for a neighbour; frames to it are dropped", "neighbour", u.Addr, "interface", d.Cfg.Interfaces[min(u.Port, len(d.Cfg.Interfaces)-1)], "error", err)
}

// takeNeighbours passes the program a change, and all others that are already queued.
func (d *dpdkProxy) takeNeighbours(u netlink.NeighUpdate, open bool) error {
	var lines []string
	for {
		if !open {
			return errors.Join(d.tell(lines), d.neighbours.Watch())
		}
		lines = append(lines, d.neighbours.Take(u)...)
		select {
		case u, open = <-d.neighbours.Updates:
		default:
			return d.tell(lines)
		}
	}
}
