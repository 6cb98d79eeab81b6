// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"net/netip"
	"testing"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

func TestServerWithoutAdoption(t *testing.T) {
	old := releaseCheck("6.6.1", false)
	want(t, withoutAdoption(old, config.TakeoverAdopt), Fail, "older than 6.9")
	want(t, withoutAdoption(old, config.TakeoverTranslate), OK, "does without")
	want(t, withoutAdoption(old, config.TakeoverAuto), Warn, "translates every connection")
	if fix := withoutAdoption(old, config.TakeoverAuto).Fix; fix != newerKernel {
		t.Errorf("with takeover: auto, the cure is %q", fix)
	}
	want(t, withoutAdoption(btfCheck(errors.New("x")), config.TakeoverTranslate), Fail, "BTF")
}

func TestTakeover(t *testing.T) {
	svc := config.Service{Name: "web", Mode: config.ModeAlways}
	plain := listeners.Report{Status: listeners.OK, Listeners: []listeners.Listener{{Addr: netip.IPv4Unspecified(), Port: 80}}}
	mptcp := listeners.Report{Status: listeners.MPTCP, Listeners: []listeners.Listener{{Addr: netip.IPv4Unspecified(), Port: 81, MPTCP: true}}}
	auto := config.Server{Takeover: config.TakeoverAuto}
	want(t, judgeTakeover(svc, plain, auto), OK, "0.0.0.0:80: adopted")
	want(t, judgeTakeover(svc, mptcp, auto), OK, "0.0.0.0:81: translated")
	want(t, judgeTakeover(svc, listeners.Report{Status: listeners.None}, auto), OK, "guest")
	want(t, judgeTakeover(svc, plain, config.Server{Takeover: config.TakeoverAuto, Protocol: config.ProtocolTagged}), OK, "80: translated")
	want(t, judgeTakeover(svc, plain, config.Server{Takeover: config.TakeoverTranslate}), OK, "80: translated")
}

func TestSplitMemory(t *testing.T) {
	want(t, filterCheck(20, 1<<30), OK, "1536 KiB")
	want(t, filterCheck(26, 1<<20), Fail, "filter_bits")
	want(t, splitTableCheck(1<<18, 1<<30), OK, "16384 KiB") // 64 bytes each
	want(t, splitTableCheck(1<<24, 1<<20), Fail, "max_connections")
	want(t, splitTableCheck(1, 0), Warn, "not known")
}

func TestReach(t *testing.T) {
	want(t, judgeReach("edge 1", kernelRoute{dev: "eth0"}, "m"), OK, "eth0")
	want(t, judgeReach("edge 1", kernelRoute{err: errors.New("network is unreachable")}, "m"), Fail, "add a route")
	want(t, judgeReach("edge 1", kernelRoute{local: true}, "m"), Fail, "own address")
	want(t, judgeReach("edge 1", kernelRoute{dev: "eth0", neighbour: "does not answer"}, "m"), Warn, "does not answer")
}
