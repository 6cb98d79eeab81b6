// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"sync/atomic"
)

// File is an authority whose bindings are read from a file and replaced as a whole: no look-up
// sees a part of the old file and a part of the new one.
type File struct{ now atomic.Pointer[Static] }

// OpenFile reads the bindings for the first time.
func OpenFile(path string) (*File, error) {
	s, err := LoadStatic(path)
	if err != nil {
		return nil, err
	}
	f := &File{}
	f.Use(s)
	return f, nil
}

// Use brings other bindings into force.
func (f *File) Use(s *Static) { f.now.Store(s) }

// BorderManagerFor implements Authority.
func (f *File) BorderManagerFor(src netip.Addr) (Endpoint, bool) {
	return f.now.Load().BorderManagerFor(src)
}

// BorderManagersFor implements Authority.
func (f *File) BorderManagersFor(src netip.Prefix, most int) []Endpoint {
	return f.now.Load().BorderManagersFor(src, most)
}

// FilterManagerMayRequest implements Authority.
func (f *File) FilterManagerMayRequest(fm netip.Addr, dst netip.Prefix) (owner uint32, ok bool) {
	return f.now.Load().FilterManagerMayRequest(fm, dst)
}

// Len implements Authority.
func (f *File) Len() int { return f.now.Load().Len() }

// PrepareReload reads the file of bindings that a changed configuration names, and returns what brings it into force.
// Signed bindings change by themselves: there is nothing to do for them.
func PrepareReload(a Authority, path string) (apply func(), err error) {
	f, ok := a.(*File)
	if !ok {
		return func() {}, nil
	}
	s, err := LoadStatic(path)
	if err != nil {
		return nil, err
	}
	return func() { f.Use(s) }, nil
}
