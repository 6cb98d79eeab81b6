// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/rig"
)

// Change is one thing that was done to the gate.
type Change struct {
	At   float64 `json:"at_s"`
	What string  `json:"what"`
}

// step is one kind of change.
type step struct {
	name string
	ends bool // the daemon
	make func(*gate, context.Context) error
}

// changes are made in turn. What else can change while a gate works belongs here.
var changes = []step{
	{"reload", false, (*gate).reloadServices},
	{"kill -9", true, (*gate).kill},
	{"secret roll", false, (*gate).rollSecret},
	{"list", false, (*gate).changeList},
	{"restart", true, (*gate).restart},
}

// lasting are the changes that the daemon outlives.
func lasting() []step {
	return slices.DeleteFunc(slices.Clone(changes), func(s step) bool { return s.ends })
}

// epoch is the shortest: keys rotate every second.
const epoch = time.Second

// changeTimeout is how long one change may take on a busy machine.
const defaultChangeTimeout = time.Minute

var changeTimeout = defaultChangeTimeout

// within bounds one change.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return f(ctx)
}

// gate is `tidegate run`, role host, and the configuration that it has now.
type gate struct {
	defences.Tidegate
	top      *rig.Topology
	secret   string // file of the secret in use; empty: the first
	roll     string // the lines of a secret that is to follow
	secrets  int
	lists    uint64       // lists that were written
	services int          // besides the one that is attacked
	pid      atomic.Int64 // of the daemon; 0: none is ready
}

func newGate(env defences.Env, t *rig.Topology) *gate {
	return &gate{Tidegate: defences.Tidegate{Env: env}, top: t}
}

// config is the configuration file as it is to be.
func (g *gate) config(instance, secret string) string {
	if g.secret != "" {
		secret = g.secret
	}
	var b strings.Builder
	fmt.Fprintf(&b, "role: host\ninstance: %s\ninterfaces: [%s, %s]\nsecret_file: %s\n%sdrain: 100ms\nepoch: %s\nkey_horizon: 60s\ndeny_list: deny\nservices:\n",
		instance, g.top.FloodPort.Name, g.top.LegitPort.Name, secret, g.roll, epoch)
	fmt.Fprintf(&b, "  - name: web\n    ports: [%d]\n    mode: always\n", rig.ServicePort)
	for i := range g.services {
		fmt.Fprintf(&b, "  - name: more%d\n    ports: [%d]\n    mode: always\n", i, 8000+i)
	}
	return b.String()
}

func (g *gate) start(ctx context.Context) error {
	if err := g.top.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "1"}); err != nil {
		return err
	}
	if g.lists == 0 {
		if err := g.writeList(); err != nil {
			return err
		}
	}
	if err := g.RunIn(ctx, g.top.Server, "", g.config); err != nil {
		return err
	}
	g.pid.Store(int64(g.Proc.Cmd.Process.Pid))
	return nil
}

// reload writes the configuration and has it read.
func (g *gate) reload(ctx context.Context) error {
	file := filepath.Join(g.Env.Dir, "tidegate.yaml")
	if err := os.WriteFile(file, []byte(g.config(g.Instance, filepath.Join(g.Env.Dir, "secret"))), 0o600); err != nil {
		return err
	}
	return g.ask(ctx, "reload", "--instance", g.Instance)
}

func (g *gate) ask(ctx context.Context, args ...string) error {
	var out bytes.Buffer
	p, err := g.Env.StartTidegate(g.NS, &out, args...)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// reloadServices adds a service, or removes those that it has added.
func (g *gate) reloadServices(ctx context.Context) error {
	g.services = (g.services + 1) % 4
	return g.reload(ctx)
}

// listEntries is how many prefixes the list has. They are sources of the flood, and of no client.
const listEntries = 50_000

// writeList writes another list of the same length.
func (g *gate) writeList() error {
	g.lists++
	r := mathrand.New(mathrand.NewPCG(g.lists, 0))
	var b strings.Builder
	for range listEntries {
		fmt.Fprintf(&b, "%d.%d.%d.0/24\n", 60+r.IntN(4), r.IntN(256), r.IntN(256))
	}
	file := filepath.Join(g.Env.Dir, "deny")
	if err := os.WriteFile(file+".new", []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// changeList has another list read.
func (g *gate) changeList(ctx context.Context) error {
	if err := g.writeList(); err != nil {
		return err
	}
	return g.reload(ctx)
}

// kill ends the daemon without warning, and starts another.
func (g *gate) kill(ctx context.Context) error {
	g.pid.Store(0)
	if err := g.Proc.Cmd.Process.Kill(); err != nil {
		return err
	}
	<-g.Proc.Exited
	return g.start(ctx)
}

// restart ends the daemon as a service manager does, and starts another.
func (g *gate) restart(ctx context.Context) error {
	g.pid.Store(0)
	g.Proc.End(syscall.SIGTERM, defences.StopGrace)
	if err := g.Proc.Failure(); err != nil {
		return err
	}
	return g.start(ctx)
}

// rollSecret announces a new secret, waits until it is in use, and withdraws the old one.
func (g *gate) rollSecret(ctx context.Context) error {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	g.secrets++
	next := filepath.Join(g.Env.Dir, fmt.Sprintf("secret%d", g.secrets))
	if err := os.WriteFile(next, []byte(hex.EncodeToString(raw[:])+"\n"), 0o600); err != nil {
		return err
	}
	from := keys.EpochStart(keys.Epoch(time.Now(), epoch)+3, epoch)
	g.roll = fmt.Sprintf("next_secret_file: %s\nnext_secret_from: %s\n", next, from.UTC().Format(time.RFC3339Nano))
	if err := g.reload(ctx); err != nil {
		return err
	}
	for {
		s, err := g.status(ctx)
		if err != nil {
			return err
		}
		if s.Epoch > keys.Epoch(from, epoch) {
			break
		}
		select {
		case <-time.After(epoch / 4):
		case <-ctx.Done():
			return errors.Join(errors.New("the new secret is not in use"), ctx.Err())
		}
	}
	g.secret, g.roll = next, ""
	return g.reload(ctx)
}

// status is the part of `tidegate status --json` that is used here.
type status struct {
	Running  bool   `json:"running"`
	Epoch    uint64 `json:"epoch"`
	Services []struct {
		Counters map[string]uint64 `json:"counters"`
	} `json:"services"`
}

func (g *gate) status(ctx context.Context) (s status, err error) {
	return s, g.Status(ctx, &s)
}
