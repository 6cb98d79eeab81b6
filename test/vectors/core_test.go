// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

// What the comparisons of a role's programs with core/, compiled natively, have in common: TestHostAndCore,
// TestEdgeAndCore, TestServerAndCore. Their worlds are those of TestPlanes.

const (
	differentialSeed = 4987
	shownDifferences = 8
	countEachVar     = "TIDEGATE_COUNT_EACH" // compare counters behind every frame, which names the one that is counted differently
)

// programOutcome is what a program returns, the frame as it leaves it, and what it has sent beside it.
type programOutcome struct {
	verdict string
	out     []byte
	sent    [][]byte
}

func (o programOutcome) String() string {
	s := fmt.Sprintf("%s %x", o.verdict, o.out)
	for _, f := range o.sent {
		s += fmt.Sprintf("\n  sent %x", f)
	}
	return s
}

// coreGate is core/ itself, by core/test/replay.c.
type coreGate struct{ *nativeGate }

// world gives it a world's services and keys; `only` are the addresses that are protected, if not all.
func (g coreGate) world(w *planesWorld, only []netip.Prefix) error {
	commands := []string{"reset", fmt.Sprintf("world %d %d 0 0", w.epoch, bit(w.staleDrop))}
	for _, n := range w.keys {
		commands = append(commands, fmt.Sprintf("key %d %x", n, w.secret.EpochKey(n)),
			fmt.Sprintf("tag-key %d %x %x", n, w.secret.TagKey(n), w.secret.ConfirmKey(n)))
	}
	for i := range w.services {
		v := &w.services[i]
		entry := v.id
		for _, p := range only {
			entry = 0x80000000
			commands = append(commands, prefixCommand(vectors.Service{ID: v.id, Port: v.port}, p))
		}
		commands = append(commands, fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d %d %d %d", v.id, v.MssV4, v.MssV6, v.Window, v.Wscale,
			v.Sack, v.Timestamps, v.Ecn, v.Mode, v.ListenerV4, v.SignedCostUs, v.FlowKey, v.Verify), fmt.Sprintf("port %d %d", v.port, entry))
	}
	return g.obey(commands...)
}

func (g coreGate) run(format string, args ...any) (o programOutcome, err error) {
	words, err := g.ask(format, args...)
	if err != nil {
		return o, err
	}
	o.verdict = words[0]
	for i := 1; i < len(words); i++ {
		if words[i] == "sent" && i+1 < len(words) {
			i++
			f, err := hex.DecodeString(words[i])
			if err != nil {
				return o, err
			}
			o.sent = append(o.sent, f)
			continue
		}
		if o.out, err = hex.DecodeString(words[i]); err != nil {
			return o, err
		}
	}
	return o, nil
}

// wide is an address as union tg_addr has it.
func wide(a netip.Addr) []byte {
	b := make([]byte, 16)
	if a.IsValid() {
		copy(b, a.AsSlice())
	}
	return b
}

// programs is what is asked of a role's programs to give them a world.
type programs interface {
	SetServices([]plane.Target, *plane.Settings) error
	PutKey(epoch uint64, key [16]byte) error
	Map(name string) *ebpf.Map
}

// prepareWorld gives programs a world's services and keys.
func prepareWorld(p programs, w *planesWorld, only []netip.Prefix, settings *plane.Settings) error {
	if only == nil {
		only = everywhere
	}
	var targets []plane.Target
	err := plane.ClearCounters(p.Map("tg_counters"), 0)
	for i := range w.services {
		v := &w.services[i]
		targets = append(targets, plane.Target{ID: v.id, Prefixes: only, Ports: [][2]uint16{{v.port, v.port}}, Service: v.Service})
		err = errors.Join(err, fullAllowance(p.Map("tg_signed"), v.id), plane.ClearCounters(p.Map("tg_counters"), v.id))
	}
	err = errors.Join(err, p.SetServices(targets, settings))
	for slot := range uint32(vectors.KeyRingSlots) {
		err = errors.Join(err, p.Map("tg_keys").Put(slot, plane.EpochKey{Epoch: math.MaxUint64}))
	}
	for _, n := range w.keys {
		err = errors.Join(err, p.PutKey(n, w.secret.EpochKey(n)))
	}
	return err
}

// frozenAllowance is one to which time adds nothing.
func frozenAllowance(m *ebpf.Map, creditNs uint64) error {
	all := make([][2]uint64, ebpf.MustPossibleCPU())
	for i := range all {
		all[i] = [2]uint64{math.MaxUint64, creditNs}
	}
	return m.Put(uint32(0), all)
}

// epochAt has a program's clock stand in the middle of an epoch.
func epochAt(settings *ebpf.Map, set func(*plane.Settings) error, w *planesWorld, epoch uint64) error {
	var s plane.Settings
	if err := settings.Lookup(uint32(0), &s); err != nil {
		return err
	}
	s.WallMinusMonoNs = planesSettings(w, epoch).WallMinusMonoNs
	return set(&s)
}

