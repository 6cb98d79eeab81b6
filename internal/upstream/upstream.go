// SPDX-License-Identifier: Apache-2.0

// Package upstream holds what patrol, border manager and filter manager share: who
// has authority over which addresses, who a peer is, and datagrams in batches. It
// must not depend on filters' meaning, on maps or on configuration files' form.
package upstream

import (
	"bufio"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gaissmai/bart"
)

// Endpoint is where a manager is reached, and the key by which it is known.
type Endpoint struct {
	Addr netip.AddrPort
	Key  ed25519.PublicKey // may be empty: then nothing that it signs can be checked
}

// Authority knows the two mappings of Terminus: source to border manager, and
// destination to those who may ask for filters. Safe for concurrent use.
type Authority interface {
	// BorderManagerFor gives the border manager of a source.
	BorderManagerFor(src netip.Addr) (Endpoint, bool)
	// BorderManagersFor gives those of all sources of a prefix, each once, and at most so many.
	BorderManagersFor(src netip.Prefix, most int) []Endpoint
	// FilterManagerMayRequest says whether the filter manager at this address may
	// ask for filters on traffic to (all of) dst, and in whose name: a number from 1 to
	// ifp.OwnerMax that is the same whenever it is asked.
	FilterManagerMayRequest(fm netip.Addr, dst netip.Prefix) (owner uint32, ok bool)
	// Len is the number of bindings.
	Len() int
}

// Static is an authority from a file, for networks that exchange their bindings by
// hand and for tests.
type Static struct {
	mu     sync.RWMutex
	border bart.Table[Endpoint]
	filter bart.Table[[]netip.Addr]
}

// BorderManagerFor implements Authority.
func (s *Static) BorderManagerFor(src netip.Addr) (Endpoint, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.border.Lookup(src)
}

// BorderManagersFor implements Authority.
func (s *Static) BorderManagersFor(src netip.Prefix, most int) (list []Endpoint) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, e, ok := s.border.LookupPrefixLPM(src); ok {
		list = append(list, e)
	}
	for _, e := range s.border.Subnets(src) {
		if len(list) >= most {
			break
		}
		list = addEndpoint(list, e)
	}
	return list
}

// addEndpoint adds a manager that is not yet in the list.
func addEndpoint(list []Endpoint, e Endpoint) []Endpoint {
	if slices.ContainsFunc(list, func(o Endpoint) bool { return o.Addr == e.Addr }) {
		return list
	}
	return append(list, e)
}

// FilterManagerMayRequest implements Authority. The most specific binding that
// covers all of dst counts, and none that is only a part of it. The prefix that is
// bound is the owner: all of its managers ask in one name.
func (s *Static) FilterManagerMayRequest(fm netip.Addr, dst netip.Prefix) (owner uint32, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	bound, managers, ok := s.filter.LookupPrefixLPM(dst)
	if !ok || !slices.Contains(managers, fm) {
		return 0, false
	}
	b, _ := bound.MarshalBinary() // never fails
	return ownerOf(b), true
}

// ownerOf derives the number of an owner from its identifier.
func ownerOf(id []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(id)
	return h.Sum32()%(1<<31-1) + 1
}

// Len implements Authority.
func (s *Static) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.border.Size() + s.filter.Size()
}

// AddBorder binds a prefix of sources to a border manager.
func (s *Static) AddBorder(p netip.Prefix, e Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.border.Insert(p.Masked(), e)
}

// AddFilter binds a prefix of destinations to a filter manager.
func (s *Static) AddFilter(p netip.Prefix, fm netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, _ := s.filter.Get(p.Masked())
	s.filter.Insert(p.Masked(), append(have[:len(have):len(have)], fm))
}

// LoadStatic reads a file of bindings, one a line; # begins a comment:
//
//	border PREFIX ADDRESS:PORT [KEY]     sources of PREFIX have this border manager
//	filter PREFIX ADDRESS                ADDRESS may ask for filters on traffic to PREFIX
func LoadStatic(path string) (*Static, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bindings: %w; write one, see docs/upstream.md", err)
	}
	defer file.Close()
	s, lines := &Static{}, bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			if err := s.add(words); err != nil {
				return nil, fmt.Errorf("%s:%d: %w; write `border PREFIX ADDRESS:PORT [KEY]` or `filter PREFIX ADDRESS`", path, n, err)
			}
		}
	}
	return s, lines.Err()
}

func (s *Static) add(w []string) error {
	if len(w) < 3 || len(w) > 4 || (w[0] != "border" && w[0] != "filter") {
		return fmt.Errorf("%q is not a binding", strings.Join(w, " "))
	}
	p, err := netip.ParsePrefix(w[1])
	if err != nil {
		return err
	}
	if w[0] == "filter" {
		fm, err := netip.ParseAddr(w[2])
		if err == nil && len(w) == 3 {
			s.AddFilter(p, fm)
		}
		return err
	}
	e := Endpoint{}
	if e.Addr, err = netip.ParseAddrPort(w[2]); err != nil {
		return err
	}
	if len(w) == 4 {
		if e.Key, err = ParseKey(w[3]); err != nil {
			return err
		}
	}
	s.AddBorder(p, e)
	return nil
}

// ParseKey reads a public key as FormatKey writes it.
func ParseKey(s string) (ed25519.PublicKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not a public key; `tidegate filter key FILE` prints one", s)
	}
	return b, nil
}

// FormatKey writes a public key.
func FormatKey(k ed25519.PublicKey) string { return hex.EncodeToString(k) }
