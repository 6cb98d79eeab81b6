// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// ClientConfig is what the client child reads on its standard input.
type ClientConfig struct {
	Target   netip.AddrPort
	Sources  []netip.Addr
	Rate     float64 // requests per second, all clients together
	Requests int
	Timeout  time.Duration
	// ClientCloses: the client closes first, after the whole response. Otherwise
	// the request says Connection: close and the server does.
	ClientCloses bool
	// Retries is how often a request is retried whose connection was reset
	// before a byte of the response came, as browsers do.
	Retries int
	// Urgent: the clients run before other processes on their processor.
	Urgent bool
	// KeepConnect: the result holds the connect time of every established connection.
	KeepConnect bool
}

// ClientResult is what the client child prints.
type ClientResult struct {
	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Retried  int            `json:"retried"`
	Errors   map[string]int `json:"errors"`
	Connect  Quantiles      `json:"connect_ms"`
	Latency  Quantiles      `json:"latency_ms"`
	LagMax   float64        `json:"start_lag_max_ms"` // largest delay of the client itself
	Elapsed  float64        `json:"elapsed_s"`
	Times    []float64      `json:"connect_times_ms,omitempty"`
}

type connState uint8

const (
	stConnecting connState = iota
	stReading
	stDraining // response complete, waiting for the server's FIN
	stDone
)

// conn is one request: one connection.
type conn struct {
	fd        int
	state     connState
	sched     time.Duration // when it was due; all times count from here
	connected bool
	resp      response
	src       netip.Addr
	tries     int // retries so far
}

// requests is an open-loop generator: request i is due at i/rate whatever happened to
// the ones before it, so a stalled server is charged for all the clients it delays
// (no coordinated omission).
type requests struct {
	cfg      ClientConfig
	epfd     int
	request  []byte
	begin    time.Time
	byFD     []*conn
	deadline []*conn // in the order they were due, which is the order of their deadlines
	next     int
	finished int
	buf      []byte

	ok, retried      int
	errs             map[string]int
	lagMax           time.Duration
	connect, latency *hdrhistogram.Histogram
	times            []float64
}

// startBurst bounds how many connections open before events are handled.
const startBurst = 32

// runClient makes cfg.Requests requests and returns when each has ended.
func runClient(cfg ClientConfig) (*ClientResult, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(epfd)
	l := &requests{
		cfg: cfg, epfd: epfd, buf: make([]byte, 64<<10), errs: map[string]int{},
		connect: newTimes(), latency: newTimes(), begin: time.Now(),
	}
	connection := "close"
	if cfg.ClientCloses {
		connection = "keep-alive"
	}
	l.request = fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: lab\r\nConnection: %s\r\n\r\n", connection)
	for l.finished < cfg.Requests {
		l.startDue()
		l.expire()
		if err := l.poll(); err != nil {
			return nil, err
		}
	}
	return &ClientResult{
		Requests: cfg.Requests, OK: l.ok, Retried: l.retried, Errors: l.errs,
		Connect: quantiles(l.connect), Latency: quantiles(l.latency),
		LagMax: Round3(l.lagMax.Seconds() * 1e3), Elapsed: Round3(time.Since(l.begin).Seconds()),
		Times: l.times,
	}, nil
}

func (l *requests) now() time.Duration { return time.Since(l.begin) }

func (l *requests) due(i int) time.Duration {
	return time.Duration(float64(i) / l.cfg.Rate * float64(time.Second))
}

func (l *requests) startDue() {
	for range startBurst {
		if l.next >= l.cfg.Requests {
			return
		}
		sched, now := l.due(l.next), l.now()
		if sched > now {
			return
		}
		l.lagMax = max(l.lagMax, now-sched)
		l.open(&conn{sched: sched, src: l.cfg.Sources[l.next%len(l.cfg.Sources)]})
		l.next++
	}
}

// open starts a request's connection from its source address.
func (l *requests) open(c *conn) {
	src := c.src
	c.fd = -1
	fd, err := tcpSocket(src.Is6(), unix.SOCK_NONBLOCK)
	if err != nil {
		l.fail(c, ErrorName(err))
		return
	}
	c.fd = fd
	for len(l.byFD) <= fd {
		l.byFD = append(l.byFD, nil)
	}
	l.byFD[fd] = c
	// The port is chosen at connect, per 4-tuple.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if err := syscall.Bind(fd, sockaddr(netip.AddrPortFrom(src, 0))); err != nil {
		l.fail(c, ErrorName(err))
		return
	}
	if err := syscall.Connect(fd, sockaddr(l.cfg.Target)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		l.fail(c, ErrorName(err))
		return
	}
	ev := syscall.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd)}
	if err := syscall.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		l.fail(c, ErrorName(err))
		return
	}
	if c.tries == 0 { // a retried request is in the list already
		l.deadline = append(l.deadline, c)
	}
}

