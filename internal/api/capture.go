// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/status"
	"tidegate/internal/version"
)

// CaptureNumber is a header of an answer to /v1/capture: what DELETE /v1/capture/NUMBER ends.
const CaptureNumber = "Tidegate-Capture"

// Trailers of an answer to /v1/capture: how many packets it has, how many were lost because its reader was too slow, how many were not
// looked at because there were too many, and what ended it early.
const (
	CaptureCount  = "Tidegate-Captured"
	CaptureLost   = "Tidegate-Lost"
	CaptureBeyond = "Tidegate-Beyond"
	CaptureError  = "Tidegate-Error"
)

// Bounds of a capture.
const (
	CaptureCountMax    = 1_000_000
	CaptureDurationMax = time.Hour

	captureCount    = 1000
	captureDuration = time.Minute
	captureRenew    = time.Second
	captureFlush    = 200 * time.Millisecond
)

// captures holds the captures of an instance: one at a time.
type captures struct {
	one     sync.Mutex
	running sync.WaitGroup // so that the programs are restored before the daemon ends

	mu     sync.Mutex
	number uint64             // how many there have been
	end    context.CancelFunc // of the one under way
}

// begin counts a capture, which end will end.
func (c *captures) begin(end context.CancelFunc) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number, c.end = c.number+1, end
	return c.number
}

// endOf ends a capture. False if it is not under way.
func (c *captures) endOf(number string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil || number != strconv.FormatUint(c.number, 10) {
		return false
	}
	c.end()
	return true
}

func (c *captures) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = nil
}

// capturing is a capture under way, on any plane.
type capturing interface {
	Read(until time.Time) (plane.Captured, error) // os.ErrDeadlineExceeded if nothing came
	Renew() error
	Missed() (lost, beyond uint64)
	Stop() error
}

type peerKey struct{}

