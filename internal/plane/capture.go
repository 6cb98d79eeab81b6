// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"tidegate/internal/plane/capturebpf"
	"tidegate/internal/proginfo"
	"tidegate/internal/schema"
)

// A capture wraps the installed programs in bpf/capture.bpf.c for as long as it lasts: the same instructions on the same
// maps, called by a program that compares counters before and after. Links change programs in one step. Without a capture,
// none of this is in the packet path.

// CaptureVerdicts are the verdicts of captured packets, by number: enum tg_capture_verdict.
var CaptureVerdicts = []string{"pass", "drop", "tx", "redirect", "hold"}

// captureHooks are the names of enum tg_capture_hook.
var captureHooks = []string{"xdp", "tc ingress", "tc egress", "dpdk"}

// CaptureOptions say what is captured.
type CaptureOptions struct {
	BPFFS, Instance string
	Role            string
	Smart           bool // an edge's layout is smartcookie

	Reasons  []schema.Counter // one of which a packet must have moved; none: any
	Verdicts []string         // of CaptureVerdicts; none: any
	Net      netip.Prefix     // a packet must have incremented one of them; none: any
	Port     uint16           // source or destination; 0: any
	Sample   uint32           // one packet in this many is examined
	Count    int              // maximum number of packets
}

// Captured is a packet and the decision about it.
type Captured struct {
	Time    time.Time
	Ifindex uint32 // under DPDK, the port's number
	Hook    string // xdp, tc ingress, tc egress, dpdk
	Verdict string
	Service uint32 // its number; 0: none
	Adopter bool   // the number is the adopter's beside a translating server
	Reasons []schema.Counter
	More    int // reasons that were not listed
	Len     int // of the frame
	Frame   []byte
	Bare    bool // the packet begins with its IP header
	Again   bool // the gate has seen it before
}

// captureLease is how long the packet path goes on capturing after its daemon last renewed the lease.
const captureLease = 5 * time.Second

// captureName is the name that the kernel shows of programs with a capture.
const captureName = "tg_capture"

// Capture is a capture under way.
type Capture struct {
	hooks    []*captureHook
	own      map[string]*ebpf.Map
	leases   []*ebpf.Map // tg_capture, by part
	with     map[captureOf]*ebpf.Program
	ring     *ringbuf.Reader
	settings capturebpf.CaptureTgCaptureSettings
	wall     time.Duration // offset from the events' clock to the wall clock
}

// captureOf identifies a wrapped program: one for all interfaces.
type captureOf struct{ dir, kind, gate string }

// captureHook is a pinned link that runs a wrapped program during the capture.
type captureHook struct {
	link hook
	path string
	gate *ebpf.Program // what it ran
	with *ebpf.Program // Capture.with
}

// StartCapture starts a capture. Stop ends it.
func StartCapture(o CaptureOptions) (c *Capture, err error) {
	c = &Capture{own: map[string]*ebpf.Map{}, with: map[captureOf]*ebpf.Program{}}
	c.settings = o.settings()
	c.wall = captureWall()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
			c = nil
		}
	}()
	if err = c.makeMaps(o.Count); err != nil {
		return c, explain(err)
	}
	dir := PinDir(o.BPFFS, o.Instance)
	for part, dir := range captureDirs(dir) {
		(&attachments{dir: dir}).eachPin(func(path, kind, name string) {
			if err == nil {
				if err = c.prepare(o, part, path, kind); err != nil {
					err = fmt.Errorf("%s on %s: %w", kind, name, err)
				}
			}
		})
	}
	if err != nil {
		return c, err
	}
	if len(c.hooks) == 0 {
		return c, fmt.Errorf("instance %q has no program in the kernel", o.Instance)
	}
	if err = c.Renew(); err != nil {
		return c, err
	}
	for _, h := range c.hooks {
		if err = h.run(h.with); err != nil {
			return c, fmt.Errorf("%s: %w", filepath.Base(h.path), err)
		}
	}
	return c, nil
}

// captureDirs are an instance's pin directories: its own, and the adopter's of a translating server.
func captureDirs(dir string) []string { return []string{dir, filepath.Join(dir, "adopt")} }

// settings are those of the packet path, without a lease.
func (o *CaptureOptions) settings() (s capturebpf.CaptureTgCaptureSettings) {
	s.Sample = max(o.Sample, 1)
	s.PortBe = swapBytes(o.Port)
	if o.Net.IsValid() {
		net := o.Net.Masked()
		s.NetFamily, s.NetLen = 6, uint8(net.Bits())
		addr := net.Addr().As16()
		if net.Addr().Is4() {
			v4 := net.Addr().As4()
			s.NetFamily, addr = 4, [16]byte{}
			copy(addr[:], v4[:])
		}
		for i := range s.Net.D {
			s.Net.D[i] = binary.NativeEndian.Uint64(addr[8*i:])
		}
	}
	for _, r := range o.Reasons {
		s.Reasons[r/64] |= 1 << (r % 64)
	}
	if len(o.Reasons) == 0 {
		s.AnyReason = 1
	}
	for _, v := range o.Verdicts {
		for i, known := range CaptureVerdicts {
			if v == known {
				s.Verdicts |= 1 << i
			}
		}
	}
	if len(o.Verdicts) == 0 {
		s.Verdicts = ^uint32(0)
	}
	return s
}

// captureWall is the offset from the events' clock to the wall clock.
func captureWall() time.Duration {
	return time.Duration(WallMinusMonoNs(time.Now()))
}

