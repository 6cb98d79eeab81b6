// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstreamtest"
)

// talker is a peer that sends any message and reads the answers.
type talker struct {
	t    *testing.T
	conn *net.UDPConn
}

func talk(t *testing.T, n *upstreamtest.Net, from string) *talker {
	t.Helper()
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	c, err := net.DialUDP("udp", at, net.UDPAddrFromAddrPort(n.BM.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &talker{t, c}
}

// ask sends a message and returns the answer; nil if none comes within a moment.
func (k *talker) ask(message []byte) []byte {
	k.t.Helper()
	if _, err := k.conn.Write(message); err != nil {
		k.t.Fatal(err)
	}
	_ = k.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	b := make([]byte, 2000)
	n, err := k.conn.Read(b)
	if err != nil {
		return nil
	}
	return b[:n]
}

// verified makes a request with the nonce that the border manager returns for it.
func (k *talker) verified(kind ifp.Type, flags uint8, request uint64, filters ...ifp.Filter) []byte {
	k.t.Helper()
	m := ifp.AppendRequest(nil, kind, flags, request, 0, filters)
	h, err := ifp.ReadHeader(k.ask(m))
	if err != nil || h.Type != ifp.Nonce {
		k.t.Fatalf("no nonce: %+v, %v", h, err)
	}
	ifp.SetNonce(m, h.Nonce)
	return m
}

// The border manager signs only what it has done for authorised senders, once each:
// not the requests of strangers, nor a replayed request again and again.
func TestProofsAreNotForStrangers(t *testing.T) {
	n := start(t, 0)
	stranger := talk(t, n, "127.0.0.8")
	f := pair("10.1.0.7/32", "198.51.100.1/32")
	m := stranger.verified(ifp.Install, ifp.FlagProof, 1, f)
	for range 50 {
		answer := stranger.ask(m)
		h, err := ifp.ReadHeader(answer)
		if err != nil || h.Type != ifp.Result || h.Flags&ifp.FlagProof != 0 || answer[ifp.HeaderLen] != byte(ifp.NotAuthorised) {
			t.Fatalf("a stranger hears %+v %v", h, err)
		}
	}
	if got := n.Border.Count.Signed.Load(); got != 0 {
		t.Fatalf("%d results were signed for a stranger", got)
	}
	// One authorised filter does not buy a signature for an unauthorised one.
	partly := talk(t, n, "127.0.0.1")
	m = partly.verified(ifp.Install, ifp.FlagProof, 2, f, pair("10.1.0.7/32", "192.0.2.1/32"))
	if h, _ := ifp.ReadHeader(partly.ask(m)); h.Type != ifp.Result || h.Flags&ifp.FlagProof != 0 {
		t.Errorf("a request that is not all his: %+v", h)
	}
	nonsense := f
	nonsense.ExpiresS = ifp.MaxExpiresS + 1
	m = stranger.verified(ifp.Install, ifp.FlagProof, 3, nonsense)
	if h, _ := ifp.ReadHeader(stranger.ask(m)); h.Type != ifp.Result || h.Flags&ifp.FlagProof != 0 {
		t.Errorf("a filter that means nothing: %+v", h)
	}
	if got := n.Border.Count.Signed.Load(); got != 0 {
		t.Errorf("%d were signed", got)
	}
}

// A repeated request gets the same answer, byte for byte, and
// has no effect.
func TestReplayDoesNothing(t *testing.T) {
	n := start(t, 0)
	manager := talk(t, n, "127.0.0.1")
	f := pair("10.1.0.7/32", "198.51.100.1/32")
	install := manager.verified(ifp.Install, ifp.FlagProof, 7, f)
	first := manager.ask(install)
	h, err := ifp.ReadHeader(first)
	if err != nil || h.Type != ifp.Result || h.Flags&ifp.FlagProof == 0 || first[ifp.HeaderLen] != byte(ifp.OK) {
		t.Fatalf("%+v, %v", h, err)
	}
	if a := manager.ask(manager.verified(ifp.Remove, 0, 8, f)); a == nil || a[ifp.HeaderLen] != byte(ifp.OK) {
		t.Fatalf("remove: %x", a)
	}
	for range 20 {
		if again := manager.ask(install); !bytes.Equal(again, first) {
			t.Fatalf("a replay is answered by\n%x, not by\n%x", again, first)
		}
	}
	if n.Tables[0].Len() != 0 {
		t.Error("a replay has installed again what was taken back")
	}
	if signed, replayed := n.Border.Count.Signed.Load(), n.Border.Count.Replayed.Load(); signed != 1 || replayed != 20 {
		t.Errorf("%d signed, %d counted as replayed", signed, replayed)
	}
	// From another address it does not even get that.
	if h, _ := ifp.ReadHeader(talk(t, n, "127.0.0.9").ask(install)); h.Type != ifp.Error || h.Code != ifp.StaleNonce {
		t.Errorf("from another address: %+v", h)
	}
	// The same filter in a new request is another request.
	if a := manager.ask(manager.verified(ifp.Install, 0, 9, f)); a == nil || a[ifp.HeaderLen] != byte(ifp.OK) || n.Tables[0].Len() != 1 {
		t.Errorf("installed again under another number: %x, %d filters", a, n.Tables[0].Len())
	}
}
