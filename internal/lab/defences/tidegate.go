// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tidegate/internal/lab/rig"
)

// StopGrace is how long a child may take to end.
const StopGrace = 5 * time.Second

// Tidegate is `tidegate run` on both ports of the server, started as users
// start it. No part of it runs inside this process.
type Tidegate struct {
	Netns    string // the file of a network namespace that tidegate enters by itself; empty: it works in NS
	Env      Env
	Proc     *rig.Process
	NS       *rig.Namespace // where it runs
	Instance string
	suffix   string // of the instance's name, if the defence has several instances
}

const hostConfig = `role: host
instance: %s
interfaces: [%s]
secret_file: %s
drain: 100ms
services:
  - name: web
    ports: [%d]
    mode: always
`

func (d *Tidegate) Start(ctx context.Context, t *rig.Topology) error {
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "1"}); err != nil {
		return err
	}
	return d.run(ctx, t.Server, func(instance, secret string) string {
		return fmt.Sprintf(hostConfig, instance, outer(t), secret, rig.ServicePort)
	})
}

// outer is the ports at which flood and clients arrive, as a YAML list.
func outer(t *rig.Topology) string {
	if t.FloodPort == t.LegitPort {
		return t.FloodPort.Name
	}
	return t.FloodPort.Name + ", " + t.LegitPort.Name
}

// RunIn starts `tidegate run` in a namespace with the caller's configuration; the suffix
// distinguishes the instances of one lab.
func (d *Tidegate) RunIn(ctx context.Context, n *rig.Namespace, suffix string, config func(instance, secret string) string) error {
	d.suffix = suffix
	return d.run(ctx, n, config)
}

// run starts `tidegate run` in a namespace and waits until it is ready.
func (d *Tidegate) run(ctx context.Context, n *rig.Namespace, config func(instance, secret string) string) error {
	d.NS, d.Instance = n, rig.InstPrefix+d.Env.Owner.String()+d.suffix
	secret := filepath.Join(d.Env.Dir, "secret")
	if !rig.PathExists(secret) {
		var raw [32]byte
		_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
		if err := os.WriteFile(secret, []byte(hex.EncodeToString(raw[:])+"\n"), 0o600); err != nil {
			return err
		}
	}
	conf := filepath.Join(d.Env.Dir, "tidegate"+d.suffix+".yaml")
	if err := os.WriteFile(conf, []byte(config(d.Instance, secret)), 0o600); err != nil {
		return err
	}
	ready := rig.NewLineWaiter(rig.ReadyLine)
	args := []string{"run", "-c", conf}
	if d.Netns != "" {
		args = append(args, "--netns", d.Netns)
	}
	p, err := d.Env.StartTidegate(n, ready, args...)
	if err != nil {
		return err
	}
	d.Proc = p
	select {
	case <-ready.Seen:
		return nil
	case <-p.Exited:
		if err := p.Failure(); err != nil {
			return fmt.Errorf("%s: %w", d.Env.Name, err)
		}
		return fmt.Errorf("%s: tidegate run exited before it was ready", d.Env.Name)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("%s: not ready after %s: %s", d.Env.Name, rig.ReadyTimeout, p.Stderr.String())
	}
}

// hostStatus is the part of `tidegate status --json` that is used here.
type hostStatus struct {
	Services []struct {
		Name     string            `json:"name"`
		Counters map[string]uint64 `json:"counters"`
	} `json:"services"`
}

func (d *Tidegate) Cookies(ctx context.Context, _ *rig.Topology) (uint64, error) {
	c, err := d.Counters(ctx)
	return c["cookie_sent"] + c["challenge_sent"], err
}

// Counters are the sums over the services in `tidegate status`.
func (d *Tidegate) Counters(ctx context.Context) (map[string]uint64, error) {
	var s hostStatus
	if err := d.Status(ctx, &s); err != nil {
		return nil, err
	}
	sum := map[string]uint64{}
	for _, svc := range s.Services {
		for name, n := range svc.Counters {
			sum[name] += n
		}
	}
	return sum, nil
}

// Status decodes `tidegate status --json` into a value.
func (d *Tidegate) Status(ctx context.Context, into any) error {
	var out bytes.Buffer
	p, err := d.Env.StartTidegate(d.NS, &out, "status", "--instance", d.Instance, "--json")
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		return err
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("tidegate status: %w", err)
	}
	return nil
}

// Stop sends SIGINT, so that the child detaches its packet path itself, and
// removes what the child failed to remove.
func (d *Tidegate) Stop() error {
	if d.Proc == nil {
		return nil
	}
	d.Proc.End(syscall.SIGINT, StopGrace)
	var errs []error
	for _, mount := range rig.BpfMounts() {
		errs = append(errs, os.RemoveAll(filepath.Join(mount, "tidegate", d.Instance)))
	}
	files, _ := filepath.Glob(filepath.Join(rig.RunDir, d.Instance+".*")) // state and lock
	for _, f := range files {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}
