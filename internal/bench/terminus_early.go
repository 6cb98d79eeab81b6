// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/bench/patrolbenchbpf"
	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
	"tidegate/internal/role/borderman"
)

// requestFrameLen is more than REQUEST_LEN of bpf/patrol_bench.bpf.c, so that the
// generator truncates each frame: otherwise a frame keeps the length of the answer
// that it was before (see frameLenIn in internal/lab).
const requestFrameLen = 100

// measureEarly floods a border manager's XDP program with requests, each from
// another address; the sink at the sender's end takes the answers.
func (b *terminusBench) measureEarly() (err error) {
	labOptions := trial.DefaultOptions()
	labOptions.Exe, labOptions.Progress = b.opt.Exe, b.opt.Progress
	rig, box, err := trial.NewProxyStand(labOptions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	var objs patrolbenchbpf.PatrolBenchObjects
	if err := patrolbenchbpf.LoadPatrolBenchObjects(&objs, nil); err != nil {
		return err
	}
	defer objs.Close()
	early, err := plane.LoadBorder()
	if err != nil {
		return err
	}
	defer early.Close()
	gen, err := load.NewGenerator(box.AttackerPort, objs.TgRequestGenerate, rig.FloodCPU(), requestFrameLen)
	if err != nil {
		return err
	}
	defer gen.Close()
	at := netip.MustParseAddrPort("198.18.0.1:4747")
	a := at.Addr().As4()
	var seed keys.Secret
	nonces := ifp.NewNonces(&seed, time.Now())
	err = errors.Join(
		objs.GenMacDst.Set([6]byte(box.FloodPort.MAC)), objs.GenMacSrc.Set([6]byte(box.AttackerPort.MAC)),
		objs.RequestDstBe.Set(binary.LittleEndian.Uint32(a[:])),
		objs.RequestPortBe.Set(binary.LittleEndian.Uint16(binary.BigEndian.AppendUint16(nil, at.Port()))))
	if err != nil {
		return err
	}
	l, err := box.FloodPort.AttachXDP(objs.TgPatrolSink)
	if err != nil {
		return err
	}
	defer l.Close()
	var with, without []float64
	for range b.opt.Rounds + 1 {
		for _, answered := range []bool{false, true} {
			prog, list := objs.TgPatrolSink, &without
			if answered {
				prog, list = early.Program(), &with
			}
			// the key is dropped after 3 s without a daemon: set it again
			if err := errors.Join(early.Set(borderman.EarlySettings(nonces, at, 47)), l.Update(prog)); err != nil {
				return err
			}
			took, err := gen.Run(b.opt.Frames)
			if err != nil {
				return err
			}
			*list = append(*list, float64(took.Nanoseconds())/float64(b.opt.Frames))
		}
	}
	c, err := early.Counters()
	if err != nil {
		return err
	}
	if want := uint64(b.opt.Frames) * uint64(b.opt.Rounds+1); c["ifp_nonce_sent"] < want*95/100 {
		return fmt.Errorf("of %d requests %d were answered: %v", want, c["ifp_nonce_sent"], c)
	}
	slices.Sort(with)
	slices.Sort(without)
	all, base := with[len(with)/2], without[len(without)/2]
	b.res.NonceXDPAllPerS, b.res.NonceXDPPerS = 1e9/all, 1e9/(all-base)
	b.opt.Progress("  %.0f ns a request, %.0f without the answer", all, base)
	return nil
}
