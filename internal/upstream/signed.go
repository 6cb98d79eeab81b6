// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/node"
	"tidegate/internal/binding/store"
)

// SignedOptions say where signed bindings come from (docs/bindings.md).
type SignedOptions struct {
	Anchors    string   // file of anchors
	Dir        string   // the store
	Key        string   // key file by which neighbours know us; "": no flooding
	Listen     string   // address and port of the flooding; "": nobody dials us
	Neighbours []string // KEY@ADDRESS:PORT
	Publish    []string // files of records to make known
	Log        *slog.Logger
}

// Signed is an authority that believes signed bindings alone.
type Signed struct {
	store *store.Store
	node  *node.Node
}

// OpenSigned opens the store and joins the flooding until ctx ends or Close.
func OpenSigned(ctx context.Context, o SignedOptions) (*Signed, error) {
	anchors, err := binding.LoadAnchors(o.Anchors)
	if err != nil {
		return nil, err
	}
	st, rec, err := store.Open(o.Dir, store.Options{Anchors: anchors}, time.Now())
	if err != nil {
		return nil, err
	}
	s := &Signed{store: st}
	o.Log.Info("bindings opened", "records", rec.Loaded, "refused", rec.Refused)
	if o.Key == "" {
		return s, nil
	}
	n := node.Options{Store: st, Listen: o.Listen, Log: o.Log}
	if n.Key, err = binding.LoadKeyFile(o.Key); err == nil {
		n.Neighbours, err = neighbours(o.Neighbours)
	}
	if err == nil {
		s.node, err = node.Start(ctx, n)
	}
	for _, path := range o.Publish {
		if err != nil {
			break
		}
		var raw []byte
		if raw, err = os.ReadFile(path); err == nil {
			_, err = s.node.Publish(raw)
		}
		switch binding.CodeOf(err) {
		case binding.Duplicate: // published before, by an earlier process
			err = nil
		case binding.Stale:
			o.Log.Warn("a newer binding than the one to be published is already known and stays in force", "binding", path)
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("binding %s: %w", path, err)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Open gives the authority that a configuration names: a file, or signed bindings.
func Open(ctx context.Context, file string, o SignedOptions) (Authority, func(), error) {
	if o.Anchors == "" {
		f, err := OpenFile(file)
		if err != nil {
			return nil, nil, err
		}
		return f, func() {}, nil
	}
	s, err := OpenSigned(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func neighbours(list []string) (out []node.Neighbour, err error) {
	for _, text := range list {
		key, addr, ok := strings.Cut(text, "@")
		n := node.Neighbour{Addr: addr}
		if n.Key, err = binding.ParseKey(key); err != nil || !ok {
			return nil, fmt.Errorf("neighbour %q: want KEY@ADDRESS:PORT", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// BorderManagerFor implements Authority.
func (s *Signed) BorderManagerFor(src netip.Addr) (Endpoint, bool) {
	r := s.store.BorderManagerFor(src)
	if r == nil {
		return Endpoint{}, false
	}
	return endpointOf(r)
}

// BorderManagersFor implements Authority.
func (s *Signed) BorderManagersFor(src netip.Prefix, most int) (list []Endpoint) {
	s.store.BorderManagersFor(src, func(r *binding.Record) bool {
		if e, ok := endpointOf(r); ok {
			list = addEndpoint(list, e)
		}
		return len(list) < most
	})
	return list
}

// endpointOf is where the manager of a record takes requests.
func endpointOf(r *binding.Record) (Endpoint, bool) {
	for _, e := range r.Endpoints {
		if e.Service == binding.ServiceIFP {
			return Endpoint{Addr: e.Addr, Key: ed25519.PublicKey(r.Key[:])}, true
		}
	}
	return Endpoint{}, false
}

// FilterManagerMayRequest implements Authority. The owner is the key that is bound.
func (s *Signed) FilterManagerMayRequest(fm netip.Addr, dst netip.Prefix) (owner uint32, ok bool) {
	r := s.store.RequesterFrom(fm, dst)
	if r == nil {
		return 0, false
	}
	return ownerOf(r.Key[:]), true
}

// Len implements Authority.
func (s *Signed) Len() int { return s.store.Len() }

// Close leaves the flooding and closes the store.
func (s *Signed) Close() {
	if s.node != nil {
		_ = s.node.Close()
	}
	_ = s.store.Close()
}
