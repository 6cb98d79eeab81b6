// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"os"
	"strings"
	"testing"

	"tidegate/internal/config"
)

// The kernel's table, as net/netfilter/ipvs/ip_vs_ctl.c prints it.
const ipvsText = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  C0000201:0050 rr 
  -> 0A000002:1F90      Masq    1      0          0         
TCP  C0000201:01BB wlc persistent 168 FFFFFFFF
  -> 0A000002:01BB      Masq    1      0          0         
  -> 0A000003:01BB      Route   1      0          0         
UDP  C0000201:0035 rr 
  -> 0A000002:0035      Route   1      0          0         
TCP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0050 rr 
  -> [2001:0db8:0000:0000:0000:0000:0000:0002]:0050      Tunnel  1      0          0         
TCP  C0000202:0000 rr 
  -> 0A000002:0000      Local   1      0          0         
`

func TestVirtualServers(t *testing.T) {
	virtual, err := parseVirtual(ipvsText)
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{nft: &nftRules{}, links: links{}, virtual: virtual}
	for where, want := range map[string]string{
		"192.0.2.1:80": "translate virtual-server", "192.0.2.1:443": "kernel direct-server", "192.0.2.1:53": "adopt", "192.0.2.9:80": "adopt",
		"192.0.2.2:25": "translate virtual-server", "[2001:db8::1]:80": "kernel direct-server", "[2001:db8::1]:81": "adopt",
		"0.0.0.0:81": "translate virtual-server", // one address has all ports
		"[::]:443":   "adopt",
	} {
		expectOf(t, m, to(where), want)
	}
	marked, err := parseVirtual("FWM  00000001 rr \n  -> 0A000002:0000      Route   1      0          0\n")
	if err != nil {
		t.Fatal(err)
	}
	expectOf(t, &Machine{nft: &nftRules{}, links: links{}, virtual: marked}, to("198.51.100.7:7"), "kernel direct-server")
	for _, bad := range []string{"TCP  C00002:0050 rr\n", "TCP  C0000201 rr\n", "TCP  [2001:zz]:0050 rr\n", "TCP  C0000201:10050 rr\n"} {
		if _, err := parseVirtual(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Services as a kernel has them: a virtual server is seen when it comes, changes and goes.
func TestVirtualServersOfTheKernel(t *testing.T) {
	if _, err := os.Stat("/proc/net/ip_vs"); err != nil {
		if os.Getenv("TIDEGATE_TEST_MODULES") != "" {
			t.Fatal(err)
		}
		t.Skip("this kernel has no IPVS (make test-kernel has): ", err)
	}
	ns := newNamespace(t)
	w := watch(t, ns)
	at := to("192.0.2.1:80")
	expectOf(t, w.Machine(), at, "adopt")
	for _, step := range []struct{ command, want string }{
		{"-A -t 192.0.2.1:80 -s rr", VirtualServer},
		{"-a -t 192.0.2.1:80 -r 10.0.0.2:8080 -m", VirtualServer},
		{"-a -t 192.0.2.1:80 -r 10.0.0.3:80 -g", DirectServer},
		{"-d -t 192.0.2.1:80 -r 10.0.0.3:80", VirtualServer},
		{"-C", ""},
	} {
		run(t, ns, "", append([]string{"ipvsadm"}, strings.Fields(step.command)...)...)
		await(t, w, "ipvsadm "+step.command, func(m *Machine) bool {
			v := m.Judge(at)
			return step.want == "" && v.Takeover == config.TakeoverAdopt || v.Has(step.want)
		})
	}
}
