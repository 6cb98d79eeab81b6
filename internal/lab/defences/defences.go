// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// Names of the defences, in the order reports show them.
const (
	None   = "none"   // Linux with SYN cookies off
	Kernel = "kernel" // Linux with SYN cookies
	Nft    = "nft"    // nftables SYNPROXY
	Host   = "host"   // tidegate run, role host
)

// All lists the defences that run on the server itself.
func All() []string { return []string{None, Kernel, Nft, Host} }

// WithBoxes lists those and the ones that run in a box between
// clients and server; the reports compare them.
func WithBoxes() []string { return append(All(), boxes()...) }

// Defence protects the server of a topology.
type Defence interface {
	// Start activates it; the web server already listens.
	Start(ctx context.Context, t *rig.Topology) error
	// Cookies is the number of cookies sent since start.
	Cookies(ctx context.Context, t *rig.Topology) (uint64, error)
	// Stop deactivates it and removes everything it made.
	Stop() error
}

// Env describes the experiment to a defence.
type Env struct {
	*rig.Workplace
	Name  string // of the defence
	Plane string // of a proxy
	IPv6  bool   // the service is attacked and used over IPv6
	// Bitmap: a proxy has its whitelist of IPv4 sources as a bitmap.
	Bitmap bool
}

// Stateful is a defence that stores connections or sources.
type Stateful interface {
	// State is what it stores now; the zero value if that cannot be determined.
	State() plane.Usage
	// EmptyBytes is the memory of its empty tables.
	EmptyBytes() uint64
}

// New makes the defence of that name, not yet started.
func New(env Env) (Defence, error) {
	switch env.Name {
	case None:
		return &stack{syncookies: "0"}, nil
	case Kernel:
		return &stack{syncookies: "1"}, nil
	case Nft:
		return &synproxy{progress: env.Progress}, nil
	case Host:
		return &Tidegate{Env: env}, nil
	}
	if env.Name == Edge {
		return newEdge(env), nil
	}
	if InBox(env.Name) {
		return NewProxy(env), nil
	}
	return nil, fmt.Errorf("defence %q: want one of %s", env.Name, strings.Join(WithBoxes(), ", "))
}

// stack is the kernel's own TCP stack with SYN cookies on or off.
type stack struct {
	syncookies string
	before     uint64
}

func (d *stack) Start(_ context.Context, t *rig.Topology) (err error) {
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", d.syncookies}); err != nil {
		return err
	}
	d.before, err = t.Server.TCPExt("SyncookiesSent")
	return err
}

func (d *stack) Cookies(_ context.Context, t *rig.Topology) (uint64, error) {
	now, err := t.Server.TCPExt("SyncookiesSent")
	return now - d.before, err
}

func (d *stack) Stop() error { return nil }

// synproxy is SYNPROXY as the nftables documentation sets it up, except for synproxyTimestamps. Its
// MSS and window scale are set to the server's, which they must match.
type synproxy struct {
	progress func(string, ...any)
	inBox    bool // in a box between clients and server
	box      *rig.Namespace
	before   uint64
}

// place returns the namespace and the hook in which SYNPROXY works.
func (d *synproxy) place(t *rig.Topology) (n *rig.Namespace, hook string) {
	if d.inBox {
		return t.Box.Proxy, "forward"
	}
	return t.Server, "input"
}

const nftRules = `table inet tidegate_lab {
	chain raw {
		type filter hook prerouting priority raw; policy accept;
		tcp dport %[1]d tcp flags & (fin|syn|rst|ack) == syn notrack
	}
	chain guard {
		type filter hook %[3]s priority filter; policy accept;
		meta nfproto ipv4 tcp dport %[1]d ct state invalid,untracked synproxy mss 1460 wscale %[2]d%[4]s sack-perm
		meta nfproto ipv6 tcp dport %[1]d ct state invalid,untracked synproxy mss 1440 wscale %[2]d%[4]s sack-perm
		tcp dport %[1]d ct state invalid drop
	}
}
`

func (d *synproxy) Start(ctx context.Context, t *rig.Topology) error {
	if err := installNft(ctx, d.progress); err != nil {
		return err
	}
	n, hook := d.place(t)
	cookies := "1"
	if d.inBox {
		d.box = n
		cookies = "0" // to count every SYN that reaches the server
	}
	if err := t.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", cookies}); err != nil {
		return err
	}
	wscale, err := t.Server.WindowScale()
	if err != nil {
		return err
	}
	rules := strings.NewReader(fmt.Sprintf(nftRules, rig.ServicePort, wscale, hook, synproxyTimestamps(t.Server)))
	p, err := rig.StartProcess(n, -1, rules, nil, "nft", "-f", "-")
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("SYNPROXY rules: %w", err)
	}
	// Only a handshake that SYNPROXY made may open a connection; and its
	// TIME-WAIT entries must not fill the table that all namespaces share.
	if err := n.SetSysctls([2]string{"net.netfilter.nf_conntrack_tcp_loose", "0"},
		[2]string{"net.netfilter.nf_conntrack_tcp_timeout_time_wait", "10"}); err != nil {
		return err
	}
	d.before, err = synproxySYNs(n)
	return err
}

// synproxyTimestamps is the rule's timestamp option, omitted where it does harm. SYNPROXY completes the server's handshake
// with an ACK whose TSecr is not what the server sent. A kernel that checks this (tcp_check_req; counter
// TSEcrRejected) drops the ACK, and the connection is established only by the client's first data, or not within
// a second: 0.1 to 0.6 % of requests without any flood (Linux 6.18).
func synproxyTimestamps(server *rig.Namespace) string {
	if _, err := server.TCPExt("TSEcrRejected"); err == nil {
		return ""
	}
	return " timestamp"
}

func (d *synproxy) Cookies(_ context.Context, t *rig.Topology) (uint64, error) {
	n, _ := d.place(t)
	now, err := synproxySYNs(n)
	return now - d.before, err
}

func (d *synproxy) Stop() error { return nil } // the rules are removed with the namespace

// installNft installs nftables if it is missing.
func installNft(ctx context.Context, progress func(string, ...any)) error {
	if _, err := exec.LookPath("nft"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("nft is not installed, and there is no apt-get: install nftables")
	}
	progress("installing nftables by apt-get")
	cmd := exec.CommandContext(ctx, "apt-get", "install", "-y", "--no-install-recommends", "nftables")
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("apt-get install nftables: %w: %s", err, lines[len(lines)-1])
	}
	return nil
}
