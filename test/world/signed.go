// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
)

// SignedKind is how core/tcp_options.h classifies a SYN's options.
type SignedKind int

// The kinds.
const (
	Unsigned  SignedKind = iota // without TCP-MD5 and TCP-AO
	Signed                      // one option, well formed
	Malformed                   // kernels drop these
)

// SignedForm is a list of options with TCP-MD5 or TCP-AO, or something similar.
type SignedForm struct {
	Name    string
	Kind    SignedKind
	Options []byte
}

// SignedForms are those of vectors/theme_signed.py, written independently, and more.
func SignedForms() (forms []SignedForm) {
	md5, ao16 := "1312"+strings.Repeat("07", 16), "1d10"+strings.Repeat("07", 14)
	nops := func(n int) string { return strings.Repeat("01", n) }
	for _, f := range []struct {
		name string
		kind SignedKind
		list string
	}{
		{"none", Unsigned, "020405b4"},
		{"md5-2", Unsigned, "13020101"},
		{"ao-2", Unsigned, "1d020101"},
		{"ao-4", Unsigned, "1d040101"},
		{"ao-4-in-16", Unsigned, "1d040101" + nops(12)},
		{"md5-2-at-16", Unsigned, nops(4) + "1302" + nops(14)},
		{"md5-2-at-17", Unsigned, nops(3) + "1302" + nops(15)},
		{"ao-twice-late", Unsigned, ao16 + ao16},
		{"lie-at-16", Unsigned, "fd30" + nops(14)},
		{"lie-at-17", Unsigned, nops(3) + "fd30" + nops(15)},
		{"md5-after-end", Unsigned, "0001" + md5},
		{"md5-2-after-end", Unsigned, "0001" + "1302" + nops(16)},
		{"md5", Signed, md5 + nops(2)},
		{"md5-last", Signed, nops(2) + md5},
		{"ao-16", Signed, ao16},
		{"ao-20", Signed, "1d14" + strings.Repeat("07", 18)},
		{"ao-5", Signed, "1d05010107" + nops(3)},
		{"md5-2-in-20", Malformed, "1302" + nops(18)},
		{"md5-2-at-18", Malformed, nops(2) + "1302" + nops(16)},
		{"md5-17", Malformed, "1311" + strings.Repeat("07", 15) + nops(3)},
		{"md5-19", Malformed, "1313" + strings.Repeat("07", 17) + nops(1)},
		{"ao-2-in-20", Malformed, "1d02" + nops(18)},
		{"ao-3-in-20", Malformed, "1d0301" + nops(17)},
		{"ao-4-in-20", Malformed, "1d040101" + nops(16)},
		{"md5-twice", Malformed, md5 + md5 + nops(4)},
		{"md5-ao", Malformed, md5 + ao16 + nops(2)},
		{"md5-ao-late", Malformed, md5 + "1d0501010701"},
		{"ao-md5", Malformed, ao16 + md5 + nops(2)},
		{"ao-twice", Malformed, ao16 + ao16 + nops(4)},
		{"lie-0", Malformed, "fd00" + nops(18)},
		{"lie-1", Malformed, "fd01" + nops(18)},
		{"lie-beyond", Malformed, "fd30" + nops(18)},
		{"lie-at-18", Malformed, nops(2) + "fd30" + nops(16)},
		{"md5-lie", Malformed, md5 + "fd30" + nops(20)},
	} {
		b, err := hex.DecodeString(f.list)
		if err != nil || len(b)%4 != 0 || len(b) > 40 {
			panic(f.name)
		}
		forms = append(forms, SignedForm{f.name, f.kind, b})
	}
	return forms
}

// SignedFlood is a gate before a server's stack, for floods of SYNs of every form.
type SignedFlood struct {
	SYNs     *SYNs
	From     func(ipv6 bool, port uint16) netip.AddrPort
	To       func(ipv6 bool) netip.AddrPort
	Server   *rig.Namespace
	Counters func() map[string]uint64 // of the service, at the gate
}

// NothingPasses floods with each form, n SYNs of each family, and expects that none of them reaches the
// server's TCP: the gate answers or drops, as the service is configured (`signed: answer`, or `drop`).
func (f SignedFlood) NothingPasses(t *testing.T, n uint16, drops bool) {
	t.Helper()
	before, sent := f.Counters(), map[SignedKind]uint64{}
	for _, ipv6 := range Families() {
		to := f.To(ipv6)
		for i, form := range SignedForms() {
			for k := range n {
				f.SYNs.Send(f.From(ipv6, 1024+uint16(i)*n+k), to, form.Options)
			}
			sent[form.Kind] += uint64(n)
			if r := ReachedStack(t, f.Server, to.Port()); r.Sum() != 0 {
				t.Errorf("%s, %s: the server's TCP has %+v", FamilyName(ipv6), form.Name, r)
				return
			}
		}
	}
	after := f.Counters()
	want := map[string]uint64{"drop_auth_option": sent[Malformed], "pass_signed": 0, "signed_excess": 0,
		"signed_answered": sent[Signed], "drop_signed": 0}
	if drops {
		want["signed_answered"], want["drop_signed"] = 0, sent[Signed]
	}
	for name, n := range want {
		if got := after[name] - before[name]; got != n {
			t.Errorf("%s counted %d, want %d", name, got, n)
		}
	}
}

// PassesWithin floods with well-formed TCP-AO, which a kernel without TCP-AO treats as an
// ordinary SYN, and expects that no more of them pass than `signed_rate` allows.
func (f SignedFlood) PassesWithin(t *testing.T, n uint16, rate, cpus int) {
	t.Helper()
	before, begin := f.Counters(), time.Now()
	to := f.To(false)
	options := SignedForms()[14].Options
	after := before
	for k := range n {
		f.SYNs.Send(f.From(false, 20000+k), to, options)
		if k%100 == 99 || k == n-1 { // a gate outside the kernel lags behind the sender, and has a short queue
			Await(t, "SYNs that are judged", 10*time.Second, 5*time.Millisecond, func() bool {
				after = f.Counters()
				return after["syn"]-before["syn"] == uint64(k+1)
			})
		}
	}
	most := uint64(float64(rate)*time.Since(begin).Seconds()) + uint64(max(rate/10, cpus)) + 1
	passed, excess := after["pass_signed"]-before["pass_signed"], after["signed_excess"]-before["signed_excess"]
	if passed == 0 || passed > most || passed+excess != uint64(n) {
		t.Errorf("%d of %d passed, %d were answered; want some and at most %d to pass", passed, n, excess, most)
	}
	if r := ReachedStack(t, f.Server, to.Port()); uint64(r.Sum()) > passed {
		t.Errorf("%d passed, and the server's TCP has %+v", passed, r)
	}
	t.Logf("%d of %d passed in %s at %d a second", passed, n, time.Since(begin), rate)
}
