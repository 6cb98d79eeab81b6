// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A client that asks for smaller segments than the kernel adopts gets them, through a handshake with the kernel itself.
func TestSmallSegmentsAreTranslated(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	o := clientOptions{timestamps: true, scaling: true, sack: true, mss: 400}
	data := make([]byte, 5000)
	bare, err := w.shakeHands(l, false, o, data)
	if err != nil {
		t.Fatal(err)
	}
	w.start(w.webConfig(webPort, "takeover: auto"))
	got, err := w.shakeHands(l, false, o, data)
	if err != nil {
		t.Fatal(err)
	}
	if got.server.SndMSS != bare.server.SndMSS {
		t.Errorf("the server sends segments of %d bytes, without the gate %d", got.server.SndMSS, bare.server.SndMSS)
	}
	o.mss = 0
	if _, err := w.shakeHands(l, false, o, data); err != nil {
		t.Fatal(err)
	}
	if c := w.counters(); c["split_ready"] != 1 || c["adopted"] != 1 {
		t.Errorf("%d connections were translated, %d adopted", c["split_ready"], c["adopted"])
	}
}
