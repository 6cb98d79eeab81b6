// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"context"
	"errors"
	"fmt"

	"tidegate/internal/lab/rig"
)

// Edge is an edge in the box and a server that adopts.
const Edge = "edge"

// edge is two instances of `tidegate run` with one secret.
type edge struct{ gate, server Tidegate }

func newEdge(env Env) Defence {
	return &edge{gate: Tidegate{Env: env, suffix: "-edge"}, server: Tidegate{Env: env, suffix: "-server"}}
}

const edgeConfig = `role: edge
instance: %s
interfaces: [%s, %s]
inside: [%s]
secret_file: %s
drain: 0s
learning: 0s
services:
  - name: web
    ports: [%d]
    mode: always
`

const serverConfig = `role: server
instance: %s
interfaces: [%s]
secret_file: %s
drain: 0s
services:
  - name: web
    ports: [%d]
    mode: always
`

// Start starts the server first: the edge's cookies are useless without it.
func (d *edge) Start(ctx context.Context, t *rig.Topology) error {
	err := errors.Join(t.Box.YieldServer(), t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "1"}))
	if err != nil {
		return err
	}
	err = d.server.run(ctx, t.Server, func(instance, secret string) string {
		return fmt.Sprintf(serverConfig, instance, t.Box.ServerPort.Name, secret, rig.ServicePort)
	})
	if err != nil {
		return err
	}
	inner := t.Box.InnerPort.Name
	return d.gate.run(ctx, t.Box.Proxy, func(instance, secret string) string {
		return fmt.Sprintf(edgeConfig, instance, outer(t), inner, inner, secret, rig.ServicePort)
	})
}

func (d *edge) Cookies(ctx context.Context, t *rig.Topology) (uint64, error) {
	return d.gate.Cookies(ctx, t)
}

func (d *edge) Stop() error { return errors.Join(d.gate.Stop(), d.server.Stop()) }
