// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// manyRules are rules as a machine with long lists has them: jumps by a verdict map, single addresses, ports.
func manyRules(rules int) string {
	var s strings.Builder
	s.WriteString("table inet big {\n set blocked { type ipv4_addr; flags interval; elements = {")
	for i := range rules {
		fmt.Fprintf(&s, "198.%d.%d.%d,", 18+i>>16, i>>8&255, i&255)
	}
	s.WriteString("}; }\n chain in { type filter hook input priority 0; ip saddr @blocked drop\n")
	for i := range rules {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&s, "ip saddr 203.0.%d.%d drop\n", i>>8&255, i&255)
		case 1:
			fmt.Fprintf(&s, "tcp dport %d accept\n", 1024+i)
		case 2:
			fmt.Fprintf(&s, "ct state new tcp dport %d counter\n", 1024+i)
		default:
			fmt.Fprintf(&s, "iifname \"x%d\" tcp flags syn drop\n", i)
		}
	}
	s.WriteString("}\n}\n")
	return s.String()
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A machine with 10,000 rules is read and judged in bounded time and memory, and one whose rules change all the time costs a bounded
// share of a processor, while changes are still seen.
func TestManyRules(t *testing.T) {
	const rules, verdicts = 10_000, 5
	ns := newNamespace(t)
	run(t, ns, manyRules(rules), "nft", "-f", "-")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := processorTime(t)
	m := read(t, ns)
	took := processorTime(t) - begun
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	begun = processorTime(t)
	for port := range verdicts {
		m.Judge(to(fmt.Sprintf("192.0.2.1:%d", 1+port)))
	}
	judged := (processorTime(t) - begun) / verdicts
	t.Logf("%d rules: read in %v of processor time, %d KiB held; a verdict takes %v", rules, took, held>>10, judged)
	if took > 2*time.Second || held > 32<<20 || judged > time.Second {
		t.Errorf("want less than 2 s, 32 MiB, 1 s")
	}
	if len(m.unreadable) != 0 || m.Judge(to("192.0.2.1:80")).Has(Unreadable) {
		t.Errorf("unreadable: %v", m.unreadable)
	}
	runtime.KeepAlive(m)
}

// A machine that changes without end is read again, but not without end.
func TestChangesWithoutEnd(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, manyRules(3_000), "nft", "-f", "-")
	w := watch(t, ns)
	lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if err := ns.Do(func() error { return netlink.LinkSetAlias(lo, fmt.Sprint("a", i)) }); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	const span = 3 * time.Second
	begun, reads, spent := time.Now(), w.reads.Load(), w.spent.Load()
	for end := time.After(span); ; { // asks as a gate does, of each survey
		select {
		case <-w.Changed():
			for port := range 10 {
				w.Machine().Judge(to(fmt.Sprintf("192.0.2.1:%d", 1+port)))
			}
			continue
		case <-end:
		}
		break
	}
	// After each survey but the last there was a rest, surveyShare times as long: a share of the time, however slow this machine is.
	times, used := int64(w.reads.Load()-reads), time.Duration(w.spent.Load()-spent)
	took := time.Since(begun)
	t.Logf("in %v: %d surveys, %v in all", took, times, used)
	if times < 1 || used/time.Duration(times)*time.Duration(times-1)*(1+surveyShare) > took {
		t.Errorf("%d surveys in %v took %v; want at least one, and at most a %dth of the time", times, took, used, 1+surveyShare)
	}
	run(t, ns, "insert rule inet big in tcp dport 80 tcp flags syn drop", "nft", "-f", "-")
	await(t, w, "a rule among changes", func(m *Machine) bool { return m.Judge(to("192.0.2.1:80")).Has(SYNRule) })
	close(stop)
	<-stopped
}

// Whether a destination is sent elsewhere is asked for each port of a service: that must cost next to nothing where no rule translates.
func TestElsewhereIsCheap(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, manyRules(2_000)+`table ip n { chain post { type nat hook postrouting priority srcnat; masquerade; }; }`, "nft", "-f", "-")
	m := read(t, ns)
	begun := processorTime(t)
	for port := range 5_000 {
		if at := to(fmt.Sprintf("192.0.2.1:%d", 1+port)); m.MaySendElsewhere(at.Addr) || m.Elsewhere(at) {
			t.Fatalf("port %d is sent elsewhere", 1+port)
		}
	}
	if took := processorTime(t) - begun; took > time.Second {
		t.Errorf("5,000 ports took %v of processor time", took)
	}
	run(t, ns, `table ip n { chain pre { type nat hook prerouting priority dstnat; tcp dport 81 dnat to 10.0.0.1:80; }; }`, "nft", "-f", "-")
	m = read(t, ns)
	for where, want := range map[string]bool{"192.0.2.1:81": true, "192.0.2.1:82": false, "[2001:db8::1]:81": false} {
		if at := to(where); m.Elsewhere(at) != want || m.Judge(at).Has(DNAT) != want {
			t.Errorf("%s: %v, want %v", where, m.Elsewhere(at), want)
		}
	}
}

// What the kernel does not notify of is seen by polls, which cost little. They must not wait for as long as if they cost what a survey
// costs: of many rules, or on a slow machine, that takes seconds.
func TestPollsDoNotWaitForSurveys(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, manyRules(10_000), "nft", "-f", "-")
	w := watch(t, ns)
	await(t, w, "conntrack's sysctl", func(m *Machine) bool { return m.loose })
	reads, began := w.reads.Load(), time.Now()
	if err := ns.Do(func() error { return netlink.LinkSetAlias(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}, "a") }); err != nil {
		t.Fatal(err)
	}
	await(t, w, "an alias", func(*Machine) bool { return w.reads.Load() > reads })
	survey := time.Since(began)
	if err := ns.SetSysctl("net.netfilter.nf_conntrack_tcp_loose", "0"); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	await(t, w, "a sysctl", func(m *Machine) bool { return !m.loose })
	if seen := time.Since(began); seen > 6*survey+2*pollEvery {
		t.Errorf("a sysctl was seen after %v, a survey took %v", seen, survey)
	}
}
