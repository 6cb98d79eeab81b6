package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/upstream"
)

// node is one `tidegate run` of the network.
type node struct {
	name, ns string
	instance string
	conf     string
	proc     *process
	ready    *lineWaiter
}

func (n *node) kill() {
	if n.proc != nil {
		_ = n.proc.cmd.Process.Kill()
		<-n.proc.exited
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
func (t *TerminusNet) start(ctx context.Context) error {
	public := map[string]string{}
	for _, name := range []string{"bma", "bmc", "pa", "pa2", "pc", "nonce"} {
		path := filepath.Join(t.dir, name+".key")
		if err := keys.CreateSecret(path); err != nil {
			return err
		}
		id, err := upstream.LoadIdentity(path)
		if err != nil {
			return err
		}
		public[name] = upstream.FormatKey(id.Public())
	}
	bindings := fmt.Sprintf("border 10.1.0.0/16 %s:4747 %s\nborder 10.4.0.0/16 %s:4747 %s\nfilter 10.9.0.0/16 %s\n",
		addrBMA, public["bma"], addrBMC, public["bmc"], addrFM)
	if err := os.WriteFile(filepath.Join(t.dir, "bindings"), []byte(bindings), 0o600); err != nil {
		return err
	}
	patrol := func(name, listen, key, manager, sources, ports string) string {
		text := "role: patrol\nmax_filters: 4000\n"
		if listen != "" {
			text += fmt.Sprintf("listen: %s:4748\nidentity_file: %s\nmanagers: [%s]\n", listen, filepath.Join(t.dir, key+".key"), public[manager])
		}
		if sources != "" {
			text += "sources: [" + sources + "]\n"
		}
		return text + "ports:\n" + ports
	}
	border := func(listen, key string, patrols ...string) string {
		text := fmt.Sprintf("role: border-manager\nlisten: %s:4747\nidentity_file: %s\nsecret_file: %s\nbindings: %s\npatrols:\n",
			listen, filepath.Join(t.dir, key+".key"), filepath.Join(t.dir, "nonce.key"), filepath.Join(t.dir, "bindings"))
		for _, p := range patrols {
			w := strings.Fields(p)
			text += fmt.Sprintf("  - {name: %s, address: \"%s:4748\", key: %s, prefixes: [%s]}\n", w[0], w[1], public[w[0]], w[2])
		}
		return text
	}
	configs := []struct{ name, ns, text string }{
		{"pa", "A", patrol("pa", "127.0.0.1", "pa", "bma", "10.1.0.0/17",
			portLines("a-bot customers", "a-client customers", "a-refl customers", "E upstream", "A2 upstream", "F upstream neighbour=legacy"))},
		{"pa2", "A2", patrol("pa2", addrPatrolA2, "pa2", "bma", "10.1.128.0/17", portLines("a2-att customers", "A upstream"))},
		{"pc", "C", patrol("pc", "127.0.0.1", "pc", "bmc", "10.4.0.0/16", portLines("c-att customers", "c-client customers", "E upstream"))},
		{"pe", "E", patrol("pe", "", "", "", "", portLines("A upstream", "B upstream neighbour=legacy",
			"H upstream neighbour=legacy", "C upstream", "G upstream"))},
		{"pg", "G", patrol("pg", "", "", "", "10.9.0.0/16", portLines("s customers queue="+bottleneck, "E upstream", "F upstream neighbour=legacy"))},
		{"bma", "A", border(addrBMA, "bma", "pa 127.0.0.1 10.1.0.0/17", "pa2 "+addrPatrolA2+" 10.1.128.0/17")},
		{"bmc", "C", border(addrBMC, "bmc", "pc 127.0.0.1 10.4.0.0/16")},
		{"fm", "G", fmt.Sprintf("role: filter-manager\nlisten: %s:4746\nbindings: %s\napi: %s\nown: [10.9.0.0/16]\nwatch: 1s\nidle: 1h\n",
			addrFM, filepath.Join(t.dir, "bindings"), filepath.Join(t.dir, "api.sock"))},
	}
	for _, c := range configs {
		n := &node{name: c.name, ns: c.ns, instance: instPrefix + t.owner.String() + "-" + c.name}
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
func (t *TerminusNet) run(n *node) (err error) {
	n.ready = newLineWaiter(readyLine)
	n.proc, err = startProcess(t.ns[n.ns], -1, nil, n.ready, t.exe, "run", "-c", n.conf)
	return err
}

// await waits for the line "ready".
func (n *node) await(ctx context.Context) error {
	select {
	case <-n.ready.seen:
		return nil
	case <-n.proc.exited:
		return fmt.Errorf("%s ended before it was ready: %w", n.name, n.proc.failure())
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(readyTimeout):
		return fmt.Errorf("%s: not ready after %s: %s", n.name, readyTimeout, n.proc.stderr.String())
	}
}
