// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
)

// needsRoot skips where namespaces cannot be made; `test/run` counts that as a
// failure of the machine, not as a pass.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

// building is held while make runs: tests run at once, and share its folder.
var building sync.Mutex

func build(t *testing.T, kind Kind, c Config) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	source, err := FindSource()
	if err != nil {
		t.Fatal(err)
	}
	image, err := Build(t.Context(), source, kind, c, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// everyConfig is every policy with every layout that applies to it.
func everyConfig() []Config {
	all := []Config{{PolicyDrop, LayoutHybrid, 4}, {PolicyRecycle, LayoutHybrid, 16}}
	for _, p := range []string{PolicyCookies, PolicyCookiesAlways} {
		for _, l := range Layouts() {
			all = append(all, Config{p, l, 4})
		}
	}
	return all
}

// someConfigs has every policy, and every layout under one of the two that use cookies: a layout under `cookies`, its
// neighbour under `cookies-always`. `make soak` has all pairs, as lwip's own tests have.
func someConfigs() []Config {
	all := []Config{{PolicyDrop, LayoutHybrid, 4}, {PolicyRecycle, LayoutHybrid, 16}}
	for i, l := range Layouts() {
		all = append(all, Config{[]string{PolicyCookies, PolicyCookiesAlways}[i%2], l, 4})
	}
	return all
}

// checkLoad compares what clients got with what the policy promises.
func checkLoad(t *testing.T, c Config, l Load) {
	t.Helper()
	switch {
	case c.Policy == PolicyDrop && l.Success() >= 0.05:
		t.Errorf("%s served %d of %d: the flood did not bite", c, l.OK, l.Requests)
	case c.Policy == PolicyRecycle && l.Success() < 0.9:
		t.Errorf("%s served %d of %d: %v", c, l.OK, l.Requests, l.Errors)
	case c.Cookies() && l.OK != l.Requests:
		t.Errorf("%s served %d of %d: %v", c, l.OK, l.Requests, l.Errors)
	}
}

// Real Linux clients, IPv4 and IPv6, against lwIP on this machine behind a tap,
// sanitizers on, 200 SYN/s.
func TestLinuxClientsOnATap(t *testing.T) {
	needsRoot(t)
	images := map[Config]string{}
	configs := someConfigs()
	if os.Getenv("TIDEGATE_SOAK") != "" {
		configs = everyConfig()
	}
	for _, c := range configs {
		images[c] = build(t, Program, c)
	}
	// They mostly wait, so more run at once than there are processors; each
	// has a namespace of its own.
	slots := make(chan struct{}, 6)
	var all sync.WaitGroup
	for c, image := range images {
		for _, ipv6 := range []bool{false, true} {
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				l, err := MeasureLoad(t.Context(), Program, image, c, 200, 20, ipv6)
				if err != nil {
					t.Errorf("%s, IPv6 %t: %v", c, ipv6, err)
					return
				}
				checkLoad(t, c, l)
			})
		}
	}
	all.Wait()
}

// The firmware on the emulated board: cookies serve every client where dropping
// serves none.
func TestFirmwareUnderFlood(t *testing.T) {
	needsRoot(t)
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, c := range []Config{{PolicyDrop, LayoutHybrid, 8}, {PolicyCookies, LayoutHybrid, 8}, {PolicyCookiesAlways, LayoutTidegate, 8}} {
		image := build(t, Firmware, c)
		all.Go(func() { // three devices at once, which mostly wait: for clients and their timeouts
			for _, ipv6 := range []bool{false, true} {
				l, err := MeasureLoad(t.Context(), Firmware, image, c, 200, 40, ipv6)
				if err != nil {
					t.Errorf("%s, IPv6 %t: %v", c, ipv6, err)
					return
				}
				checkLoad(t, c, l)
			}
		})
	}
}

