// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/test/world"
)

func TestGroups(t *testing.T) {
	for name, want := range map[string]string{
		"__siphash_unaligned": GroupHash, "siphash_4u32": GroupHash, "cookie_hash": GroupHash, "cookie_v4_init_sequence": GroupTCP, "tcp_conn_request": GroupTCP,
		"__inet_lookup_established": GroupTCP, "inet_reqsk_alloc": GroupTCP, "kmem_cache_free": GroupMemory, "__alloc_skb": GroupMemory, "skb_release_data": GroupMemory, "_raw_spin_lock": GroupLock, "__raw_callee_save___pv_queued_spin_unlock": GroupLock, "raw_local_deliver": GroupIP,
		"ip_route_output_key_hash_rcu": GroupIP, "fib_table_lookup": GroupIP, "__mkroute_output": GroupIP, "veth_poll": GroupDevice, "__netif_receive_skb_core.constprop.0": GroupDevice,
		"napi_threaded_poll_loop": GroupDevice, "__dev_queue_xmit": GroupDevice, "bpf_prog_6deef7357e7b4530_tg_host_xdp": GroupBPF, "schedule": GroupOther, "pv_native_safe_halt": GroupIdle,
	} {
		if got := groupOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestSymbolsAndCount(t *testing.T) {
	symbols, err := readSymbols(strings.NewReader("1000 T siphash_4u32\n1100 t tcp_v4_rcv\n1100 T tcp_alias\n1200 D data\n2000 t veth_poll\t[veth]\n3000 T schedule\n4000 t pv_native_safe_halt\n"))
	if err != nil {
		t.Fatal(err)
	}
	for ip, want := range map[uint64]string{0xfff: "", 0x1000: "siphash_4u32", 0x10ff: "siphash_4u32", 0x1100: "tcp_v4_rcv", 0x1fff: "tcp_v4_rcv", 0x2010: "veth_poll"} {
		if got := symbols.Find(ip); got != want {
			t.Errorf("%x: %q, want %q", ip, got, want)
		}
	}
	all := Samples{List: []Sample{{0x1001, 7, true}, {0x1101, 7, true}, {0x2001, 0, true}, {0x3001, 0, true}, {0x4001, 0, true}, {0x77, 9, false}, {0x3001, 7, true}, {0x1102, 7, true}}, Lost: 3}
	p := Count(all, symbols)
	for group, want := range map[string]float64{GroupHash: 1. / 8, GroupTCP: 2. / 8, GroupDevice: 1. / 8, GroupIdle: 2. / 8, GroupUser: 1. / 8, GroupOther: 1. / 8} {
		if math.Abs(p.Groups[group]-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", group, p.Groups[group], want)
		}
	}
	if p.Functions[0].Name != "tcp_v4_rcv" || p.Lost != 3 || math.Abs(p.OfWork(GroupHash)-1./6) > 1e-9 {
		t.Errorf("%+v", p)
	}
	all.Over = 4 * time.Millisecond // 16 samples: 8 are there, 3 are lost, 5 are missing
	if p = Count(all, symbols); math.Abs(p.Groups[GroupIdle]-7./13) > 1e-9 || math.Abs(p.OfWork(GroupHash)-1./6) > 1e-9 {
		t.Errorf("with samples missing: %+v", p)
	}
	if _, err := readSymbols(strings.NewReader("0000000000000000 T hidden\n")); err == nil {
		t.Error("hidden addresses are taken for symbols")
	}
}

func TestParse(t *testing.T) {
	record := func(kind uint32, misc uint16, words ...uint64) (b []byte) {
		b = binary.NativeEndian.AppendUint32(b, kind)
		b = binary.NativeEndian.AppendUint16(b, misc)
		b = binary.NativeEndian.AppendUint16(b, uint16(8+8*len(words)))
		for _, w := range words {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	data := append(record(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_KERNEL, 0x1234, 5), record(unix.PERF_RECORD_LOST, 0, 1, 42)...)
	data = append(data, record(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_USER, 0x99, 6<<32|6)...)
	list, lost := parse(data, uint64(len(data)))
	if len(list) != 2 || lost != 42 || list[0] != (Sample{0x1234, 5, true}) || list[1] != (Sample{0x99, 6, false}) {
		t.Errorf("%+v, %d lost", list, lost)
	}
	if list, _ := parse(data, uint64(len(data)-1)); len(list) != 1 {
		t.Error("a record that is cut off is read")
	}
}

// A processor that this process keeps busy is seen to be busy with it, and with this kernel's system calls.
func TestSampler(t *testing.T) {
	world.NeedRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &before)
	s, err := Start(0)
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); {
		_, _ = unix.Getppid(), unix.Getpgrp()
	}
	all, err := s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := KernelSymbols()
	if err != nil {
		t.Fatal(err)
	}
	p := Count(all, symbols)
	if p.Samples < 100 || p.Groups[GroupUser] == 0 || len(p.Functions) == 0 {
		t.Errorf("%d samples, %v", p.Samples, p.Groups)
	}
}

// A counter counts: by the software clock, which every machine has; and instructions, or it says that it cannot.
func TestCounter(t *testing.T) {
	world.NeedRoot(t)
	c, err := count(0, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // the clock is what is counted
	if n, err := c.Stop(); err != nil || n < 20e6 {
		t.Errorf("%d ns of the clock, %v", n, err)
	}
	ran := false
	n, err := Instructions(0, func() error { ran = true; return nil })
	if _, can := CountInstructions(0); err != nil || !ran || can == nil && n == 0 {
		t.Errorf("%d instructions, %v", n, err)
	}
}
