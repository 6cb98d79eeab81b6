// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bufio"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/proxybpf"
)

// The IPv4 whitelist as a bitmap, core/white_bitmap.h: two bits a prefix, of which a
// sweep takes one at each visit. The sweep processes a few pages each second,
// so that it completes a round in a swap period; it stops no packet, and an empty
// page costs it one bit of a summary.

const (
	whitePageWords = 512 // 64-bit words of 32 prefixes
	whiteAgedMask  = 0x5555_5555_5555_5555
)

type whiteBits struct {
	bits, marks []uint64 // shared with the packet path
	raw         [][]byte
	next        int     // page
	owed        float64 // pages
}

func whiteWords(prefixLen int) uint32 { return uint32(max(uint64(1)<<prefixLen/32, 1)) }

func whiteMarks(words uint32) uint32 { return max(words/whitePageWords/64, 1) }

// memoryFor refuses a bitmap that does not fit this machine's memory, before the kernel
// takes the memory from other processes.
func memoryFor(size uint64) error {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil // then the kernel will say
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib uint64
		if strings.HasPrefix(s.Text(), "MemAvailable:") {
			if _, err := fmt.Sscanf(s.Text(), "MemAvailable: %d kB", &kib); err == nil && kib<<10 < size+size/8 {
				return fmt.Errorf("whitelist_v4: bitmap needs %d MiB of memory and %d MiB are free; use whitelist_v4: hash, or a shorter source_prefix_v4",
					size>>20, kib>>10)
			}
		}
	}
	return nil
}

func mapWhite(cells, marks *ebpf.Map) (*whiteBits, error) {
	w := &whiteBits{}
	for _, v := range []struct {
		m  *ebpf.Map
		to *[]uint64
	}{{cells, &w.bits}, {marks, &w.marks}} {
		n := int(v.m.MaxEntries())
		raw, err := unix.Mmap(v.m.FD(), 0, n*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("whitelist bitmap: map it: %w", err)
		}
		w.raw = append(w.raw, raw)
		*v.to = unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), n)
	}
	return w, nil
}

// WhiteBitsUsage is the use of the bitmap of an instance that runs: Room is its prefixes, each of which takes two bits.
func WhiteBitsUsage(bpffs, instance string) (u Usage, err error) {
	var maps [2]*ebpf.Map
	for i, name := range []string{proxybpf.ProxyXdpMapTgWhiteBits, proxybpf.ProxyXdpMapTgWhiteMarks} {
		if maps[i], err = ebpf.LoadPinnedMap(filepath.Join(PinDir(bpffs, instance), name), nil); err != nil {
			return u, fmt.Errorf("table %s: %w", name, err)
		}
		defer maps[i].Close()
	}
	if u.Bytes, err = mapFootprint(maps[0]); err != nil {
		return u, err
	}
	w, err := mapWhite(maps[0], maps[1])
	if err != nil {
		return u, err
	}
	defer w.close()
	u.KeyBytes, u.Room, u.Entries = int(maps[0].KeySize()), 32*len(w.bits), w.count()
	return u, nil
}

// count returns how many prefixes are on the list; it reads only pages that have any.
func (w *whiteBits) count() (n int) {
	for page := range max(len(w.bits)/whitePageWords, 1) {
		if atomic.LoadUint64(&w.marks[page/64])&(1<<(page%64)) == 0 {
			continue
		}
		first := page * whitePageWords
		for i := first; i < min(first+whitePageWords, len(w.bits)); i++ {
			v := atomic.LoadUint64(&w.bits[i])
			n += bits.OnesCount64((v | v>>1) & whiteAgedMask)
		}
	}
	return n
}

func (w *whiteBits) close() {
	for _, raw := range w.raw {
		_ = unix.Munmap(raw)
	}
	w.raw = nil
}

// SweepSources ages the share of the bitmap due in this time, at one round per
// period. Without a bitmap it does nothing.
func (p *Proxy) SweepSources(while, period time.Duration) {
	if p.white != nil {
		p.white.sweep(while, period)
	}
}

func (w *whiteBits) sweep(while, period time.Duration) {
	pages := max(len(w.bits)/whitePageWords, 1)
	w.owed += float64(pages) * while.Seconds() / period.Seconds()
	for n := min(int(w.owed), pages); n > 0; n-- {
		w.owed--
		w.sweepPage(w.next)
		w.next = (w.next + 1) % pages
	}
	w.owed = min(w.owed, float64(pages))
}

// sweepPage clears the mark first, so that a source added meanwhile sets it again.
func (w *whiteBits) sweepPage(page int) {
	mark, bit := &w.marks[page/64], uint64(1)<<(page%64)
	if atomic.LoadUint64(mark)&bit == 0 {
		return
	}
	atomic.AndUint64(mark, ^bit)
	left := false
	first := page * whitePageWords
	for i := first; i < min(first+whitePageWords, len(w.bits)); i++ {
		for {
			was := atomic.LoadUint64(&w.bits[i])
			is := was >> 1 & whiteAgedMask
			if was == 0 || atomic.CompareAndSwapUint64(&w.bits[i], was, is) {
				left = left || is != 0
				break
			}
		}
	}
	if left {
		atomic.OrUint64(mark, bit)
	}
}