// A bulk transfer continues under attack; the device's clock paces both.
func TestThroughputOfTheFirmware(t *testing.T) {
	needsRoot(t)
	c := Config{PolicyCookiesAlways, LayoutHybrid, 8}
	image := build(t, Firmware, c)
	calm, err := MeasureThroughput(t.Context(), image, c, 0, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	attacked, err := MeasureThroughput(t.Context(), image, c, 200, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := plausible(&cell{Config: c, rate: 200}, attacked); err != nil {
		t.Error(err)
	}
	// 200 SYNs of some 3,000 instructions in 31 million: about 2 %.
	if loss := 1 - attacked.Mbps/calm.Mbps; loss < 0.005 || loss > 0.10 {
		t.Errorf("%.2f Mb/s without attack, %.2f with: a loss of %.1f %%", calm.Mbps, attacked.Mbps, 100*loss)
	}
}

func counts(t *testing.T, c Config) Counts {
	t.Helper()
	n, err := Count(t.Context(), build(t, Firmware, c), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Count(t.Context(), build(t, Firmware, c), c)
	if err != nil {
		t.Fatal(err)
	}
	if n != again {
		t.Errorf("%s: %+v, then %+v: the counts are not deterministic", c, n, again)
	}
	return n
}

// hybrid and freebsd cost at most half of linux with SHA-1 per SYN, including the whole
// path through lwIP.
func TestInstructionsByLayout(t *testing.T) {
	if len(missing(Firmware)) != 0 {
		needsRoot(t)
	}
	t.Parallel()
	sha1 := counts(t, Config{PolicyCookiesAlways, LayoutLinuxSHA1, 8})
	for _, l := range []string{LayoutHybrid, LayoutFreeBSD} {
		if n := counts(t, Config{PolicyCookiesAlways, l, 8}); 2*n.SYN > sha1.SYN {
			t.Errorf("%s: %d instructions per SYN, linux with SHA-1 %d", l, n.SYN, sha1.SYN)
		}
	}
}

// Recycling costs more the longer the queue; a cookie costs the same. The cost of
// lwIP's own search through its connections is subtracted, measured by the
// shortest answer that lwIP gives, which must search too.
func TestInstructionsByQueue(t *testing.T) {
	if len(missing(Firmware)) != 0 {
		needsRoot(t)
	}
	t.Parallel()
	const slack = 2 // instructions, by which the counter's reading may round
	var always, full, recycled Counts
	for i, q := range Queues() {
		a := counts(t, Config{PolicyCookiesAlways, LayoutHybrid, q})
		f := counts(t, Config{PolicyCookies, LayoutHybrid, q})
		r := counts(t, Config{PolicyRecycle, LayoutHybrid, q})
		if i > 0 {
			if d := a.SYN - always.SYN; d < -slack || d > slack {
				t.Errorf("cookies-always, queue %d: %d instructions per SYN, before %d", q, a.SYN, always.SYN)
			}
			if d := (f.SYN - f.RST) - (full.SYN - full.RST); d < -slack || d > slack {
				t.Errorf("cookies, queue %d: %d instructions above a RST, before %d", q, f.SYN-f.RST, full.SYN-full.RST)
			}
			if r.SYN-r.RST <= recycled.SYN-recycled.RST+10 {
				t.Errorf("recycle-oldest, queue %d: %d instructions above a RST, before %d", q, r.SYN-r.RST, recycled.SYN-recycled.RST)
			}
		}
		always, full, recycled = a, f, r
	}
}

// Traffic leaves through a tap made by this process, inside its namespace, or
// not at all.
func TestFloodRefusesForeignInterfaces(t *testing.T) {
	needsRoot(t)
	n, err := NewNet()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join("/run/netns", n.NS.Name)); err == nil {
			t.Errorf("%s is still there", n.NS.Name)
		}
	}()
	if err := n.verify(); !errors.Is(err, rig.ErrForeignInterface) {
		t.Errorf("outside the namespace: %v", err)
	}
	if err := n.NS.Do(n.verify); err != nil {
		t.Errorf("inside the namespace: %v", err)
	}
	foreign := *n
	foreign.index = 1 // lo
	if err := n.NS.Do(foreign.verify); !errors.Is(err, rig.ErrForeignInterface) {
		t.Errorf("on lo: %v", err)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--policy":   func(o *Options) { o.Policy = "none" },
		"--layout":   func(o *Options) { o.Layout = "smart" },
		"--queue":    func(o *Options) { o.Queue = 3 },
		"--syn-rate": func(o *Options) { o.Rate = -1 },
		"--samples":  func(o *Options) { o.Samples = 0 },
		"--seconds":  func(o *Options) { o.Seconds = 0 },
		"--requests": func(o *Options) { o.Requests = 0 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v", want, err)
		}
	}
	o := DefaultOptions()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

// A device that cannot start reports why in one line.
func TestBadImage(t *testing.T) {
	needsRoot(t)
	n, err := NewNet()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := Config{PolicyCookies, LayoutHybrid, 8}
	image := build(t, Program, c)
	c.Queue = 256
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := Boot(ctx, n, Program, image, c); err == nil || !strings.Contains(err.Error(), "queue=1-255") {
		t.Errorf("a bad argument: %v", err)
	}
}

func TestParseCounts(t *testing.T) {
	got, err := parseCounts("bench queue=8 syn=10 syn_min=9 ack=20 bad_ack=30 rst=40")
	if err != nil || got != (Counts{SYN: 10, ACK: 20, BadACK: 30, RST: 40}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "fault", "bench syn=1 ack=2 bad_ack=3", "bench syn=x ack=2 bad_ack=3 rst=4"} {
		if _, err := parseCounts(bad); err == nil {
			t.Errorf("%q is taken for counts", bad)
		}
	}
}

// Intervals with a pause do not count, however the device slept; a counter that wraps does.
func TestBusyIntervals(t *testing.T) {
	var s busySpan
	list := []Beacon{{TimeMS: 100, SinkBytes: 0xffffff00}, {TimeMS: 120, SinkBytes: 0x100, IdleUS: 5}, {TimeMS: 160, SinkBytes: 0x200, IdleUS: 9000}, {TimeMS: 180, SinkBytes: 0x700, IdleUS: 9000, CookiesSent: 3, Recycled: 1}}
	for i := 1; i < len(list); i++ {
		s.add(list[i-1], list[i])
	}
	if s.answered != 4 {
		t.Errorf("%d SYNs, want 4", s.answered)
	}
	if s.bytes != 0x200+0x500 || s.ms < 39.99 || s.ms > 40 {
		t.Errorf("%+v, want 1792 bytes in 39.995 ms", s)
	}
}

// What a journal has is found again, of this firmware only; a line that was cut off is not, and is written over.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	c := &cell{Config: Config{PolicyRecycle, LayoutHybrid, 4}, rate: 200}
	open := func(key string) *journal {
		j, err := openJournal(name, key)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open("a")
	for seed := range uint64(3) {
		if err := j.add(c, 30, seed, 42.5+float64(seed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	j = open("a")
	if v, there := j.find(c, 30, 1); !there || v != 43.5 {
		t.Errorf("%g, %v", v, there)
	}
	for what, there := range map[string]bool{"a line that was cut off": second(j.find(c, 30, 2)), "other seconds": second(j.find(c, 10, 1)), "a rate": second(j.find(&cell{Config: c.Config}, 30, 1))} {
		if there {
			t.Errorf("%s is found", what)
		}
	}
	if err := errors.Join(j.add(c, 30, 2, 1), j.close()); err != nil {
		t.Fatal(err)
	}
	if v, there := open("a").find(c, 30, 2); !there || v != 1 {
		t.Errorf("added after the cut: %g, %v", v, there)
	}
	if second(open("b").find(c, 30, 1)) {
		t.Error("a sample of another firmware is found")
	}
}

func second(_ float64, there bool) bool { return there }

func TestParseBeacon(t *testing.T) {
	b := append([]byte("TGB1"), 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0)
	got, err := parseBeacon(b)
	if want := (Beacon{1, 256, 65536, 4, 5, 6, 7}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseBeacon(b[:31]); err == nil {
		t.Error("a short one is taken for a beacon")
	}
}
