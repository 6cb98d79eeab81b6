// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	perSecond = 4000
	ringPages = 512 // 2 MiB hold 20 s
)

// Sampler samples one processor, from Start to Stop.
type Sampler struct {
	fd    int
	mem   []byte
	begun time.Time
}

// Start begins to sample a processor: all processes, the kernel and its idle loop.
func Start(cpu int) (s *Sampler, err error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: perSecond, Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID, Bits: unix.PerfBitFreq}
	s = &Sampler{}
	if s.fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("perf_event_open on processor %d: %w; needs root, and a kernel with perf events", cpu, err)
	}
	if s.mem, err = unix.Mmap(s.fd, 0, (1+ringPages)*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("ring of samples: %w", err), unix.Close(s.fd))
	}
	s.begun = time.Now()
	return s, nil
}

// Sample is what the processor did at one moment.
type Sample struct {
	IP     uint64
	PID    uint32 // 0: the idle loop
	Kernel bool
}

// Samples are what a Sampler has seen.
type Samples struct {
	List []Sample
	Lost uint64        // found no room
	Over time.Duration // from Start to Stop
}

// Stop ends sampling.
func (s *Sampler) Stop() (all Samples, err error) {
	all.Over = time.Since(s.begun)
	err = unix.IoctlSetInt(s.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&s.mem[0]))
	head := atomic.LoadUint64(&page.Data_head)
	data := s.mem[unix.Getpagesize():]
	all.List, all.Lost = parse(data, min(head, uint64(len(data))))
	return all, errors.Join(err, unix.Munmap(s.mem), unix.Close(s.fd))
}

// recordHeader is the length of struct perf_event_header.
const recordHeader = 8

// parse reads records: type, how the processor ran, length; of a sample, address and process.
func parse(data []byte, end uint64) (list []Sample, lost uint64) {
	for at := uint64(0); at+recordHeader <= end; {
		b := data[at:end]
		size := uint64(binary.NativeEndian.Uint16(b[6:]))
		if size < recordHeader || at+size > end {
			break
		}
		switch body := b[recordHeader:size]; binary.NativeEndian.Uint32(b) {
		case unix.PERF_RECORD_SAMPLE:
			if len(body) >= 16 {
				mode := binary.NativeEndian.Uint16(b[4:]) & unix.PERF_RECORD_MISC_CPUMODE_MASK
				list = append(list, Sample{binary.NativeEndian.Uint64(body), binary.NativeEndian.Uint32(body[8:]), mode == unix.PERF_RECORD_MISC_KERNEL})
			}
		case unix.PERF_RECORD_LOST:
			if len(body) >= 16 {
				lost += binary.NativeEndian.Uint64(body[8:])
			}
		}
		at += size
	}
	return list, lost
}
