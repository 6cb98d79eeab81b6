// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
)

// Defences in a box of their own.
const (
	ProxyPrefix = "proxy-"    // tidegate run, role proxy, with a strategy
	NftProxy    = "nft-proxy" // nftables SYNPROXY in the same place
)

func boxes() []string {
	var names []string
	for _, s := range config.Strategies() {
		names = append(names, ProxyPrefix+string(s))
	}
	return append(names, NftProxy, Edge)
}

// InBox reports whether a defence of that name stands in a box between clients and server.
func InBox(name string) bool { return slices.Contains(boxes(), name) }

// Proxy is `tidegate run` on the ports of the box, started as users
// start it.
type Proxy struct {
	Tidegate
	strategy string
	Empty    uint64 // bytes of its tables of connections and sources at the start
}

// NewProxy is the defence in a box that env names: a strategy of the proxy, or SYNPROXY. Nothing runs before Start.
func NewProxy(env Env) Defence {
	if env.Name == NftProxy {
		return &synproxy{progress: env.Progress, inBox: true}
	}
	return &Proxy{Tidegate: Tidegate{Env: env}, strategy: strings.TrimPrefix(env.Name, ProxyPrefix)}
}

// dpdkPrefix and the instance make the name by which a running tidegate-dpdk is queried.
const dpdkPrefix = "tidegate-"

// dpdkConfig are the configuration lines that make a proxy use DPDK here: one
// core, which sleeps when idle, since the lab's other parts need it.
const dpdkConfig = "plane: dpdk\ndpdk: {cores: \"%d\", memory_mib: 128, idle_us: 50}\n"

const proxyConfig = `role: proxy
forwarding: router
instance: %s
interfaces: [%s, %s]
secret_file: %s
drain: 0s
services:
  - name: web
    ports: [%d]
    mode: always
    strategy: %s
`

func (d *Proxy) Start(ctx context.Context, t *rig.Topology) error {
	// No defence on the server, to count what reaches it.
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "0"}); err != nil {
		return err
	}
	plane := ""
	if d.Env.Plane == rig.PlaneDPDK {
		if err := t.Box.ForUserspace(); err != nil {
			return err
		}
		plane = fmt.Sprintf(dpdkConfig, d.Env.Pin.Server)
	}
	if d.Env.Bitmap {
		plane += "whitelist_v4: bitmap\n"
	}
	err := d.run(ctx, t.Box.Proxy, func(instance, secret string) string {
		return plane + fmt.Sprintf(proxyConfig, instance, outer(t), t.Box.InnerPort.Name,
			secret, rig.ServicePort, d.strategy)
	})
	if err != nil {
		return err
	}
	u, err := d.Usage()
	d.Empty = u.Bytes
	return err
}