func swapBytes(port uint16) uint16 { return port<<8 | port>>8 }

// makeMaps creates the capture's own maps.
func (c *Capture) makeMaps(count int) error {
	spec, err := named(capturebpf.LoadCapture)()
	if err != nil {
		return err
	}
	for _, name := range []string{capturebpf.CaptureMapTgCaptureTally, capturebpf.CaptureMapTgCaptureRoom,
		capturebpf.CaptureMapTgCaptureRing} {
		if c.own[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	for range captureDirs("") {
		lease, err := ebpf.NewMap(spec.Maps[capturebpf.CaptureMapTgCapture])
		if err != nil {
			return fmt.Errorf("map %s: %w", capturebpf.CaptureMapTgCapture, err)
		}
		c.leases = append(c.leases, lease)
	}
	if err = c.own[capturebpf.CaptureMapTgCaptureTally].Put(uint32(0), capturebpf.CaptureTgCaptureCounts{Left: int64(count)}); err != nil {
		return err
	}
	c.ring, err = ringbuf.NewReader(c.own[capturebpf.CaptureMapTgCaptureRing])
	return err
}

// run changes the program of a link in one step, and the pin by which a later process opens it.
func (h *captureHook) run(prog *ebpf.Program) error {
	if err := h.link.Update(prog); err != nil {
		return err
	}
	if _, filter := h.link.(*filterHook); filter {
		return nil // its pin is the program's
	}
	return pinInPlace(prog, programPin(h.path))
}

// Renew extends the packet path's lease; call it every second.
func (c *Capture) Renew() error {
	c.settings.UntilNs = uint64(MonotonicNs() + int64(captureLease))
	for part, lease := range c.leases {
		c.settings.Part = uint32(part)
		if err := lease.Put(uint32(0), c.settings); err != nil {
			return err
		}
	}
	return nil
}

// Read waits for the next packet until a deadline; os.ErrDeadlineExceeded if none came.
func (c *Capture) Read(until time.Time) (p Captured, err error) {
	c.ring.SetDeadline(until)
	rec, err := c.ring.Read()
	if err != nil {
		return p, err
	}
	return capturedOf(rec.RawSample, c.wall)
}

// capturedOf reads struct tg_capture_event.
func capturedOf(raw []byte, wall time.Duration) (p Captured, err error) {
	var e capturebpf.CaptureTgCaptureEvent
	if err := binary.Read(bytes.NewReader(raw), binary.NativeEndian, &e); err != nil {
		return p, err
	}
	p = Captured{Time: time.Unix(0, int64(e.TimeNs)).Add(wall), Ifindex: e.Ifindex, Service: e.Service, Adopter: e.Part != 0, Len: int(e.Len),
		Frame: e.Frame[:min(int(e.Kept), len(e.Frame))], Bare: e.Bare != 0, Again: e.Requeued != 0, Hook: captureHooks[int(e.Hook)%len(captureHooks)],
		Verdict: CaptureVerdicts[int(e.Verdict)%len(CaptureVerdicts)], More: max(0, int(e.Reasons)-len(e.Reason))}
	for _, r := range e.Reason[:min(int(e.Reasons), len(e.Reason))] {
		p.Reasons = append(p.Reasons, schema.Counter(r))
	}
	return p, nil
}

// Missed returns how many packets found no room in the ring, and how many were beyond their CPU's budget and not examined.
func (c *Capture) Missed() (lost, beyond uint64) {
	var t capturebpf.CaptureTgCaptureCounts
	if c.own[capturebpf.CaptureMapTgCaptureTally].Lookup(uint32(0), &t) != nil {
		return 0, 0
	}
	return t.Lost, t.Beyond
}

// Stop restores the programs that were installed.
func (c *Capture) Stop() error {
	var errs []error
	for _, h := range c.hooks {
		if h.gate != nil && h.with != nil {
			if err := h.back(); err != nil {
				errs = append(errs, fmt.Errorf("%s: the program before the capture: %w; restart the instance", filepath.Base(h.path), err))
			}
		}
		if h.gate != nil {
			h.gate.Close()
		}
		h.link.Close()
	}
	c.hooks = nil
	for _, prog := range c.with {
		prog.Close()
	}
	if c.ring != nil {
		c.ring.Close()
		c.ring = nil
	}
	for _, m := range c.own {
		m.Close()
	}
	for _, m := range c.leases {
		m.Close()
	}
	return errors.Join(errs...)
}

// back restores a link's program, if the link runs the capture's: it may have been taken down, or not changed yet.
func (h *captureHook) back() error {
	ours, err := proginfo.ID(h.with)
	if err != nil {
		return err
	}
	runs, err := h.link.program()
	if err != nil || runs != ours {
		return nil
	}
	if _, err := os.Stat(h.path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return h.run(h.gate)
}

// Capturing names the links of an instance that run programs with a capture, for `status`.
func Capturing(bpffs, instance string) (hooks []string) {
	dir := PinDir(bpffs, instance)
	for _, dir := range captureDirs(dir) {
		(&attachments{dir: dir}).eachPin(func(path, kind, name string) {
			l, err := openHook(path)
			if err != nil {
				return
			}
			defer l.Close()
			prog, err := programOf(l, path)
			if err != nil {
				return
			}
			defer prog.Close()
			if is, err := proginfo.Name(prog); err == nil && strings.HasPrefix(is, captureName) {
				hooks = append(hooks, kind+" "+name)
			}
		})
	}
	return hooks
}
