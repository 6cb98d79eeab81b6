// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/internal/plane"
	"tidegate/test/world"
)

// A CPU that has lately found a source on the whitelist does not look there again at once (bpf/lib/proxy_verified.h). Yet who goes on sending
// is found in history, and moves to the active table; and who has left the whitelist is let through no longer.
func TestAKeptSourceIsAskedForAgain(t *testing.T) {
	world.NeedRoot(t)
	_, err := runProxyParts(t.Context(), DefaultOptions(), []part{{what: "sources across swaps", run: func(b *proxyBench) error {
		frame := b.segmentFrame(40000)
		cookie, auth, err := b.segmentProxies(frame)
		if err != nil {
			return err
		}
		defer cookie.Close()
		defer auth.Close()
		keptSources(t, b, auth, frame)
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func keptSources(t *testing.T, b *proxyBench, p *plane.Proxy, frame []byte) {
	xdp, _ := p.Programs()
	key := uint64(binary.LittleEndian.Uint32(frame[26:]))<<32 | 0xff
	onWhitelist := func() bool {
		active, err := p.Active("tg_white")
		if err != nil {
			t.Fatal(err)
		}
		defer active.Close()
		var yes uint32
		return active.Lookup(key, &yes) == nil
	}
	kept := func() bool {
		of := p.Map("tg_kept_sources")
		type place struct{ Key, Period uint64 }
		var at uint32
		var places []place
		for all := of.Iterate(); all.Next(&at, &places); {
			for _, on := range places {
				if on.Key == key && on.Period != 0 {
					return true
				}
			}
		}
		return false
	}
	segment := func() uint32 {
		t.Helper()
		_, got, err := b.verdict(xdp, frame, b.box.LegitPort.Index)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if !onWhitelist() || kept() {
		t.Fatalf("before any segment: on the whitelist: %v, kept: %v", onWhitelist(), kept())
	}
	if got := segment(); got != xdpRedirect || !kept() {
		t.Fatalf("the first segment: %d, kept: %v", got, kept())
	}

	swap(t, p)
	world.Await(t, "a source that sends to be on the active whitelist again", 10*time.Second, time.Millisecond, func() bool {
		if got := segment(); got != xdpRedirect {
			t.Fatalf("a verified source's segment: %d", got)
		}
		return onWhitelist()
	})

	swap(t, p)
	swap(t, p)
	// Of a stranger the segment is dropped, since its checksum is wrong.
	world.Await(t, "a source that has left the whitelist to be unverified", 10*time.Second, time.Millisecond, func() bool { return segment() == xdpDrop })
}

func swap(t *testing.T, p *plane.Proxy) {
	t.Helper()
	if err := p.SwapSources(); err != nil {
		t.Fatal(err)
	}
}
