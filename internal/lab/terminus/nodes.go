// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
	"tidegate/internal/upstream"
)

// node is one `tidegate run` of the network.
type node struct {
	name, ns string
	instance string
	conf     string
	proc     *rig.Process
	ready    *rig.LineWaiter
}

func (n *node) kill() {
	if n.proc != nil {
		_ = n.proc.Cmd.Process.Kill()
		<-n.proc.Exited
		n.proc = nil
	}
}

// bottleneck is the rate of G's line to the server.
const bottleneck = "8mbit"

// ports of a patrol's configuration.
func portLines(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		w := strings.Fields(l)
		fmt.Fprintf(&b, "  - {interface: %s, side: %s", ifName(w[0]), w[1])
		for _, more := range w[2:] {
			name, value, _ := strings.Cut(more, "=")
			fmt.Fprintf(&b, ", %s: %s", name, value)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// start writes keys and configurations and starts all roles.
func (t *Network) start(ctx context.Context) error {
	bindings, err := t.signBindings(time.Now())
	if err != nil {
		return err
	}
	public := map[string]string{}
	for _, name := range []string{"bma", "bmc", "pa", "pa2", "pc", "nonce", "gate"} {
		path := filepath.Join(t.dir, name+".key")
		if bindings[name] == "" { // managers of bindings have theirs already
			if err := keys.CreateSecret(path); err != nil {
				return err
			}
		}
		id, err := upstream.LoadIdentity(path)
		if err != nil {
			return err
		}
		public[name] = upstream.FormatKey(id.Public())
	}
	patrol := func(name, listen, key, manager, sources, ports string) string {
		text := "role: patrol\nmax_filters: 4000\n"
		if listen != "" {
			text += fmt.Sprintf("listen: %q\nidentity_file: %s\nmanagers: [%s]\n", listen, filepath.Join(t.dir, key+".key"), public[manager])
		}
		if sources != "" {
			text += fmt.Sprintf("sources: [%q]\n", t.prefix(sources))
		}
		return text + "ports:\n" + ports
	}
	border := func(listen, key string, patrols ...string) string {
		text := fmt.Sprintf("role: border-manager\nlisten: %q\nidentity_file: %s\nsecret_file: %s\n%spatrols:\n",
			t.port(listen, 4747), filepath.Join(t.dir, key+".key"), filepath.Join(t.dir, "nonce.key"), bindings[key])
		for _, p := range patrols {
			w := strings.Fields(p)
			text += fmt.Sprintf("  - {name: %s, address: %q, key: %s, prefixes: [%q]}\n", w[0], w[1], public[w[0]], t.prefix(w[2]))
		}
		return text
	}
	here, patrolA2 := "127.0.0.1:4748", t.port(addrPatrolA2, 4748)
	if t.ipv6 {
		here = "[::1]:4748"
	}
	configs := []struct{ name, ns, text string }{
		{"pa", "A", patrol("pa", here, "pa", "bma", "10.1.0.0/17",
			portLines("a-bot customers", "a-client customers", "a-refl customers", "E upstream", "A2 upstream", "F upstream neighbour=legacy"))},
		{"pa2", "A2", patrol("pa2", patrolA2, "pa2", "bma", "10.1.128.0/17", portLines("a2-att customers", "A upstream"))},
		{"pc", "C", patrol("pc", here, "pc", "bmc", "10.4.0.0/16", portLines("c-att customers", "c-client customers", "E upstream"))},
		{"pe", "E", patrol("pe", "", "", "", "", portLines("A upstream", "B upstream neighbour=legacy",
			"H upstream neighbour=legacy", "C upstream", "G upstream"))},
		{"pg", "G", patrol("pg", "", "", "", "10.9.0.0/16", portLines("s customers queue="+bottleneck, "E upstream", "F upstream neighbour=legacy"))},
		{"bma", "A", border(addrBMA, "bma", "pa "+here+" 10.1.0.0/17", "pa2 "+patrolA2+" 10.1.128.0/17")},
		{"bmc", "C", border(addrBMC, "bmc", "pc "+here+" 10.4.0.0/16")},
		{"fm", "G", fmt.Sprintf("role: filter-manager\nlisten: %q\n%sapi: %s\nown: [%q]\nwatch: 1s\nidle: 1h\n",
			t.port(addrFM, 4746), bindings["fm"], filepath.Join(t.dir, "api.sock"), t.prefix("10.9.0.0/16"))},
		{"gate", "s", fmt.Sprintf("role: host\ninterfaces: [%s]\nsecret_file: %s\nreport_to: {api: %s, connections: %d}\nservices:\n  - {name: web, ports: [%d], mode: always}\n",
			ifName("G"), filepath.Join(t.dir, "gate.key"), filepath.Join(t.dir, "api.sock"), gateLimit, portWeb)},
	}
	for _, c := range configs {
		n := &node{name: c.name, ns: c.ns, instance: rig.InstPrefix + t.owner.String() + "-" + c.name}
		n.conf = filepath.Join(t.dir, c.name+".yaml")
		if err := os.WriteFile(n.conf, []byte("instance: "+n.instance+"\n"+c.text), 0o600); err != nil {
			return err
		}
		t.nodes[c.name] = n
		if err := t.run(n); err != nil {
			return err
		}
	}
	for _, c := range configs {
		if err := t.nodes[c.name].await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run starts a node's process.
func (t *Network) run(n *node) (err error) {
	n.ready = rig.NewLineWaiter(rig.ReadyLine)
	n.proc, err = rig.StartProcess(t.ns[n.ns], -1, nil, n.ready, t.exe, "run", "-c", n.conf)
	return err
}

// await waits for the line "ready".
func (n *node) await(ctx context.Context) error {
	select {
	case <-n.ready.Seen:
		return nil
	case <-n.proc.Exited:
		return fmt.Errorf("%s exited before it was ready: %w", n.name, n.proc.Failure())
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("%s: not ready after %s: %s", n.name, rig.ReadyTimeout, n.proc.Stderr.String())
	}
}
