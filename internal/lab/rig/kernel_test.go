// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"testing"
)

func TestParseTCPExt(t *testing.T) {
	const text = "TcpExt: SyncookiesSent SyncookiesRecv\nTcpExt: 12 34\nIpExt: A\nIpExt: 1\n"
	if v, err := parseTCPExt(text, "SyncookiesRecv"); err != nil || v != 34 {
		t.Errorf("got %d, %v", v, err)
	}
	if _, err := parseTCPExt(text, "Nothing"); err == nil {
		t.Error("a missing counter is no error")
	}
}

func TestParseWindowScale(t *testing.T) {
	for _, c := range []struct {
		tcp, core string
		want      int
	}{
		{"4096\t131072\t6291456\n", "212992\n", 7}, {"4096 131072 33554432", "4194304", 10},
		{"4096 8192 16384", "65535", 0}, {"4096 8192 65535", "8589934592", 14},
	} {
		if got, err := parseWindowScale(c.tcp, c.core); err != nil || got != c.want {
			t.Errorf("%q, %q: %d, %v; want %d", c.tcp, c.core, got, err, c.want)
		}
	}
	if _, err := parseWindowScale("x", "y"); err == nil {
		t.Error("nonsense is accepted")
	}
}
