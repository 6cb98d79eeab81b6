// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
	"tidegate/internal/binding/store"
)

// patience bounds every wait of these tests; none is expected to come near it.
const patience = 30 * time.Second

func privateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("node test " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicKey(name string) binding.Key {
	return binding.Key(privateKey(name).Public().(ed25519.PublicKey))
}

func storeOptions() store.Options {
	return store.Options{Anchors: []binding.Anchor{{Name: "rir", Key: publicKey("rir"), Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}
}

// bind makes the record of a manager, signed by the anchor.
func bind(t testing.TB, name string, serial uint64, endpoint string) *binding.Record {
	t.Helper()
	e, err := binding.ParseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r, err := binding.Sign(binding.Record{Role: binding.BorderManager, Key: publicKey(name), Serial: serial,
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Endpoints: []binding.Endpoint{e},
		NotBefore: now.Add(-time.Hour).Unix(), NotAfter: now.Add(time.Hour).Unix()}, privateKey("rir"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// watched is a node whose records can be waited for.
type watched struct {
	*Node
	t     testing.TB
	name  string
	store *store.Store
	mu    sync.Mutex
	cond  *sync.Cond
	got   map[binding.Digest]bool
}

func start(t testing.TB, name string, s *store.Store, o Options) *watched {
	t.Helper()
	w := &watched{t: t, name: name, store: s, got: map[binding.Digest]bool{}}
	w.cond = sync.NewCond(&w.mu)
	o.Store, o.Key = s, privateKey(name)
	o.OnRecord = func(r *binding.Record) {
		w.mu.Lock()
		w.got[r.Digest()] = true
		w.mu.Unlock()
		w.cond.Broadcast()
	}
	o.Log = slog.New(slog.NewTextHandler(testWriter{t, name}, nil))
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	w.Node = n
	return w
}

func memory(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.New(storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until the node has been told of every record.
func (w *watched) await(list ...*binding.Record) {
	w.t.Helper()
	over := time.AfterFunc(patience, w.cond.Broadcast)
	defer over.Stop()
	deadline := time.Now().Add(patience)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range list {
		for !w.got[r.Digest()] {
			if time.Now().After(deadline) {
				w.t.Fatalf("%s has not got record %s serial %d; %+v", w.name, r.Key, r.Serial, w.Stats())
			}
			w.cond.Wait()
		}
	}
}

// testWriter logs a node's lines as the test's, until the test has ended.
type testWriter struct {
	t    testing.TB
	name string
}

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s: %s", w.name, strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// until polls what no event tells.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestManagersConverge(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	var nodes []*watched
	var own []*binding.Record
	for i, name := range names {
		s := memory(t)
		for k := range 20 {
			r := bind(t, fmt.Sprintf("%s-%d", name, k), 1, "ifp=192.0.2.1:4141")
			if _, err := s.Admit(r.Raw(), time.Now()); err != nil {
				t.Fatal(err)
			}
			own = append(own, r)
		}
		o := Options{Listen: "127.0.0.1:0"}
		for _, other := range names {
			if other != name {
				o.Neighbours = append(o.Neighbours, Neighbour{Key: publicKey(other)})
			}
		}
		if i > 0 { // a chain
			o.Neighbours = append(o.Neighbours, Neighbour{Addr: nodes[i-1].Addr().String(), Key: publicKey(names[i-1])})
		}
		w := start(t, name, s, o)
		defer w.Close()
		nodes = append(nodes, w)
	}
	for i, w := range nodes {
		for k, r := range own {
			if k/20 != i {
				w.await(r)
			}
		}
	}
	fresh := bind(t, "a-0", 2, "ifp=192.0.2.2:4141")
	begin := time.Now()
	if _, err := nodes[0].Publish(fresh.Raw()); err != nil {
		t.Fatal(err)
	}
	for _, w := range nodes[1:] {
		w.await(fresh)
	}
	t.Logf("an update went along four connections in %s", time.Since(begin))
	for _, w := range nodes {
		if w.store.Roots() != nodes[0].store.Roots() {
			t.Errorf("%s holds something else", w.name)
		}
	}
	if _, err := nodes[0].Publish(bind(t, "a-0", 1, "ifp=192.0.2.2:4141").Raw()); binding.CodeOf(err) != binding.Stale {
		t.Errorf("published an old record: %v", err)
	}
}

// TestBothDial: two managers that dial each other end with one connection.
func TestBothDial(t *testing.T) {
	listeners := map[string]string{}
	for _, name := range []string{"a", "b"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[name] = ln.Addr().String()
		ln.Close()
	}
	var nodes []*watched
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		w := start(t, pair[0], memory(t), Options{Listen: listeners[pair[0]],
			Neighbours: []Neighbour{{Addr: listeners[pair[1]], Key: publicKey(pair[1])}}})
		defer w.Close()
		nodes = append(nodes, w)
	}
	r := bind(t, "x", 1, "ifp=192.0.2.1:1")
	until(t, "one connection each", func() bool { return nodes[0].Stats().Peers == 1 && nodes[1].Stats().Peers == 1 })
	if _, err := nodes[0].Publish(r.Raw()); err != nil {
		t.Fatal(err)
	}
	nodes[1].await(r)
}

// TestMesh: a newcomer knows one neighbour and finds others through bindings.
func TestMesh(t *testing.T) {
	hub := start(t, "hub", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey("m1")}, {Key: publicKey("m2")}}})
	defer hub.Close()
	var members []*watched
	for _, name := range []string{"m1", "m2"} {
		w := start(t, name, memory(t), Options{Listen: "127.0.0.1:0", Degree: 2,
			Neighbours: []Neighbour{{Addr: hub.Addr().String(), Key: publicKey("hub")}}})
		defer w.Close()
		members = append(members, w)
		if _, err := w.Publish(bind(t, name, 1, "flood="+w.Addr().String()).Raw()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the two members connected with each other", func() bool {
		return members[0].connected(publicKey("m2")) && members[1].connected(publicKey("m1"))
	})
}

// TestRightEnds: a peer whose binding is revoked is disconnected.
func TestRightEnds(t *testing.T) {
	s := memory(t)
	hub := start(t, "hub", s, Options{Listen: "127.0.0.1:0"})
	defer hub.Close()
	if _, err := hub.Publish(bind(t, "m1", 1, "ifp=192.0.2.1:1").Raw()); err != nil {
		t.Fatal(err)
	}
	member := start(t, "m1", memory(t), Options{Neighbours: []Neighbour{{Addr: hub.Addr().String(), Key: publicKey("hub")}}})
	defer member.Close()
	until(t, "connected by right of a binding", func() bool { return hub.connected(publicKey("m1")) })
	now := time.Now()
	end, err := binding.Sign(binding.Record{Role: binding.WholeKey, Key: publicKey("m1"), Serial: 1, Revoked: true,
		NotBefore: now.Add(-time.Hour).Unix(), NotAfter: now.Add(binding.MinRevocation).Unix()}, privateKey("rir"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hub.Publish(end.Raw()); err != nil {
		t.Fatal(err)
	}
	until(t, "disconnected after the revocation", func() bool { return !hub.connected(publicKey("m1")) })
	if n := hub.Stats().Closed[flood.NotAllowed]; n != 1 {
		t.Errorf("%d connections closed as not allowed", n)
	}
}

// TestWrongCertificate: whoever does not prove the right key gets no connection.
func TestWrongCertificate(t *testing.T) {
	hub := start(t, "hub", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey("friend")}}})
	defer hub.Close()
	cert := func(name string) tls.Certificate {
		c, err := certificate(privateKey(name))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// The friend's certificate, without the friend's key.
	stolen := cert("friend")
	stolen.PrivateKey = privateKey("thief")
	accept := func(binding.Key) error { return nil }
	for name, tc := range map[string]struct {
		config func(*tls.Config)
		ok     bool
	}{
		"friend":         {func(*tls.Config) {}, true},
		"stranger":       {func(c *tls.Config) { c.Certificates = []tls.Certificate{cert("stranger")} }, false},
		"oneself":        {func(c *tls.Config) { c.Certificates = []tls.Certificate{cert("hub")} }, false},
		"stolen":         {func(c *tls.Config) { c.Certificates = []tls.Certificate{stolen} }, false},
		"no certificate": {func(c *tls.Config) { c.Certificates = nil }, false},
		"ecdsa":          {func(c *tls.Config) { c.Certificates = []tls.Certificate{ecdsaCertificate(t)} }, false},
		"tls 1.2":        {func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, false},
		"other protocol": {func(c *tls.Config) { c.NextProtos = []string{"h2"} }, false},
		"no protocol":    {func(c *tls.Config) { c.NextProtos = nil; c.VerifyConnection = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := tlsConfig(cert("friend"), accept)
			tc.config(config)
			if got := greets(t, hub.Addr().String(), config); got != tc.ok {
				t.Errorf("accepted: %v", got)
			}
		})
	}
}

// greets tells whether the other end accepts us so far as to send its first message.
func greets(t *testing.T, addr string, config *tls.Config) bool {
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	var head [4]byte
	if _, err := c.Read(head[:]); err != nil {
		return false
	}
	return binary.BigEndian.Uint32(head[:]) < flood.MaxMessage
}

func ecdsaCertificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestDialledTheWrongOne: the manager that answers is not the one that was meant.
func TestDialledTheWrongOne(t *testing.T) {
	other := start(t, "other", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey("me")}}})
	defer other.Close()
	me := start(t, "me", memory(t), Options{})
	defer me.Close()
	err := me.dial(Neighbour{Addr: other.Addr().String(), Key: publicKey("meant")})
	if err == nil || !strings.Contains(err.Error(), "expected "+publicKey("meant").String()) {
		t.Errorf("dialled: %v", err)
	}
}

// TestJunk: a peer with a right certificate that sends nonsense is closed and banned.
func TestJunk(t *testing.T) {
	hub := start(t, "hub", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey("friend")}}})
	defer hub.Close()
	cert, err := certificate(privateKey("friend"))
	if err != nil {
		t.Fatal(err)
	}
	config := tlsConfig(cert, func(binding.Key) error { return nil })
	c, err := tls.Dial("tcp", hub.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{0, 0, 0, 3, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	until(t, "closed for a bad message", func() bool { return hub.Stats().Closed[flood.BadMessage] == 1 })
	if greets(t, hub.Addr().String(), config) {
		t.Error("the banned peer is greeted again")
	}
}