// retry retries a request that was reset before it got an answer. Its time still
// counts from when it was due.
func (l *requests) retry(c *conn, kind string) bool {
	if kind != "reset" && kind != "EPIPE" || c.tries >= l.cfg.Retries || c.resp.begun() || c.fd < 0 {
		return false
	}
	l.byFD[c.fd] = nil
	_ = syscall.Close(c.fd)
	c.state, c.tries = stConnecting, c.tries+1
	l.retried++
	l.open(c)
	return true
}

// expire ends requests whose time is up, counted from when they were due.
func (l *requests) expire() {
	now := l.now()
	for len(l.deadline) > 0 {
		c := l.deadline[0]
		if c.state != stDone {
			if c.sched+l.cfg.Timeout > now {
				return
			}
			l.timeout(c)
		}
		l.deadline = l.deadline[1:]
	}
}

func (l *requests) timeout(c *conn) {
	switch c.state {
	case stConnecting:
		l.fail(c, "connect_timeout")
	case stReading:
		l.fail(c, "response_timeout")
	default: // the response is complete and counted; the close is late
		l.errs["close_timeout"]++
		l.end(c)
	}
}

// poll waits for events until the next start or deadline, then handles them.
func (l *requests) poll() error {
	wait := time.Second
	now := l.now()
	if l.next < l.cfg.Requests {
		wait = min(wait, l.due(l.next)-now)
	}
	if len(l.deadline) > 0 {
		wait = min(wait, l.deadline[0].sched+l.cfg.Timeout-now)
	}
	var events [128]syscall.EpollEvent
	ts := unix.NsecToTimespec(int64(max(wait, 0)))
	// epoll_pwait2 (Linux 5.11) has nanoseconds; epoll_wait would round starts to milliseconds.
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == unix.EINTR {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("epoll_pwait2: %w", errno)
	}
	for _, ev := range events[:n] {
		if c := l.byFD[ev.Fd]; c != nil {
			l.advance(c, ev.Events)
		}
	}
	return nil
}

// advance handles a connection's events.
func (l *requests) advance(c *conn, events uint32) {
	if c.state == stConnecting {
		if errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && errno != 0 {
			l.fail(c, ErrorName(unix.Errno(errno)))
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		if !c.connected {
			c.connected = true
			recordTime(l.connect, l.now()-c.sched)
			if l.cfg.KeepConnect {
				l.times = append(l.times, Round3((l.now()-c.sched).Seconds()*1e3))
			}
		}
		if _, err := syscall.Write(c.fd, l.request); err != nil {
			l.fail(c, ErrorName(err))
			return
		}
		c.state = stReading
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.read(c)
	}
}

// read reads until EAGAIN; the registration is edge-triggered.
func (l *requests) read(c *conn) {
	for {
		n, err := syscall.Read(c.fd, l.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && c.state == stDraining:
			l.errs["close_"+ErrorName(err)]++
			l.end(c)
			return
		case err != nil:
			l.fail(c, ErrorName(err))
			return
		case n == 0 && c.state == stDraining:
			l.end(c)
			return
		case n == 0:
			l.fail(c, "short_response")
			return
		}
		if c.state == stDraining {
			continue
		}
		complete, err := c.resp.add(l.buf[:n])
		if err != nil {
			l.fail(c, "bad_response")
			return
		}
		if complete {
			l.ok++
			recordTime(l.latency, l.now()-c.sched)
			if l.cfg.ClientCloses {
				l.end(c)
				return
			}
			c.state = stDraining
		}
	}
}

// fail counts a failed request. It is charged the whole timeout:
// it took at least that long, and leaving it out would flatter the quantiles.
func (l *requests) fail(c *conn, kind string) {
	if l.retry(c, kind) {
		return
	}
	l.errs[kind]++
	charged := max(l.cfg.Timeout, l.now()-c.sched)
	recordTime(l.latency, charged)
	if !c.connected {
		recordTime(l.connect, charged)
	}
	l.end(c)
}

func (l *requests) end(c *conn) {
	if c.fd >= 0 {
		l.byFD[c.fd] = nil
		_ = syscall.Close(c.fd)
	}
	c.state = stDone
	l.finished++
}

// ErrorName turns an error into the key it is counted under.
func ErrorName(err error) string {
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.Is(err, unix.ECONNRESET):
		return "reset"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "no_free_port"
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return "error"
}
