// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnnounceReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	var out, log bytes.Buffer
	announceReady(&out, &log)
	got := make([]byte, 64)
	n, _ := l.Read(got) // written before: it is there
	if out.String() != "ready\n" || string(got[:n]) != "READY=1" || log.Len() > 0 {
		t.Errorf("stdout %q, manager told %q, log %q", out.String(), got[:n], log.String())
	}
	t.Setenv("NOTIFY_SOCKET", path+".gone")
	announceReady(&out, &log)
	if !strings.Contains(log.String(), "service manager") {
		t.Errorf("a manager that is gone: log %q", log.String())
	}
}
