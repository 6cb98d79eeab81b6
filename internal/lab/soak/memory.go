// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// Sample is the gate's memory at one moment.
type Sample struct {
	At   float64 `json:"at_s"`
	PID  int     `json:"pid"` // of the daemon
	RSS  uint64  `json:"rss_bytes"`
	Maps uint64  `json:"bpf_map_bytes"` // as the kernel accounts them
}

// sampleEvery is the time between two samples.
const sampleEvery = 500 * time.Millisecond

// watch samples until ctx ends. A moment without a daemon, or in the midst of a start, has no sample.
func watch(ctx context.Context, instance string, pid *atomic.Int64, begin time.Time, progress func(string, ...any)) (all []Sample) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
		}
		s := Sample{At: load.Round3(time.Since(begin).Seconds()), PID: int(pid.Load())}
		var errRSS, errMaps error
		s.RSS, errRSS = residentBytes(s.PID)
		s.Maps, errMaps = mapBytes(instance)
		if errRSS != nil || errMaps != nil || int(pid.Load()) != s.PID {
			continue
		}
		all = append(all, s)
		if i%20 == 0 {
			progress("%4.0f s: %.1f MiB resident, %.1f MiB of BPF maps", s.At, mib(s.RSS), mib(s.Maps))
		}
	}
}

// residentBytes is the resident memory of a process.
func residentBytes(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 || fields[1] == "0" { // a process that has ended and has not been waited for
		return 0, os.ErrProcessDone
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

func mapBytes(instance string) (uint64, error) {
	mounts := rig.BpfMounts()
	if len(mounts) == 0 {
		return 0, os.ErrNotExist
	}
	return plane.Footprint(mounts[0], instance)
}

// Memory compares the last daemon's first quarter with its last.
type Memory struct {
	Samples   int    `json:"samples"` // of the last daemon
	RSSFirst  uint64 `json:"rss_first_bytes"`
	RSSLast   uint64 `json:"rss_last_bytes"`
	RSSMost   uint64 `json:"rss_most_bytes"`
	MapsFirst uint64 `json:"bpf_map_first_bytes"`
	MapsLast  uint64 `json:"bpf_map_last_bytes"`
	MapsMost  uint64 `json:"bpf_map_most_bytes"`
}

func (m Memory) String() string {
	return fmt.Sprintf("daemon %.1f MiB, at the end %.1f, at most %.1f; BPF maps %.1f MiB, at the end %.1f, at most %.1f (%d samples of the last daemon)",
		mib(m.RSSFirst), mib(m.RSSLast), mib(m.RSSMost), mib(m.MapsFirst), mib(m.MapsLast), mib(m.MapsMost), m.Samples)
}

const (
	// fewest samples of one daemon from which growth can be told from noise
	fewest = 8
	// A Go heap varies by a few MiB. The BPF maps of role host are allocated whole when they are made.
	rssGrowth, rssSlack   = 1.10, 8 << 20
	mapsGrowth, mapsSlack = 1.01, 256 << 10
)

// judgeMemory compares the beginning of the last daemon's life with its end, and says what grew.
func judgeMemory(all []Sample) (m Memory, grew []string) {
	if len(all) == 0 {
		return m, []string{"no sample of the gate's memory could be taken"}
	}
	last := all[len(all)-1].PID
	all = slices.DeleteFunc(slices.Clone(all), func(s Sample) bool { return s.PID != last })
	m.Samples = len(all)
	quarter := max(1, len(all)/4)
	rss, maps := func(s Sample) uint64 { return s.RSS }, func(s Sample) uint64 { return s.Maps }
	m.RSSFirst, m.RSSLast, m.RSSMost = median(all[:quarter], rss), median(all[len(all)-quarter:], rss), most(all, rss)
	m.MapsFirst, m.MapsLast, m.MapsMost = median(all[:quarter], maps), median(all[len(all)-quarter:], maps), most(all, maps)
	if len(all) < fewest {
		return m, []string{fmt.Sprintf("the last daemon has only %d samples of its memory, too few to judge: a run must last longer", len(all))}
	}
	if float64(m.RSSLast) > rssGrowth*float64(m.RSSFirst)+rssSlack {
		grew = append(grew, fmt.Sprintf("the daemon's memory grew from %.1f to %.1f MiB", mib(m.RSSFirst), mib(m.RSSLast)))
	}
	if float64(m.MapsLast) > mapsGrowth*float64(m.MapsFirst)+mapsSlack {
		grew = append(grew, fmt.Sprintf("the BPF maps grew from %.1f to %.1f MiB", mib(m.MapsFirst), mib(m.MapsLast)))
	}
	return m, grew
}

func median(of []Sample, v func(Sample) uint64) uint64 {
	all := make([]uint64, 0, len(of))
	for _, s := range of {
		all = append(all, v(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func most(of []Sample, v func(Sample) uint64) (top uint64) {
	for _, s := range of {
		top = max(top, v(s))
	}
	return top
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
