// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Machine is a machine under construction: a server, and one cable away a client, which also is the
// server's gateway and the sender of the flood.
//
//	Client (tg-client) --- (tg-server) Server
type Machine struct {
	*rig.Hosts
	Port       uint16   // of the service
	Interfaces []string // protected by tidegate
	Takeover   string   // auto
	Top        []string // further lines of the configuration
	Service    []string // further lines of the service
	// To is where clients connect to, if that is not the server's address.
	To map[bool]netip.Addr
	// Gate is where tidegate runs: the server, unless a scenario says otherwise.
	Gate *rig.Namespace
	// Netns is the namespace's file that tidegate, started in Gate, is to protect instead (--netns), as a container's from outside.
	Netns string
	// BindTo is the device that the service's socket is bound to, if it is bound to one.
	BindTo string
	// Renew resets, between columns, rules that count clients.
	Renew func() error
	// FloodMAC is the destination of the flood's frames, if that is not the server's port.
	FloodMAC net.HardwareAddr
	// Unflooded: the flood cannot reach the machine, because its frames carry no tag.
	Unflooded bool
	// Bulk is how many bytes one connection carries each way, without and with tidegate.
	Bulk int64

	ctx      context.Context
	patience time.Duration
	dir      string
	self     *rig.Workplace
	ends     []func() error
}

const servicePort = 80

func newMachine(ctx context.Context, w *rig.Workplace, tag string) (*Machine, error) {
	h, err := rig.NewHosts(tag)
	if err != nil {
		return nil, err
	}
	m := &Machine{Hosts: h, Port: servicePort, Interfaces: []string{"tg-server"}, Takeover: "auto", Gate: h.Server,
		To: map[bool]netip.Addr{}, ctx: ctx, patience: patience, dir: w.Dir, self: w}
	// Spoofed sources are routed to the client as well.
	err = m.Sh(h.Server, "ip route add default via %s", h.ClientAddr(false))
	if rig.HaveIPv6() {
		err = errors.Join(err, m.Sh(h.Server, "ip -6 route add default via %s", h.ClientAddr(true)))
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close takes it down in reverse order.
func (m *Machine) Close() error {
	var errs []error
	for i := len(m.ends) - 1; i >= 0; i-- {
		errs = append(errs, m.ends[i]())
	}
	return errors.Join(append(errs, m.Hosts.Close())...)
}

// Target is where clients of a family connect to.
func (m *Machine) Target(ipv6 bool) netip.AddrPort {
	a, set := m.To[ipv6]
	if !set {
		a = m.ServerAddr(ipv6)
	}
	return netip.AddrPortFrom(a, m.Port)
}

// floodPort is the port to whose MAC address the flood's frames are sent.
func (m *Machine) floodPort() *rig.Port {
	p := *m.ServerPort
	if m.FloodMAC != nil {
		p.MAC = m.FloodMAC
	}
	return &p
}

// halfOpen counts the half-open connections of the machine's kernels.
func (m *Machine) halfOpen() (n int) {
	out, err := run(m.ctx, m.Server, nil, "ss", "-Htan", "state", "syn-recv")
	if err != nil {
		return 0
	}
	return strings.Count(out, "\n")
}

// rules returns the machine's firewall rules, for the analysis of a failure.
func (m *Machine) rules() string {
	out, _ := run(m.ctx, m.Server, nil, "nft", "list", "ruleset")
	return out
}

// Sh runs lines of shell in a namespace of this machine.
func (m *Machine) Sh(n *rig.Namespace, script string, args ...any) error {
	_, err := run(m.ctx, n, nil, "/bin/sh", "-ec", fmt.Sprintf(script, args...))
	return err
}

// NFT loads rules into a namespace.
func (m *Machine) NFT(n *rig.Namespace, rules string) error {
	_, err := run(m.ctx, n, strings.NewReader(rules), "nft", "-f", "-")
	return err
}

// run runs a program in a namespace until it ends and returns its stdout.
func run(ctx context.Context, n *rig.Namespace, stdin *strings.Reader, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := n.Do(cmd.Start); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		output := strings.ReplaceAll(strings.TrimSpace(errs.String()+out.String()), "\n", "; ")
		if len(output) > 600 {
			output = output[:600] + " ..."
		}
		what := strings.Join(argv, " ")
		if len(what) > 100 { // a script
			what = argv[0]
		}
		return "", fmt.Errorf("%s: %w: %s", what, err, output)
	}
	return out.String(), nil
}

// serveWith loads rules and then starts the server.
func (m *Machine) serveWith(rules string) error {
	return errors.Join(m.NFT(m.Server, rules), m.Serve(m.Server, ""))
}

// Serve serves the machine's port in a namespace, at an address or at all of them.
func (m *Machine) Serve(n *rig.Namespace, at string) error {
	return m.ServePort(n, at, m.Port, false)
}

// ServePort serves HTTP in a namespace: every response contains the address its request came from.
func (m *Machine) ServePort(n *rig.Namespace, at string, port uint16, mptcp bool) error {
	_, err := m.serveAt(n, at, port, mptcp)
	return err
}

func (m *Machine) serveAt(n *rig.Namespace, at string, port uint16, mptcp bool) (l net.Listener, err error) {
	err = n.Do(func() (err error) {
		lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			failed := raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
				if m.BindTo != "" {
					err = unix.BindToDevice(int(fd), m.BindTo)
				}
			})
			return errors.Join(err, failed)
		}}
		lc.SetMultipathTCP(mptcp)
		l, err = lc.Listen(m.ctx, "tcp", net.JoinHostPort(at, fmt.Sprint(port)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { answer(c) })
		}
	})
	m.ends = append(m.ends, func() error {
		err := l.Close()
		wg.Wait()
		return err
	})
	return l, nil
}

// Namespace makes a namespace for a container or a router; it is closed with the machine.
func (m *Machine) Namespace(role string) (*rig.Namespace, error) { return m.AddNamespace(role) }
