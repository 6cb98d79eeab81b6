// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidegate/internal/lab/rig"
)

func (x *lab) build(ctx context.Context) error {
	o := x.o
	var names []string
	for i := range o.Gates {
		h, err := x.net.add(fmt.Sprintf("gate%d", i+1))
		if err != nil {
			return err
		}
		x.gates = append(x.gates, &gate{host: h, name: fmt.Sprintf("gate%d", i+1)})
		names = append(names, x.gates[i].name)
		p, err := rig.StartProcess(h.ns, -1, nil, nil, x.w.Self, "_httpd", "1000")
		if err != nil {
			return err
		}
		x.httpd = append(x.httpd, p)
	}
	var places []place
	for i := range o.Servers {
		h, err := x.net.add(fmt.Sprintf("nats%d", i+1))
		if err != nil {
			return err
		}
		places = append(places, place{ns: h.ns, addr: h.addr, client: 4222, cluster: 6222, monitor: 8222})
	}
	var err error
	if x.nats, err = newCluster(x.w.Self, x.w.Dir, places, names); err != nil {
		return err
	}
	for i := range places {
		if err := x.nats.start(i); err != nil {
			return err
		}
	}
	speaking := 0
	if o.Routers > 0 {
		speaking = min(2, o.Gates)
	}
	var routers []netip.Addr
	for i := range o.Routers {
		h, err := x.net.add(fmt.Sprintf("router%d", i+1))
		if err != nil {
			return err
		}
		routers = append(routers, h.addr)
		if err := x.startRouter(i, h, speaking); err != nil {
			return err
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	if err := os.WriteFile(filepath.Join(x.w.Dir, "secret"), []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		return err
	}
	if err := x.connect(ctx); err != nil {
		return err
	}
	o.Progress("%d NATS servers are ready; %d gates start", o.Servers, o.Gates)
	for i, g := range x.gates {
		g.conf = filepath.Join(x.w.Dir, g.name+".yaml")
		text := fmt.Sprintf(`instance: %s
interfaces: [tg-net]
secret_file: %s
services: [{name: web, ports: [%d], mode: monitor}]
fleet: {servers: [%s], node: %s, ca_file: %[6]s/ca.pem, cert_file: %[6]s/%[5]s.pem, key_file: %[6]s/%[5]s.key}
`, g.instance, filepath.Join(x.w.Dir, "secret"), rig.ServicePort, quoted(x.nats.urls(i)), g.name, x.w.Dir)
		if i < speaking {
			var peers []string
			for _, r := range routers {
				peers = append(peers, fmt.Sprintf("{address: %s, as: %d, local_address: %s, hops: 8}", r, routersAS, g.addr))
			}
			text += fmt.Sprintf("bgp: {as: %d, router_id: %s, service_prefixes: [203.0.113.0/24], own: [203.0.113.0/24], settle: 0s}\nbgp_peers: [%s]\n", gatesAS, g.addr, strings.Join(peers, ", "))
		}
		if err := os.WriteFile(g.conf, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return x.startGates(ctx)
}

func quoted(list []string) string {
	for i := range list {
		list[i] = strconv.Quote(list[i])
	}
	return strings.Join(list, ", ")
}

func (x *lab) startRouter(i int, h *host, speaking int) error {
	args := []string{x.w.Self, routerChild, h.addr.String()}
	for _, g := range x.gates[:speaking] {
		args = append(args, g.addr.String())
	}
	r, w := io.Pipe()
	p, err := rig.StartProcess(h.ns, -1, nil, w, args...)
	if err != nil {
		return err
	}
	x.routers, x.learned = append(x.routers, p), append(x.learned, nil)
	go func() {
		<-p.Exited
		w.Close()
	}()
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			var l learned
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				x.mu.Lock()
				x.learned[i] = append(x.learned[i], l)
				x.mu.Unlock()
			}
		}
	}()
	return nil
}

// connect connects the operator, who is in the hub.
func (x *lab) connect(ctx context.Context) (err error) {
	x.nats.dial = func(network, address string) (c net.Conn, err error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		err = x.net.hub.Do(func() (err error) {
			c, err = d.Dial(network, address)
			return err
		})
		return c, err
	}
	x.op, err = x.nats.operator(ctx, x.o.Patience)
	return err
}

// startGates starts gates, as many at once as there are processors.
func (x *lab) startGates(ctx context.Context) error {
	errs := make([]error, len(x.gates))
	slots := make(chan struct{}, max(2, runtime.NumCPU()))
	var wg sync.WaitGroup
	for i, g := range x.gates {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				errs[i] = x.startGate(ctx, g, x.exe)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func (x *lab) startGate(ctx context.Context, g *gate, exe string) (err error) {
	ready := rig.NewLineWaiter(rig.ReadyLine)
	if g.proc, err = rig.StartProcess(g.ns, -1, nil, ready, exe, "run", "-c", g.conf, "--detector-calm", x.o.Calm.String()); err != nil {
		return err
	}
	select {
	case <-ready.Seen:
		return nil
	case <-g.proc.Exited:
		return fmt.Errorf("%s ended before it was ready: %w", g.name, errors.Join(g.proc.Failure()))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("%s: not ready after %v: %s", g.name, rig.ReadyTimeout, g.proc.Stderr.String())
	}
}
