// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"tidegate/internal/lab/rig"
)

// gobgp is a real router without a forwarding table: gobgpd, asked by its own API.
type gobgp struct {
	w       *world
	process *rig.Process
	client  api.GoBgpServiceClient
}

const gobgpConfig = `
[global.config]
  as = 64500
  router-id = "198.18.3.2"
[[neighbors]]
  [neighbors.config]
    neighbor-address = "198.18.3.1"
    peer-as = 64512
    auth-password = "pass-word"
  [neighbors.transport.config]
    passive-mode = true
  [neighbors.ttl-security.config]
    enabled = true
    ttl-min = 255
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-unicast"
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-flowspec"
[[neighbors]]
  [neighbors.config]
    neighbor-address = "fd7d:7467:4::1"
    peer-as = 64512
  [neighbors.transport.config]
    passive-mode = true
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-flowspec"
`

func (w *world) gobgp() *gobgp {
	w.t.Helper()
	b := &gobgp{w: w}
	w.must(os.WriteFile(filepath.Join(w.dir, "gobgp.toml"), []byte(gobgpConfig), 0o600))
	conn, err := grpc.NewClient("passthrough:///router", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (c net.Conn, err error) {
			err = w.Client.Do(func() error {
				c, err = new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:50051")
				return err
			})
			return c, err
		}))
	w.must(err)
	b.client = api.NewGoBgpServiceClient(conn)
	b.start()
	w.t.Cleanup(func() {
		b.process.Stop(5 * time.Second)
		conn.Close()
	})
	return b
}

func (b *gobgp) start() {
	b.w.t.Helper()
	var err error
	b.process, err = rig.StartProcess(b.w.Client, -1, nil, nil, gobgpd, "-f", filepath.Join(b.w.dir, "gobgp.toml"), "--api-hosts", "127.0.0.1:50051", "-l", "warn")
	b.w.must(err)
}

// routes are what the router has learned of a family, each as text.
func (b *gobgp) routes(afi api.Family_Afi, safi api.Family_Safi) (list []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := b.client.ListPath(ctx, &api.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: &api.Family{Afi: afi, Safi: safi}})
	if err != nil {
		return nil
	}
	for {
		r, err := s.Recv()
		if err != nil {
			return list
		}
		list = append(list, r.Destination.String())
	}
}

func has(list []string, words ...string) bool {
	for _, r := range list {
		if len(lines(strings.ReplaceAll(r, "\n", " "), words...)) > 0 {
			return true
		}
	}
	return false
}

// Another real router, over IPv4 with TCP MD5 and TTL security and over IPv6: it learns all kinds of routes of both families, learns them
// again when its session has flapped, and forgets them when the gate stops. A kill of tidegate-bgp is such a flap, too.
func TestGoBGP(t *testing.T) {
	w := newWorld(t)
	router := w.gobgp()
	config := w.config("service_prefixes: [203.0.113.0/24, \"2001:db8::/48\"], settle: 0s", secured+", flowspec: yes")
	config = strings.Replace(config, "own: [203.0.113.0/24]", `own: [203.0.113.0/24, "2001:db8::/48"]`, 1)
	config = strings.Replace(config, "bgp_peers: [", fmt.Sprintf("bgp_peers: [{address: %q, as: %d, flowspec: yes}, ", w.ClientAddr(true), itsAS), 1)
	g := w.start(config)
	for _, args := range [][]string{{"source", "198.51.100.200"}, {"source", "2001:db9::7"}, {"destination", "203.0.113.9"}, {"destination", "2001:db8::9"},
		{"flow", "198.51.100.201", "203.0.113.8"}, {"flow", "2001:db9::8", "2001:db8::8"}} {
		w.bgp(append([]string{"announce"}, args...)...)
	}
	all := func() bool {
		v4, v6 := router.routes(api.Family_AFI_IP, api.Family_SAFI_UNICAST), router.routes(api.Family_AFI_IP6, api.Family_SAFI_UNICAST)
		f4, f6 := router.routes(api.Family_AFI_IP, api.Family_SAFI_FLOW_SPEC_UNICAST), router.routes(api.Family_AFI_IP6, api.Family_SAFI_FLOW_SPEC_UNICAST)
		return len(v4) == 3 && len(v6) == 3 && len(f4) == 1 && len(f6) == 1 &&
			has(v4, `"198.51.100.200/32"`, `"192.0.2.1"`, "4294902426", "4294967041") && has(v4, `"203.0.113.9/32"`) && has(v4, `"203.0.113.0/24"`, `"198.18.3.1"`) &&
			has(v6, `"2001:db9::7/128"`, `"100::1"`, "4294902426", "4294967041") && has(v6, `"2001:db8::9/128"`) && has(v6, `"2001:db8::/48"`, w.ServerAddr(true).String()) &&
			has(f4, "198.51.100.201", "203.0.113.8", "traffic_rate") && has(f6, "2001:db9::8", "2001:db8::8", "traffic_rate")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%q %q %q", router.routes(api.Family_AFI_IP, api.Family_SAFI_UNICAST), router.routes(api.Family_AFI_IP6, api.Family_SAFI_UNICAST), router.routes(api.Family_AFI_IP, api.Family_SAFI_FLOW_SPEC_UNICAST))
		}
	})
	w.until("all routes are learned", all)

	// The router restarts.
	router.process.End(syscall.SIGKILL, time.Second)
	router.start()
	w.until("all routes are learned after the session has flapped", all)
	for _, s := range w.state().Sessions {
		if s.Flaps != 1 || !s.Up {
			t.Errorf("%+v", s)
		}
	}
	// So does the speaker.
	speaker, err := os.FindProcess(w.speaker(g.Cmd.Process.Pid))
	w.must(err)
	w.must(speaker.Kill())
	g.AwaitLog("tidegate-bgp has ended")
	w.until("all routes are learned from a new speaker", func() bool { return w.state().Running && all() })
	g.Stop()
	w.until("nothing is left when the gate has stopped", func() bool { return len(router.routes(api.Family_AFI_IP, api.Family_SAFI_UNICAST)) == 0 })
}