// aheadEpochs is how many epochs a verifier's clock is ahead by.
func (w *planesWorld) aheadEpochs() uint64 { return (planesEpochLen/2 + w.aheadNs) / planesEpochLen }

// errNoTestPacket is of frames that BPF_PROG_TEST_RUN does not take.
var errNoTestPacket = errors.New("too short for a test packet")

var (
	tcVerdicts  = map[uint32]string{tcxPass: "pass", tcxDrop: "drop", tcxRedirect: "redirect"}
	roleVerdict = map[uint32]string{xdpDrop: "drop", xdpPass: "pass", xdpTX: "tx"}
)

const tcxDrop = 2

// runProgram is one run by BPF_PROG_TEST_RUN.
func runProgram(prog *ebpf.Program, in []byte, verdicts map[uint32]string, ctx any) (o programOutcome, err error) {
	run := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: ctx}
	ret, err := prog.Run(&run)
	if err != nil {
		if errors.Is(err, unix.EINVAL) && len(in) < ethernetHeaderLen+ipv6HeaderLen {
			err = errNoTestPacket
		}
		return o, err
	}
	var ok bool
	if o.verdict, ok = verdicts[ret]; !ok {
		return o, fmt.Errorf("verdict %d", int32(ret))
	}
	if o.verdict != "drop" {
		o.out = run.DataOut
	}
	return o, nil
}

// coreComparison is the state of such a test.
type coreComparison struct {
	t             *testing.T
	core          coreGate
	w             *planesWorld
	epoch         uint64
	gen           *framegen.Generator
	settings      func() string // what the world has beside planesWorld
	counts        *ebpf.Map     // the programs' counters
	differs       bool
	shown, frames int
	rets          map[string]int
	counted       map[string]uint64
}

func newCoreComparison(t *testing.T) coreComparison {
	return coreComparison{t: t, core: coreGate{newNativeGate(t)}, rets: map[string]int{}, counted: map[string]uint64{}}
}

// begin starts a world.
func (c *coreComparison) begin(w *planesWorld, programs *ebpf.Map, settings func() string) {
	c.w, c.epoch, c.differs, c.counts, c.settings = w, w.epoch, false, programs, settings
	c.gen = framegen.New(w.network(), differentialSeed+uint64(w.number))
}

// both runs the programs and core/, and holds one to the other.
func (c *coreComparison) both(what string, in []byte, program, core func() (programOutcome, error)) (got programOutcome) {
	if c.differs {
		return got
	}
	got, err := program()
	if errors.Is(err, errNoTestPacket) {
		return got
	}
	want, err2 := core()
	if err := errors.Join(err, err2); err != nil {
		c.t.Fatalf("world %d: %s: %x: %v", c.w.number, what, in, err)
	}
	c.frames++
	c.rets[strings.SplitN(what, ",", 2)[0]+" "+got.verdict]++
	if got.String() != want.String() {
		c.differ("%s of %x:\nprograms: %v\ncore:     %v", what, in, got, want)
	}
	if os.Getenv(countEachVar) != "" {
		c.compareCounters(what, in)
	}
	return got
}

func (c *coreComparison) differ(format string, args ...any) {
	if c.differs = true; c.shown < shownDifferences {
		c.t.Logf("world %d, %s, mode %d, %d keys: "+format, append([]any{c.w.number, c.settings(), c.w.services[0].Mode, len(c.w.keys)}, args...)...)
	}
	c.shown++
}

// compareCounters holds the programs' to core/'s.
func (c *coreComparison) compareCounters(what string, in []byte) {
	if c.differs {
		return
	}
	want, err := c.core.Counters()
	got, err2 := planesCounters(c.counts)
	if err := errors.Join(err, err2); err != nil {
		c.t.Fatal(err)
	}
	if d := vectors.CounterDifferences(want, got); len(d) > 0 {
		c.differ("%s of %x: the programs count otherwise than core/ (%s names the frame): %s", what, in, countEachVar, strings.Join(d, "\n"))
	}
}

// end is the end of a world.
func (c *coreComparison) end() {
	c.compareCounters("all", nil)
	if c.differs {
		return
	}
	want, err := c.core.Counters()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, row := range want {
		for name, n := range row {
			c.counted[name] += n
		}
	}
}

