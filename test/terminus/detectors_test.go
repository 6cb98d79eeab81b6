// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	enc "encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/lab/rig"
	"tidegate/internal/role/filterman"
	"tidegate/internal/upstreamtest"
)

// manager joins a filter manager with border manager and patrol on the loopback.
func manager(t *testing.T, customers, own string) (*upstreamtest.Net, *filterman.Manager) {
	t.Helper()
	p := []netip.Prefix{netip.MustParsePrefix(own)}
	n, err := upstreamtest.New(upstreamtest.Options{Prefixes: [][]netip.Prefix{{netip.MustParsePrefix(customers)}}, Own: p, Capacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n, filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: p,
		Expires: time.Minute, Idle: time.Hour, Log: n.Log})
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// await waits for a filter in the patrol's table.
func await(t *testing.T, n *upstreamtest.Net, limit time.Duration, why func() string) []ifp.Filter {
	t.Helper()
	for end := time.Now().Add(limit); n.Tables[0].Len() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no filter after %v: %s", limit, why())
		}
	}
	var list []ifp.Filter
	n.Tables[0].Each(0, func(f ifp.Filter, _ ifp.Stat) bool { list = append(list, f); return true })
	return list
}

// pcap is a capture file with UDP packets.
func pcap(packets ...[]byte) string {
	b := enc.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0)
	for i, p := range packets {
		for _, v := range []uint32{1_700_000_000, uint32(i), uint32(len(p)), uint32(len(p))} {
			b = enc.LittleEndian.AppendUint32(b, v)
		}
		b = append(b, p...)
	}
	return string(b)
}

func udp(src, dst string, tclass uint8) []byte {
	ip := make([]byte, 28+32)
	ip[0], ip[1], ip[8], ip[9] = 0x45, tclass, 64, 17
	enc.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], netip.MustParseAddr(src).AsSlice())
	copy(ip[16:], netip.MustParseAddr(dst).AsSlice())
	enc.BigEndian.PutUint16(ip[20:], 4321)
	enc.BigEndian.PutUint16(ip[22:], 7000)
	enc.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	return append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, ip...)
}

// Suricata reads a capture and writes EVE lines; of the two sources it reports, only
// the one whose packets have the codepoint is filtered.
func TestSuricata(t *testing.T) {
	suricata := needTool(t, "suricata", "suricata (backports)")
	dir := t.TempDir()
	n, m := manager(t, "10.1.0.0/16", "198.51.100.0/24")
	eve := filepath.Join(dir, "eve.json")
	write(t, eve, "", 0o600)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go filterman.FollowEVE(ctx, eve, m, n.Log)
	conf := write(t, filepath.Join(dir, "suricata.yaml"), `%YAML 1.1
---
outputs:
  - eve-log:
      enabled: yes
      filetype: regular
      filename: eve.json
      append: yes
      types:
        - alert:
            metadata:
              rule:
                metadata: yes
`, 0o600)
	rules := write(t, filepath.Join(dir, "test.rules"),
		`alert udp any any -> 198.51.100.0/24 7000 (msg:"flood with the codepoint"; tos:188; metadata: tidegate block, tidegate_witness ts; sid:1; rev:1;)
alert udp any any -> 198.51.100.0/24 7000 (msg:"flood without"; tos:!188; metadata: tidegate block, tidegate_witness no-ts; sid:2; rev:1;)
`, 0o600)
	capture := write(t, filepath.Join(dir, "flood.pcap"),
		pcap(udp("10.1.0.7", "198.51.100.1", 188), udp("10.1.0.8", "198.51.100.1", 0), udp("10.1.0.7", "198.51.100.1", 188)), 0o600)
	out, err := exec.Command(suricata, "-c", conf, "-r", capture, "-S", rules, "-l", dir, "-k", "none", "--runmode", "single").CombinedOutput()
	if err != nil {
		t.Fatalf("suricata: %v\n%s", err, out)
	}
	list := await(t, n, 10*time.Second, func() string {
		text, _ := os.ReadFile(eve)
		return fmt.Sprintf("eve.json: %s\n%s", text, out)
	})
	if len(list) != 1 || list[0].Src != netip.MustParsePrefix("10.1.0.7/32") || list[0].Dst != netip.MustParsePrefix("198.51.100.1/32") {
		t.Errorf("filters %v", list)
	}
}

