// SPDX-License-Identifier: Apache-2.0

package split

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// node is one `tidegate run`, edge or server, started as users start it.
type node struct {
	defences.Tidegate
	role string
	p4   *p4Switch // nil: in XDP
}

const edgeConfig = `role: edge
instance: %s
interfaces: [%s]
inside: [%s]
secret_file: %s
drain: 0s
epoch: %s
%sprotocol: %s
filter_bits: %d
filter_window: %s
learning: 0s
unknown_rate: %s
cookie_layout: %s
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
epoch: %s
%sprotocol: %s
takeover: %s
cookie_layout: %s
services:
  - name: web
    ports: [%d]
    mode: always
`

// startNodes starts the server and every edge, with one secret.
func (x *run) startNodes(ctx context.Context) error {
	o := x.opts
	secret := filepath.Join(x.env.Dir, "secret")
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	if err := os.WriteFile(secret, []byte(hex.EncodeToString(raw[:])+"\n"), 0o600); err != nil {
		return err
	}
	skew := ""
	if o.ClockSkew >= 0 {
		skew = fmt.Sprintf("clock_skew: %s\n", o.ClockSkew)
	}
	base := rig.InstPrefix + x.env.Owner.String()
	ports, extra := x.s.ServerPorts(), ""
	if o.Takeover != "adopt" {
		ports = x.s.TranslatorPorts()
		extra = x.edgeList()
		if err := x.s.YieldServer(); err != nil {
			return err
		}
	}
	err := x.startNode(ctx, x.s.Server, "server", base+"-server", 0, extra+fmt.Sprintf(serverConfig, base+"-server",
		strings.Join(ports, ", "), secret, o.Epoch, skew, o.Mode, o.Takeover, o.layout(), rig.ServicePort))
	if err != nil {
		return err
	}
	if o.Takeover != "adopt" {
		if err := x.s.WatchServer(base + "-server"); err != nil {
			return err
		}
	}
	if o.Plane == planeP4 {
		return x.startP4(ctx, secret)
	}
	window := 15 * time.Second
	if o.FilterFlows > 0 {
		window = time.Hour // no entry may expire
	}
	for i, e := range x.s.Edges {
		ports, inside := e.Ports()
		instance := fmt.Sprintf("%s-edge%d", base, i)
		extra := ""
		if o.Mode == modeTagged {
			extra = fmt.Sprintf("edge_id: %d\n%s", i+1, x.peerList(i))
		}
		err := x.startNode(ctx, e.NS, "edge", instance, o.Skew, extra+fmt.Sprintf(edgeConfig, instance, strings.Join(ports, ", "),
			inside, secret, o.Epoch, skew, o.Mode, o.FilterBits, window, o.UnknownRate, o.layout(), rig.ServicePort))
		if err != nil {
			return err
		}
		if o.FilterFlows > 0 {
			if err := plane.PrefillFilter(plane.PinDir("/sys/fs/bpf", instance), o.FilterFlows, randomWord); err != nil {
				return err
			}
		}
	}
	return nil
}

// edgeList is the list of edges in the server's configuration.
func (x *run) edgeList() string {
	var list []string
	for i := range x.s.Edges {
		v4, v6 := x.s.EdgeAddrs(i)
		list = append(list, fmt.Sprintf("%q", fmt.Sprintf("%d %s %s", i+1, v4, v6)))
	}
	return "edges: [" + strings.Join(list, ", ") + "]\n"
}

// peerList is the list of the other edges in an edge's configuration; empty unless they synchronize.
func (x *run) peerList(own int) string {
	if !x.opts.Sync {
		return ""
	}
	var list []string
	for i := range x.s.Edges {
		if i != own {
			list = append(list, x.s.PeerAddr(i).String())
		}
	}
	return "peers: [" + strings.Join(list, ", ") + "]\n"
}

func randomWord() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

// startNode starts one node and waits until it is ready.
func (x *run) startNode(ctx context.Context, n *rig.Namespace, role, instance string, skew time.Duration, config string) error {
	node := &node{Tidegate: defences.Tidegate{Env: x.env.Defence(), NS: n, Instance: instance}, role: role}
	path := filepath.Join(x.env.Dir, instance+".yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	ready := rig.NewLineWaiter(rig.ReadyLine)
	p, err := x.env.StartTidegate(n, ready, "run", "-c", path, "--clock-offset", skew.String())
	if err != nil {
		return err
	}
	node.Proc = p
	x.nodes = append(x.nodes, node)
	select {
	case <-ready.Seen:
		return nil
	case <-p.Exited:
		return fmt.Errorf("%s: tidegate run exited before it was ready: %w", role, errors.Join(p.Failure()))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("%s: not ready after %s: %s", role, rig.ReadyTimeout, p.Stderr.String())
	}
}

// stop ends the node on either plane.
func (n *node) stop() error {
	if n.p4 != nil {
		return n.p4.stop()
	}
	return n.Tidegate.Stop()
}

func (x *run) stopNodes() error {
	var errs []error
	for i := len(x.nodes) - 1; i >= 0; i-- { // edges first: they send cookies
		errs = append(errs, x.nodes[i].stop())
	}
	return errors.Join(errs...)
}

// nodeStatus is the part of `tidegate status --json` that is used here.
type nodeStatus struct {
	Services []struct {
		Counters map[string]uint64 `json:"counters"`
	} `json:"services"`
	Edge *struct {
		FPComputed float64 `json:"fp_rate_computed"`
		FPMeasured float64 `json:"fp_rate_measured"`
		Alarm      bool    `json:"filter_alarm"`
	} `json:"edge"`
}

func (n *node) status(ctx context.Context) (s nodeStatus, err error) {
	if n.p4 != nil {
		return n.p4.status(ctx)
	}
	var out bytes.Buffer
	p, err := n.Env.StartTidegate(n.NS, &out, "status", "--instance", n.Instance, "--json")
	if err != nil {
		return s, err
	}
	if err := p.Wait(ctx); err != nil {
		return s, err
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil || len(s.Services) != 1 {
		return s, fmt.Errorf("tidegate status of %s: %w", n.Instance, err)
	}
	return s, nil
}

// whatNodesSay returns the nodes' counters, for an experiment that failed.
func (x *run) whatNodesSay(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	var lines []error
	for _, n := range x.nodes {
		st, err := n.status(ctx)
		if err != nil {
			lines = append(lines, err)
			continue
		}
		counts := map[string]uint64{}
		for name, v := range st.Services[0].Counters {
			if v != 0 {
				counts[name] = v
			}
		}
		lines = append(lines, fmt.Errorf("%s counted %v", n.role, counts))
	}
	return errors.Join(lines...)
}