// worlds plays so many worlds, or as many as the variable says; the fixed seed's come first.
func (c *coreComparison) worlds(n int, variable string, play func(n int), must ...string) {
	c.t.Helper()
	if more := os.Getenv(variable); more != "" {
		var err error
		if n, err = strconv.Atoi(more); err != nil {
			c.t.Fatalf("%s: %v", variable, err)
		}
	}
	for i := range n {
		play(i)
		if c.differs {
			c.t.Fail()
		}
	}
	c.t.Logf("seed %d, %d worlds, %d frames, %d worlds differ: %v, %v", differentialSeed, n, c.frames, c.shown, c.rets, c.counted)
	for _, name := range must {
		if c.counted[name] == 0 {
			c.t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
}

// canary plays worlds in which the programs have another setting, until a difference is noticed.
func (c *coreComparison) canary(n int, play func(n int)) {
	c.t.Helper()
	for i := 0; i < n && !c.differs; i++ {
		play(i)
	}
	if !c.differs {
		c.t.Error("the programs have another setting than core/, and nobody sees it")
	}
}

// stray is a frame that belongs to no connection; sometimes with bytes changed at random.
func (c *coreComparison) stray(r *rand.Rand) framegen.Frame {
	var f framegen.Frame
	switch r.IntN(6) {
	case 0, 1:
		f = c.gen.SYNFrom(0)
	case 2: // what befalls few SYNs else, and not with something that matters more
		f = c.gen.Build(framegen.Segment{IPv6: r.IntN(2) == 0, Flags: tcpSYN}, []framegen.Trait{framegen.Signed, framegen.Signed, framegen.VLAN, framegen.SourceRoute}[r.IntN(4)])
	default:
		f = c.gen.Odd(framegen.Segment{IPv6: r.IntN(2) == 0, Flags: uint8(r.Uint32()), Ack: r.Uint32(), DstPort: []uint16{80, 443, 81}[r.IntN(3)]})
	}
	f.Bytes = slices.Clone(f.Bytes)
	if r.IntN(3) == 0 {
		f.Bytes = mutate(r, f.Bytes)
	}
	return f
}

// client is what one has sent and got.
type client struct {
	syn      framegen.Segment
	cookie   uint32 // 0: its SYN was not answered
	echo     []byte // the timestamp that it returns
	answered bool
}

func (c *coreComparison) newClient(r *rand.Rand) (client, framegen.Frame) {
	v := client{syn: framegen.Segment{IPv6: r.IntN(2) == 0, Flags: tcpSYN}}
	f := c.gen.Plain(v.syn)
	v.syn.Source, v.syn.SrcPort, v.syn.Seq = f.Source, f.Port, f.Seq
	f.Bytes = slices.Clone(f.Bytes)
	return v, f
}

// hears takes the answer to its SYN.
func (v *client) hears(o programOutcome) {
	tcp := tcpHeader(o.out)
	if o.verdict != "tx" || tcp == nil {
		return
	}
	v.answered, v.cookie, v.echo = true, binary.BigEndian.Uint32(tcp[4:]), nil
	if at := timestampsAt(tcp); at > 0 {
		v.echo = slices.Clone(tcp[at : at+4])
	}
}

// segment is what comes after the SYN: mostly an ACK, right or nearly right.
func (c *coreComparison) segment(r *rand.Rand, v *client) framegen.Frame {
	s := v.syn
	s.Seq, s.Ack, s.Options = v.syn.Seq+1, v.cookie+1, []byte{}
	if !v.answered {
		s.Ack = r.Uint32()
	}
	if v.echo != nil {
		s.Options = append([]byte{1, 1, 8, 10, 0, 0, 1, 0}, v.echo...)
	}
	s.Flags = []uint8{tcpACK, tcpACK, tcpACK, tcpACK, tcpACK | tcpPSH, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpRST | tcpACK, tcpRST,
		tcpFIN, tcpSYN | tcpACK, tcpSYN, 0}[r.IntN(13)]
	switch r.IntN(12) {
	case 0:
		s.Ack++
	case 1:
		s.Seq--
	case 2: // a step further than a connection goes
		s.Ack += 0x20000 + r.Uint32N(1<<20)
	}
	var f framegen.Frame
	switch r.IntN(10) {
	case 0, 1:
		f = c.gen.Odd(s)
	case 2, 3:
		f = c.gen.Enveloped(s)
	case 4:
		f = c.gen.Build(s, framegen.Payload)
	default:
		f = c.gen.Plain(s)
	}
	f.Bytes = slices.Clone(f.Bytes)
	if r.IntN(10) == 0 {
		f.Bytes = mutate(r, f.Bytes)
	}
	return f
}

// mutate changes some bytes, most often in the headers, or the length. The
// kernel makes test frames only of at least an Ethernet header.
func mutate(r *rand.Rand, frame []byte) []byte {
	out := slices.Clone(frame)
	for len(out) < ethernetHeaderLen {
		out = append(out, byte(r.Uint32()))
	}
	for range r.IntN(4) {
		at := r.IntN(len(out))
		if r.IntN(3) > 0 { // from the ethertype to the TCP options
			at = min(len(out)-1, 12+r.IntN(70))
		}
		switch r.IntN(3) {
		case 0:
			out[at] = byte(r.Uint32())
		case 1:
			out[at] ^= 1 << r.IntN(8)
		default:
			out[at] = []byte{0, 1, 6, 0x45, 0x60, 0x81, 0xff}[r.IntN(7)]
		}
	}
	switch r.IntN(12) {
	case 0:
		out = out[:ethernetHeaderLen+r.IntN(len(out)-ethernetHeaderLen+1)]
	case 1:
		for range r.IntN(64) {
			out = append(out, byte(r.Uint32()))
		}
	}
	return out
}
