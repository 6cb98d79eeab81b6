// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"slices"
	"strings"
)

// Groups of functions, named as in *Me Love (SYN-)Cookies*, figure 2, and those that it has no name for.
const (
	GroupIdle   = "idle"
	GroupUser   = "processes"
	GroupBPF    = "BPF programs"
	GroupHash   = "hash"
	GroupMemory = "skb/mem"
	GroupLock   = "locking"
	GroupTCP    = "tcp"
	GroupIP     = "ip/inet"
	GroupDevice = "driver/dev"
	GroupOther  = "other kernel"
)

// Groups lists all, in the order of the figure.
func Groups() []string {
	return []string{GroupDevice, GroupIP, GroupTCP, GroupHash, GroupMemory, GroupLock, GroupBPF, GroupOther, GroupUser, GroupIdle}
}

// rules assign functions to groups by the beginning of their names, underscores left off; the first that fits
// counts. A name in a rule that begins with * may stand anywhere.
var rules = []struct {
	group string
	names []string
}{
	{GroupIdle, []string{"default_idle", "native_safe_halt", "pv_native_safe_halt", "cpuidle", "acpi_idle", "intel_idle", "mwait_idle", "poll_idle", "arch_cpu_idle", "do_idle", "acpi_safe_halt", "cpu_idle"}},
	{GroupBPF, []string{"bpf_prog_", "bpf_dispatcher", "bpf_trampoline"}},
	{GroupHash, []string{"siphash", "hsiphash", "sha1", "sha_transform", "sha_init", "cookie_hash", "secure_tcp", "secure_dccp", "*jhash"}},
	{GroupLock, []string{"raw_spin", "raw_callee_save___pv_queued", "raw_read", "raw_write", "native_queued", "pv_queued", "queued_", "mutex_", "rwsem", "down_", "up_", "rcu_", "local_bh", "lock_", "srcu_"}},
	{GroupMemory, []string{"kmem_", "kmalloc", "kfree", "kvfree", "skb_", "alloc_skb", "napi_alloc", "build_skb", "napi_build_skb", "pskb_", "consume_skb", "slab", "memcg_", "mem_cgroup", "mod_memcg", "obj_cgroup", "page_frag",
		"page_pool", "alloc_pages", "free_pages", "free_unref", "get_page", "put_page", "rmqueue", "memcpy", "memset", "memmove", "get_partial", "put_cpu", "refill_obj", "cache_", "kmem", "sock_wfree", "sock_rfree", "napi_skb", "netdev_alloc", "free_frozen",
		"alloc_frozen", "ksize", "get_from_any_partial", "unfreeze_", "check_heap_object", "zone_", "build_detached_freelist", "allocate_slab", "skbuff", "setup_object", "kmalloc_reserve", "refcount_", "discard_slab", "unaccount_slab", "account_slab"}},
	{GroupTCP, []string{"tcp_", "cookie_", "inet_csk", "inet_reqsk", "reqsk", "inet_lookup", "inet6_lookup", "inet_ehash", "inet_hash", "inet_twsk", "inet_bind", "sk_", "sock_", "mptcp", "bpf_skops"}},
	{GroupIP, []string{"ip_", "ip4_", "ip6_", "ipv4_", "ipv6_", "inet_", "inet6_", "fib_", "fib4_", "rt_", "dst_", "mkroute", "arp_", "neigh", "icmp", "nf_", "nft_", "raw_", "ipt_", "xfrm", "route", "l3mdev", "csum_partial", "find_exception", "fnhe", "security_"}},
	{GroupDevice, []string{"veth_", "netif_", "dev_", "net_", "napi_", "netdev", "gro_", "xdp_", "eth_", "sch_", "qdisc", "pfifo", "noop_", "inet_gro", "validate_xmit", "skb_xmit", "ptype", "enqueue_to", "process_backlog", "ixgbe", "virtnet",
		"virtio", "e1000", "ptr_ring", "generic_xdp", "do_xdp", "bpf_prog_run_generic", "packet_rcv", "tpacket", "deliver_skb", "tcx_", "tc_run", "sch_handle", "harmonize", "passthru"}},
}

// groupOf assigns a function of the kernel to a group.
func groupOf(name string) string {
	bare := strings.TrimLeft(name, "_")
	for _, r := range rules {
		if slices.ContainsFunc(r.names, func(n string) bool {
			if n[0] == '*' {
				return strings.Contains(bare, n[1:])
			}
			return strings.HasPrefix(bare, n)
		}) {
			return r.group
		}
	}
	return GroupOther
}

// Function is one row of a profile.
type Function struct {
	Name  string  `json:"name"`
	Group string  `json:"group"`
	Share float64 `json:"share"`
}

// Profile is what a processor did, as shares of all samples.
type Profile struct {
	Samples   int                `json:"samples"`
	Lost      uint64             `json:"lost"`
	Groups    map[string]float64 `json:"groups"`
	Functions []Function         `json:"functions"` // the most frequent ones of the kernel
}

// listed is how many functions a profile names.
const listed = 40

// Count makes a profile of samples. The clock does not tick in a processor that sleeps: the samples that are missing, of those that the
// time should have given, are idle time.
func Count(all Samples, symbols *Symbols) *Profile {
	p := &Profile{Samples: len(all.List), Lost: all.Lost, Groups: map[string]float64{}}
	seen := float64(len(all.List)) + float64(all.Lost)
	missing := max(0, perSecond*all.Over.Seconds()-seen)
	if float64(len(all.List))+missing == 0 {
		return p
	}
	one := 1 / (float64(len(all.List)) + missing)
	p.Groups[GroupIdle] = missing * one
	times := map[string]int{}
	for _, s := range all.List {
		switch {
		case !s.Kernel:
			p.Groups[GroupUser] += one
			continue
		case s.PID == 0:
			// An interrupt in the idle loop belongs to its own function, the loop itself to none.
			if name := symbols.Find(s.IP); groupOf(name) == GroupOther {
				p.Groups[GroupIdle] += one
				continue
			}
		}
		times[symbols.Find(s.IP)]++
	}
	for name, n := range times {
		f := Function{Name: name, Group: groupOf(name), Share: float64(n) * one}
		p.Groups[f.Group] += f.Share
		if f.Group != GroupIdle {
			p.Functions = append(p.Functions, f)
		}
	}
	slices.SortFunc(p.Functions, func(a, b Function) int {
		if a.Share != b.Share {
			return map[bool]int{true: -1, false: 1}[a.Share > b.Share]
		}
		return strings.Compare(a.Name, b.Name)
	})
	p.Functions = p.Functions[:min(listed, len(p.Functions))]
	return p
}

// OfWork is a group's share of the time that the processor was not idle.
func (p *Profile) OfWork(group string) float64 {
	busy := 1 - p.Groups[GroupIdle]
	if busy <= 0 {
		return 0
	}
	return p.Groups[group] / busy
}
