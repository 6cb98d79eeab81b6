// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/fleet"
	"tidegate/internal/lab/rig"
)

// serverChild is the hidden subcommand of tidegate-lab that is a NATS server.
const serverChild = "_nats"

// RunServerChild is the body of `tidegate-lab _nats FILE`: it serves until it is killed.
func RunServerChild(args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the configuration file of the NATS server")
	}
	opts, err := server.ProcessConfigFile(args[0])
	if err != nil {
		return err
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}

// place is where a server of a cluster is.
type place struct {
	ns      *rig.Namespace // nil: this process's
	addr    netip.Addr
	client  int // ports
	cluster int
	monitor int
}

// cluster is NATS servers with JetStream and TLS.
type cluster struct {
	self   string // this program
	dir    string
	places []place
	up     []*rig.Process // nil: it was killed
	dial   func(network, address string) (net.Conn, error)
}

// accounts is the part of a server's configuration that says what a user may do, as docs/fleet.md has it: an account for each node.
func accounts(nodes []string) string {
	var b strings.Builder
	b.WriteString(`accounts {
  FLEET: {
    jetstream: enabled
    users: [ { user: "CN=operator" } ]
    exports: [
      { service: "$JS.API.STREAM.MSG.GET.KV_tidegate-desired" }
      { stream: "tidegate.desired" }
      { service: "$KV.tidegate-nodes.*", account_token_position: 3 }
      { service: "tidegate.events.*", account_token_position: 3 }
      { service: "tidegate.attack.*", account_token_position: 3 }
      { stream: "tidegate.attacks.*" }
    ]
  }
`)
	for _, n := range nodes {
		fmt.Fprintf(&b, `  %[1]s: {
    users: [ { user: "CN=%[1]s" } ]
    imports: [
      { service: { account: FLEET, subject: "$JS.API.STREAM.MSG.GET.KV_tidegate-desired" }, to: "tidegate.newest" }
      { stream: { account: FLEET, subject: "tidegate.desired" } }
      { service: { account: FLEET, subject: "$KV.tidegate-nodes.%[1]s" } }
      { service: { account: FLEET, subject: "tidegate.events.%[1]s" } }
      { service: { account: FLEET, subject: "tidegate.attack.%[1]s" } }
      { stream: { account: FLEET, subject: "tidegate.attacks.*" } }
    ]
  }
`, n)
	}
	b.WriteString("}\n")
	return b.String()
}

// newCluster writes certificates and configurations; start starts a server.
func newCluster(self, dir string, places []place, nodes []string) (*cluster, error) {
	c := &cluster{self: self, dir: dir, places: places, up: make([]*rig.Process, len(places))}
	ca, err := newAuthority(dir)
	if err != nil {
		return nil, err
	}
	at := make([]net.IP, len(places))
	routes := make([]string, len(places))
	for i, p := range places {
		at[i], routes[i] = p.addr.AsSlice(), fmt.Sprintf("%q", "nats://"+netip.AddrPortFrom(p.addr, uint16(p.cluster)).String())
	}
	if err := ca.servers(at...); err != nil {
		return nil, err
	}
	for _, name := range append([]string{"operator"}, nodes...) {
		if err := ca.user(name); err != nil {
			return nil, err
		}
	}
	rights := filepath.Join(dir, "accounts.conf")
	if err := os.WriteFile(rights, []byte(accounts(nodes)), 0o600); err != nil {
		return nil, err
	}
	for i, p := range places {
		// A route of the cluster is protected as a client's connection is.
		text := fmt.Sprintf(`server_name: nats%[1]d
listen: "%[2]s:%[3]d"
http: "%[2]s:%[5]d"
logfile: "%[6]s/nats%[1]d.log"
jetstream { store_dir: "%[6]s/nats%[1]d" }
tls { cert_file: "%[6]s/server.pem", key_file: "%[6]s/server.key", ca_file: "%[6]s/ca.pem", verify_and_map: true }
`, i+1, p.addr, p.client, p.cluster, p.monitor, dir)
		if len(places) > 1 {
			text += fmt.Sprintf(`cluster {
  name: fleet
  listen: "%[1]s:%[2]d"
  tls { cert_file: "%[3]s/server.pem", key_file: "%[3]s/server.key", ca_file: "%[3]s/ca.pem", verify: true }
  routes: [%[4]s]
}
`, p.addr, p.cluster, dir, strings.Join(routes, ", "))
		}
		text += "include \"accounts.conf\"\n"
		if err := os.WriteFile(c.config(i), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) config(i int) string { return filepath.Join(c.dir, fmt.Sprintf("nats%d.conf", i+1)) }

// start starts a server.
func (c *cluster) start(i int) error {
	p, err := rig.StartProcess(c.places[i].ns, -1, nil, nil, c.self, serverChild, c.config(i))
	if err == nil {
		c.up[i] = p
	}
	return err
}

// kill ends a server without a farewell.
func (c *cluster) kill(i int) {
	if p := c.up[i]; p != nil {
		p.End(syscall.SIGKILL, time.Second)
		c.up[i] = nil
	}
}

func (c *cluster) close() {
	for i := range c.up {
		c.kill(i)
	}
}

// alive is an error if a server that was not killed has ended.
func (c *cluster) alive() error {
	for i, p := range c.up {
		if p == nil {
			continue
		}
		select {
		case <-p.Exited:
			log, _ := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("nats%d.log", i+1)))
			return fmt.Errorf("NATS server %d has ended: %w: %s", i+1, errors.Join(p.Failure(), errors.New("its log ends so")), lastLines(log, 5))
		default:
		}
	}
	return nil
}

func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// urls are the servers as a configuration names them; the one of that number first.
func (c *cluster) urls(first int) (list []string) {
	for i := range c.places {
		p := c.places[(first+i)%len(c.places)]
		list = append(list, "tls://"+netip.AddrPortFrom(p.addr, uint16(p.client)).String())
	}
	return list
}

// access is how a user reaches the servers.
func (c *cluster) access(user string, first int) fleet.Access {
	file := filepath.Join(c.dir, user)
	return fleet.Access{Servers: c.urls(first), CA: filepath.Join(c.dir, "ca.pem"), Cert: file + ".pem", Key: file + ".key", Name: user, Dial: c.dial}
}

// figures is what a server says of itself (its monitoring port, /varz), and its processor time.
type figures struct {
	Connections int           `json:"connections"`
	In          uint64        `json:"in_msgs"`
	Out         uint64        `json:"out_msgs"`
	Slow        uint64        `json:"slow_consumers"`
	Memory      uint64        `json:"-"` // resident
	CPU         time.Duration `json:"-"`
}

// figures asks a server.
func (c *cluster) figures(ctx context.Context, i int) (f figures, err error) {
	if c.up[i] == nil {
		return f, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/varz", netip.AddrPortFrom(c.places[i].addr, uint16(c.places[i].monitor))), nil)
	if err != nil {
		return f, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return f, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&f); err != nil {
		return f, err
	}
	f.Memory, f.CPU, err = usage(c.up[i].Cmd.Process.Pid)
	return f, err
}

// usage is the resident memory and the processor time of a process.
func usage(pid int) (memory uint64, cpu time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 22 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	var ticks, pages uint64
	for _, x := range []struct {
		at   int
		into *uint64
	}{{11, &ticks}, {12, &ticks}, {21, &pages}} {
		n, err := strconv.ParseUint(f[x.at], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*x.into += n
	}
	return pages * uint64(os.Getpagesize()), time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100
}