// keepPeer stores the user at the other end of a connection for its requests.
func keepPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, err := peerOf(c); err == nil {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// mayCapture refuses who may not: frames hold what users send, and cookies, which are passwords for a minute.
func mayCapture(w http.ResponseWriter, r *http.Request) bool {
	uid, known := r.Context().Value(peerKey{}).(uint32)
	if known && (uid == 0 || int(uid) == os.Geteuid()) {
		return true
	}
	refuse(w, http.StatusForbidden, errors.New("captures are for root and the daemon's own user: frames hold what users send; run it with sudo"))
	return false
}

// endCapture ends the capture of that number: its answer ends as if a bound had been reached.
func (s *Server) endCapture(w http.ResponseWriter, r *http.Request) {
	if !mayCapture(w, r) {
		return
	}
	number := r.PathValue("number")
	if !s.captures.endOf(number) {
		refuse(w, http.StatusConflict, fmt.Errorf("capture %q is not under way", number))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// capture writes packets with the reasons of what was decided about them, as pcapng, until one of the bounds is reached, somebody ends
// it, or the client goes.
func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	if !mayCapture(w, r) {
		return
	}
	o, duration, err := captureQuestion(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	read, err := s.reading()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	cfg := s.of.Config()
	st, ok := read.(*status.Status)
	if !ok || st.P4 != nil {
		refuse(w, http.StatusConflict, fmt.Errorf("captures are of packets that roles host, proxy, edge and server decide about on planes xdp and dpdk; instance %q is role %s%s",
			s.name, cfg.Role, onPlane(cfg)))
		return
	}
	if !s.captures.one.TryLock() {
		refuse(w, http.StatusConflict, errors.New("somebody captures already; wait, or end that capture"))
		return
	}
	defer s.captures.one.Unlock()
	s.captures.running.Add(1)
	defer s.captures.running.Done()
	c, err := s.startCapture(o, cfg, st.DPDK != nil)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	s.forget()
	defer s.forget()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/x-pcapng")
	w.Header().Set("Trailer", strings.Join([]string{CaptureCount, CaptureLost, CaptureBeyond, CaptureError}, ", "))
	ctx, cancel := context.WithTimeout(r.Context(), duration)
	defer cancel()
	w.Header().Set(CaptureNumber, strconv.FormatUint(s.captures.begin(cancel), 10))
	defer s.captures.over()
	n, err := s.stream(ctx, w, out, c, o.Count)
	lost, beyond := c.Missed()
	if r.Context().Err() != nil {
		err = nil // the client has gone
	}
	err = errors.Join(err, c.Stop())
	for name, v := range map[string]uint64{CaptureCount: uint64(n), CaptureLost: lost, CaptureBeyond: beyond} {
		w.Header().Set(name, strconv.FormatUint(v, 10))
	}
	if err != nil {
		s.log.Warn("capture", "error", err)
		w.Header().Set(CaptureError, err.Error())
	}
}

func (s *Server) startCapture(o plane.CaptureOptions, cfg *config.Config, userspace bool) (capturing, error) {
	if userspace {
		return dpdk.StartCapture(dpdk.SocketPath(s.opt.StateDir, s.name), o)
	}
	o.BPFFS, o.Instance, o.Role, o.Smart = s.opt.BPFFS, s.name, cfg.Role, cfg.Edge.Layout == config.LayoutSmartcookie
	return plane.StartCapture(o)
}

func onPlane(cfg *config.Config) string {
	if cfg.Plane == "" {
		return ""
	}
	return ", plane: " + string(cfg.Plane)
}

func captureQuestion(q url.Values) (o plane.CaptureOptions, duration time.Duration, err error) {
	known := []string{"reason", "net", "port", "sample", "count", "duration"}
	for name := range q {
		if !slices.Contains(known, name) {
			return o, 0, fmt.Errorf("parameter %q is not known; these are: %s", name, strings.Join(known, ", "))
		}
	}
	for _, reason := range q["reason"] {
		if slices.Contains(plane.CaptureVerdicts, reason) {
			o.Verdicts = append(o.Verdicts, reason)
			continue
		}
		n := 0
		for n < schema.NumCounters && schema.Counter(n).String() != reason {
			n++
		}
		if n == schema.NumCounters {
			return o, 0, fmt.Errorf("reason %q is neither a counter (docs/counters.md) nor one of %s", reason, strings.Join(plane.CaptureVerdicts, ", "))
		}
		o.Reasons = append(o.Reasons, schema.Counter(n))
	}
	if text := q.Get("net"); text != "" {
		if addr, e := netip.ParseAddr(text); e == nil {
			o.Net = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		} else if o.Net, err = netip.ParsePrefix(text); err != nil {
			return o, 0, fmt.Errorf("net %q: want ADDRESS or PREFIX", text)
		}
	}
	number := func(name string, otherwise, most uint64) uint64 {
		text := q.Get(name)
		if text == "" || err != nil {
			return otherwise
		}
		n, e := strconv.ParseUint(text, 10, 64)
		if e != nil || n < 1 || n > most {
			err = fmt.Errorf("%s %q: want a number from 1 to %d", name, text, most)
		}
		return n
	}
	o.Port = uint16(number("port", 0, math.MaxUint16))
	o.Sample = uint32(number("sample", 1, math.MaxUint32))
	o.Count = int(number("count", captureCount, CaptureCountMax))
	if err != nil {
		return o, 0, err
	}
	duration = captureDuration
	if text := q.Get("duration"); text != "" {
		if duration, err = time.ParseDuration(text); err != nil || duration <= 0 || duration > CaptureDurationMax {
			return o, 0, fmt.Errorf("duration %q: want 1ms to %s", text, CaptureDurationMax)
		}
	}
	return o, duration, nil
}

// stream writes what comes until ctx ends or count packets have come: also what had come by then and was not yet read.
func (s *Server) stream(ctx context.Context, w io.Writer, out *http.ResponseController, c capturing, count int) (n int, err error) {
	p, err := newPacketWriter(w, s)
	if err != nil {
		return 0, err
	}
	var flushed, ended time.Time
	renewed := time.Now()
	flush := func() error {
		flushed = time.Now()
		_ = out.SetWriteDeadline(flushed.Add(lineTime))
		return errors.Join(p.Flush(), out.Flush())
	}
	if err := flush(); err != nil { // tells the client that the capture runs
		return 0, err
	}
	for n < count {
		now := time.Now()
		if ctx.Err() != nil && ended.IsZero() {
			ended = now
		}
		if now.Sub(renewed) >= captureRenew {
			if err := c.Renew(); err != nil {
				return n, err
			}
			renewed = now
		}
		packet, err := c.Read(readUntil(now, ended))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !ended.IsZero():
			return n, flush()
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := flush(); err != nil {
				return n, err
			}
			continue
		case err != nil:
			return n, err
		case !ended.IsZero() && packet.Time.After(ended):
			return n, flush()
		}
		_ = out.SetWriteDeadline(now.Add(lineTime))
		if err := p.write(&packet); err != nil {
			return n, err
		}
		n++
		if now.Sub(flushed) >= captureFlush { // who looks on sees what comes slowly, too
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

// readUntil is how long the next packet is waited for: once the capture has ended, no longer than captureFlush after that.
func readUntil(now, ended time.Time) time.Time {
	if ended.IsZero() {
		return now.Add(captureFlush)
	}
	return ended.Add(captureFlush)
}

// packetWriter writes pcapng: an interface for each device and kind of link, the reasons as comments.
type packetWriter struct {
	*pcapgo.NgWriter
	interfaces map[packetInterface]int
	ports      []string                   // of DPDK, by number; none: the numbers are the kernel's
	services   map[bool]map[uint32]string // of the adopter, by number
}

type packetInterface struct {
	index uint32
	hook  string
	bare  bool
}

// The first interface of the file stands for none: pcapgo wants one before it knows any.
func newPacketWriter(w io.Writer, s *Server) (*packetWriter, error) {
	p := &packetWriter{interfaces: map[packetInterface]int{}, services: map[bool]map[uint32]string{false: {}, true: {}}}
	if cfg := s.of.Config(); cfg.Plane == config.PlaneDPDK {
		p.ports = cfg.Interfaces
	}
	if state, err := instance.ReadState(s.opt.StateDir, s.name); err == nil {
		for _, svc := range state.Services {
			for _, id := range append(svc.Parts, svc.ID) {
				p.services[false][id] = svc.Name
			}
			for _, id := range svc.Adopter {
				p.services[true][id] = svc.Name
			}
		}
	}
	var err error
	p.NgWriter, err = pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{Name: "tidegate", LinkType: layers.LinkTypeEthernet, TimestampResolution: 9},
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "tidegate " + version.Version,
			Comment: fmt.Sprintf("tidegate capture of instance %s; the comment of a packet says what was decided about it, and the counters that moved", s.name)}})
	return p, err
}

func (p *packetWriter) write(packet *plane.Captured) error {
	key := packetInterface{packet.Ifindex, packet.Hook, packet.Bare}
	at, known := p.interfaces[key]
	if !known {
		name := p.nameOf(packet.Ifindex)
		linkType := layers.LinkTypeEthernet
		if packet.Bare {
			linkType = layers.LinkTypeRaw
		}
		var err error
		if at, err = p.AddInterface(pcapgo.NgInterface{Name: name, Description: packet.Hook, LinkType: linkType, TimestampResolution: 9}); err != nil {
			return err
		}
		p.interfaces[key] = at
	}
	length := max(packet.Len, len(packet.Frame))
	return p.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: packet.Time, CaptureLength: len(packet.Frame), Length: length, InterfaceIndex: at},
		packet.Frame, pcapgo.NgPacketOptions{Comments: []string{p.comment(packet)}})
}

// nameOf is the interface's name, or its number.
func (p *packetWriter) nameOf(index uint32) string {
	if int(index) < len(p.ports) {
		return p.ports[index]
	}
	if p.ports == nil {
		if dev, err := net.InterfaceByIndex(int(index)); err == nil {
			return dev.Name
		}
	}
	return strconv.Itoa(int(index))
}

// comment: "drop: drop_malformed; service web; xdp".
func (p *packetWriter) comment(packet *plane.Captured) string {
	text := packet.Verdict
	for i, r := range packet.Reasons {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + r.String()
	}
	if packet.More > 0 {
		text += fmt.Sprintf(" and %d more", packet.More)
	}
	if name := p.services[packet.Adopter][packet.Service]; name != "" {
		text += "; service " + name
	}
	if packet.Again {
		text += "; after a turn at the end of the queue"
	}
	return text + "; " + packet.Hook
}
