// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
	"tidegate/internal/status"
)

// unknown is the verdict where the program would have to be asked.
const unknown = "unknown"

// explainDPDK explains what the configuration and the lists decide. tidegate-dpdk rehearses no SYN: what depends on its tables
// is left open.
func explainDPDK(opt instance.Options, cfg *config.Config, st *status.Status, q Question) (*Answer, error) {
	if !q.Dst.IsValid() {
		return nil, fmt.Errorf("instance %q forwards outside the kernel, where its services' addresses are not known: name DST:PORT", cfg.Instance)
	}
	if q.Src.Addr().Is4() != q.Dst.Addr().Is4() {
		return nil, fmt.Errorf("%s and %s are of different families", q.Src.Addr(), q.Dst.Addr())
	}
	a := &Answer{Src: q.Src, Dst: q.Dst, Verdict: unknown, Reasons: map[string]uint64{}}
	svc := serviceOf(cfg, q.Dst)
	if svc == nil || svc.Mode == config.ModeOff {
		if svc == nil {
			a.step("service", "none: no service has port %d at %s", q.Dst.Port(), q.Dst.Addr())
		} else {
			a.explainService(svc, st)
		}
		a.Verdict = "forwarded"
		a.step("decision", "forwarded: the SYN goes on to the server, if there is a route")
		return a, nil
	}
	a.explainService(svc, st)
	a.explainKeys(st)
	denied := a.explainList(cfg, opt.StateDir) == sourcelist.Deny
	a.explainLimit(st, "")
	a.explainHandshakesDPDK(opt, cfg)
	switch {
	case denied && svc.Mode == config.ModeMonitor:
		a.Verdict = "forwarded"
		a.Reasons[schema.CounterWouldDrop.String()] = 1
		a.step("decision", "forwarded: in mode monitor the SYN of a denied source goes on, and counts as would_drop")
	case denied:
		a.Verdict = "drop"
		a.Reasons[schema.CounterDropDenied.String()] = 1
		a.step("decision", "drop: the SYN of a denied source is dropped before anything else is asked")
	case svc.Mode == config.ModeAuto && isCalm(opt, cfg, st, svc.Name):
		a.Verdict = "forwarded"
		a.Reasons[schema.CounterSyn.String()] = 1
		a.step("decision", "forwarded: the detector sees no attack, so the SYN is counted and goes on to the server, if there is a route")
	default:
		a.step("decision", "unknown: it depends on the SYN's options and on the tables of tidegate-dpdk, which rehearses none; `tidegate status` shows its counters")
	}
	return a, nil
}

// explainHandshakesDPDK is explainHandshakes with the tables of tidegate-dpdk.
func (a *Answer) explainHandshakesDPDK(opt instance.Options, cfg *config.Config) {
	rows, err := dpdk.ReadProven(dpdk.SocketPath(opt.StateDir, cfg.Instance))
	if err != nil {
		a.handshakesUnread(err)
		return
	}
	if len(rows) > 0 && a.stepHandshakes(plane.HandshakesOf(rows, a.Src.Addr())) == 0 {
		a.handshakesNone()
	}
}

// isCalm reports whether a service in mode auto answers no SYN to any of its addresses, and has not for as long as a cookie lives.
func isCalm(opt instance.Options, cfg *config.Config, st *status.Status, service string) bool {
	state, err := instance.ReadState(opt.StateDir, cfg.Instance)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(state.Services, func(s instance.StateService) bool { return s.Name == service })
	if i < 0 {
		return false
	}
	id := state.Services[i].ID
	in, err := dpdk.ReadConfig(st.DPDKPrefix, id)
	return err == nil && string(in[fmt.Sprintf("%d.mode", id)]) == fmt.Sprint(schema.ModeAuto) && string(in[fmt.Sprintf("%d.verify", id)]) == "0"
}