func TestEVELines(t *testing.T) {
	for line, want := range map[string]string{
		`{"event_type":"alert","src_ip":"10.1.0.7","dest_ip":"198.51.100.1","alert":{"signature":"x","metadata":{"tidegate":["block"],"tidegate_witness":["ts"]}}}`: "10.1.0.7/32 198.51.100.1/32 ts false",
		`{"event_type":"alert","src_ip":"10.1.0.7","dest_ip":"198.51.100.1","alert":{"metadata":{"tidegate":["reflected"],"tidegate_witness":["ts"]}}}`:             "10.1.0.7/32 198.51.100.1/32 ts true",
		`{"event_type":"alert","src_ip":"10.1.0.7","dest_ip":"198.51.100.1","alert":{"metadata":{"tidegate":["block"]}}}`:                                           "10.1.0.7/32 198.51.100.1/32 unknown false",
		`{"event_type":"alert","src_ip":"10.1.0.7","dest_ip":"198.51.100.1","alert":{"signature":"no word of us"}}`:                                                 "",
		`{"event_type":"flow","src_ip":"10.1.0.7","dest_ip":"198.51.100.1","alert":{"metadata":{"tidegate":["block"]}}}`:                                            "",
		`{"event_type":"alert","src_ip":"nonsense","dest_ip":"198.51.100.1","alert":{"metadata":{"tidegate":["block"]}}}`:                                           "error",
		`{"event_type":`: "error",
	} {
		r, ok, err := filterman.ParseEVE([]byte(line))
		got := ""
		if ok {
			got = fmt.Sprintf("%v %v %s %v", r.Src, r.Dst, r.Witness, r.Reflected)
		}
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// FastNetMon detects a flood on a real interface and calls its notify script, which
// has the source filtered.
func TestFastNetMon(t *testing.T) {
	needRoot(t)
	fastnetmon := needTool(t, "fastnetmon", "fastnetmon")
	h, err := rig.NewHosts("fnm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	victim, bot := h.ServerAddr(false), h.ClientAddr(false)
	n, m := manager(t, bot.String()+"/32", victim.String()+"/32")
	dir := t.TempDir()
	api := filepath.Join(dir, "api.sock")
	l, err := filterman.ServeAPI(m, api)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	noticeLog := filepath.Join(dir, "told")
	script := write(t, filepath.Join(dir, "notify.sh"), fmt.Sprintf(
		"#!/bin/sh\necho \"$@\" >>%s\n%s filter notify --witness ts --api %s \"$1\" \"$2\" \"$3\" \"$4\" >>%s 2>&1\n", noticeLog, binary, api, noticeLog), 0o700)
	networks := write(t, filepath.Join(dir, "networks"), victim.String()+"/32\n", 0o600)
	write(t, filepath.Join(dir, "white"), "", 0o600)
	conf := write(t, filepath.Join(dir, "fastnetmon.conf"), fmt.Sprintf(`disable_usage_report = on
enable_ban = on
process_incoming_traffic = on
process_outgoing_traffic = off
ban_details_records_count = 20
ban_time = 60
networks_list_path = %s
white_list_path = %s/white
check_period = 1
ban_for_pps = on
threshold_pps = 200
mirror_afpacket = on
interfaces = %s
average_calculation_time = 1
speed_calculation_delay = 1
notify_script_path = %s
notify_script_pass_details = on
monitor_local_ip_addresses = off
enable_api = off
cli_stats_file_path = %s/stats
cli_stats_ipv6_file_path = %s/stats6
`, networks, dir, h.ServerPort.Name, script, dir, dir), 0o600)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(fastnetmon, "--configuration_file", conf, "--log_to_console", "--disable_pid_logic")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.Server.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	stop := flood(t, h, netip.AddrPortFrom(victim, 7000))
	defer stop()
	list := await(t, n, 40*time.Second, func() string {
		a, _ := os.ReadFile(noticeLog)
		b, _ := os.ReadFile(log.Name())
		return fmt.Sprintf("script: %s\nfastnetmon: %s", a, b)
	})
	if len(list) != 1 || list[0].Src.Addr() != bot || list[0].Dst.Addr() != victim {
		t.Errorf("filters %v", list)
	}
}

// flood sends at most a minute's worth of small UDP packets, 1,000 a second.
func flood(t *testing.T, h *rig.Hosts, to netip.AddrPort) (stop func()) {
	t.Helper()
	var c net.Conn
	if err := h.Client.Do(func() (err error) { c, err = net.Dial("udp", to.String()); return err }); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 6000 {
			for range 10 {
				_, _ = c.Write(make([]byte, 64)) // refused by the victim: its port is closed
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(done); <-ended; c.Close() }
}
