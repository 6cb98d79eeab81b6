// SPDX-License-Identifier: Apache-2.0

package lab

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
)

// stopGrace is how long a child may take to end.
const stopGrace = 5 * time.Second

// Tidegate is `tidegate run` on both ports of the server, started as a user
// would start it. Nothing of it runs inside this process.
type hostDefence struct {
	env      defenceEnv
	proc     *Process
	ns       *Namespace // where it runs
	instance string
}

const hostConfig = `role: host
instance: %s
interfaces: [%s, %s]
secret_file: %s
drain: 100ms
services:
  - name: web
    ports: [%d]
    mode: always
`

func (d *hostDefence) start(ctx context.Context, t *Topology) error {
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "1"}); err != nil {
		return err
	}
	return d.run(ctx, t.Server, func(instance, secret string) string {
		return fmt.Sprintf(hostConfig, instance, t.FloodPort.Name, t.LegitPort.Name, secret, servicePort)
	})
}

// run starts `tidegate run` in a namespace and waits until it is ready.
func (d *hostDefence) run(ctx context.Context, n *Namespace, config func(instance, secret string) string) error {
	d.ns, d.instance = n, InstPrefix+d.env.Owner.String()
	secret := filepath.Join(d.env.Dir, "secret")
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	if err := os.WriteFile(secret, []byte(hex.EncodeToString(raw[:])+"\n"), 0o600); err != nil {
		return err
	}
	conf := filepath.Join(d.env.Dir, "tidegate.yaml")
	if err := os.WriteFile(conf, []byte(config(d.instance, secret)), 0o600); err != nil {
		return err
	}
	ready := NewLineWaiter(ReadyLine)
	p, err := d.env.StartTidegate(n, ready, "run", "-c", conf)
	if err != nil {
		return err
	}
	d.proc = p
	select {
	case <-ready.Seen:
		return nil
	case <-p.Exited:
		if err := p.Failure(); err != nil {
			return fmt.Errorf("%s: %w", d.env.Name, err)
		}
		return fmt.Errorf("%s: tidegate run ended before it was ready", d.env.Name)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ReadyTimeout):
		return fmt.Errorf("%s: not ready after %s: %s", d.env.Name, ReadyTimeout, p.Stderr.String())
	}
}

// hostStatus is the part of `tidegate status --json` that is used here.
type hostStatus struct {
	Services []struct {
		Name     string            `json:"name"`
		Counters map[string]uint64 `json:"counters"`
	} `json:"services"`
}

func (d *hostDefence) cookies(ctx context.Context, _ *Topology) (uint64, error) {
	c, err := d.counters(ctx)
	return c["cookie_sent"] + c["challenge_sent"], err
}

// Counters are the services' as `tidegate status` tells them, added up.
func (d *hostDefence) counters(ctx context.Context) (map[string]uint64, error) {
	var out bytes.Buffer
	p, err := d.env.StartTidegate(d.ns, &out, "status", "--instance", d.instance, "--json")
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, err
	}
	var s hostStatus
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return nil, fmt.Errorf("tidegate status: %w", err)
	}
	sum := map[string]uint64{}
	for _, svc := range s.Services {
		for name, n := range svc.Counters {
			sum[name] += n
		}
	}
	return sum, nil
}

// stop ends the child by SIGINT, so that it takes its packet path down by itself, and
// removes what it should have removed if it could not.
func (d *hostDefence) stop() error {
	if d.proc == nil {
		return nil
	}
	d.proc.End(syscall.SIGINT, stopGrace)
	var errs []error
	for _, mount := range BpfMounts() {
		errs = append(errs, os.RemoveAll(filepath.Join(mount, "tidegate", d.instance)))
	}
	files, _ := filepath.Glob(filepath.Join(RunDir, d.instance+".*")) // state and lock
	for _, f := range files {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}
