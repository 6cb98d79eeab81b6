// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// What a defence in a box stores, read from outside while it works.

// BytesPerEntry is the memory of one entry, including its share of a full table's
// buckets.
func BytesPerEntry(u plane.Usage, empty uint64) float64 {
	if u.Entries == 0 || u.Bytes < empty {
		return 0
	}
	own := float64(u.Bytes-empty) / float64(u.Entries)
	if u.Room == 0 {
		return own
	}
	return own + float64(empty)/float64(u.Room)
}

// stateTables are the tables of bpf/lib/proxy_maps.h that hold a strategy's connections or sources.
func stateTables(strategy string, ipv6 bool) []string {
	if strings.HasPrefix(strategy, "auth-") {
		return []string{"tg_white", "tg_white6"}
	}
	if ipv6 {
		return []string{"tg_flows6"}
	}
	return []string{"tg_flows4"}
}

// Usage is how many connections or sources the tables hold, and in how many bytes; plane dpdk does not know the bytes.
func (d *Proxy) Usage() (plane.Usage, error) {
	if d.Env.Plane == rig.PlaneDPDK { // its tables are its own memory, allocated at the start
		st, err := dpdk.ReadState(dpdkPrefix + d.Instance)
		if config.Strategy(d.strategy).Translates() {
			return plane.Usage{Entries: st.Flows}, err
		}
		return plane.Usage{Entries: st.Sources}, err
	}
	mounts := rig.BpfMounts()
	if len(mounts) == 0 {
		return plane.Usage{}, os.ErrNotExist
	}
	if d.Env.Bitmap {
		return plane.WhiteBitsUsage(mounts[0], d.Instance)
	}
	return plane.OpenUsage(mounts[0], d.Instance, stateTables(d.strategy, d.Env.IPv6)...)
}

// State is Usage, or zero where that cannot be read, which the progress then says.
func (d *Proxy) State() plane.Usage {
	u, err := d.Usage()
	if err != nil {
		d.Env.Progress("%s: its state cannot be read: %v", d.Env.Name, err)
	}
	return u
}

// EmptyBytes is what the tables took before the first connection.
func (d *Proxy) EmptyBytes() uint64 { return d.Empty }

// State of SYNPROXY is the connection tracking entries of the box alone.
func (d *synproxy) State() (u plane.Usage) {
	if d.box == nil {
		return u
	}
	_ = d.box.Do(func() error {
		text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if err == nil {
			u.Entries, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		return err
	})
	u.Bytes = uint64(u.Entries) * slabObjectBytes("nf_conntrack")
	return u
}

func (d *synproxy) EmptyBytes() uint64 { return 0 }

// slabObjectBytes is the size of a slab cache's objects; 0 if it is unknown.
func slabObjectBytes(cache string) uint64 {
	text, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		// name, active, all, size of one
		if f := strings.Fields(line); len(f) > 3 && f[0] == cache {
			n, _ := strconv.ParseUint(f[3], 10, 64)
			return n
		}
	}
	return 0
}
