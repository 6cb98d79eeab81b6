// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/config"
)

// All in a box of their own.
const (
	defenceProxyPrefix = "proxy-"    // tidegate run, role proxy, with a strategy
	DefenceNftProxy    = "nft-proxy" // nftables SYNPROXY in the same place
)

func proxyDefences() []string {
	var names []string
	for _, s := range config.Strategies() {
		names = append(names, defenceProxyPrefix+string(s))
	}
	return append(names, DefenceNftProxy)
}

func isProxyDefence(name string) bool { return slices.Contains(proxyDefences(), name) }

// Proxy is `tidegate run` on the ports of the box, started as a user would
// start it.
type proxyDefence struct {
	hostDefence
	strategy string
	empty    uint64 // bytes of the tables in which it remembers somebody, at the start
}

func newProxyDefence(env defenceEnv) defence {
	if env.Name == DefenceNftProxy {
		return &nftDefence{progress: env.Progress, inBox: true}
	}
	return &proxyDefence{hostDefence: hostDefence{env: env}, strategy: strings.TrimPrefix(env.Name, defenceProxyPrefix)}
}

// dpdkPrefix and the instance make the name by which a running tidegate-dpdk is asked.
const dpdkPrefix = "tidegate-"

// dpdkConfig are the lines of a configuration that make a proxy use DPDK here: one
// core, which sleeps when it has nothing to do, for the lab's other parts need it.
const dpdkConfig = "plane: dpdk\ndpdk: {cores: \"%d\", memory_mib: 128, idle_us: 50}\n"

const proxyConfig = `role: proxy
forwarding: router
instance: %s
interfaces: [%s, %s, %s]
secret_file: %s
drain: 0s
services:
  - name: web
    ports: [%d]
    strategy: %s
`

func (d *proxyDefence) start(ctx context.Context, t *Topology) error {
	// The server has no defence of its own: it shows what reaches it.
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "0"}); err != nil {
		return err
	}
	plane := ""
	if d.env.Plane == PlaneDPDK {
		if err := t.box.ForUserspace(); err != nil {
			return err
		}
		plane = fmt.Sprintf(dpdkConfig, d.env.Pin.Server)
	}
	err := d.run(ctx, t.box.Proxy, func(instance, secret string) string {
		return plane + fmt.Sprintf(proxyConfig, instance, t.FloodPort.Name, t.LegitPort.Name, t.box.InnerPort.Name,
			secret, servicePort, d.strategy)
	})
	if err != nil {
		return err
	}
	u, err := d.usage()
	d.empty = u.Bytes
	return err
}
