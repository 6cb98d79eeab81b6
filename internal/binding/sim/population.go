// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"tidegate/internal/binding"
)

// begin is the virtual time at which everything starts.
var begin = time.Unix(1800000000, 0)

const (
	anchors    = 5   // as there are Regional Internet Registries
	perISP     = 200 // bindings that one authority signs
	replayEach = 20  // of every twentieth binding an older record exists, too
)

// population is all that is signed before the simulation starts.
type population struct {
	anchors   []binding.Anchor
	isps      []ed25519.PrivateKey
	authority []*binding.Record // of isps[i]
	bindings  []*binding.Record
	old       []*binding.Record // replaced by some of bindings
	expired   []*binding.Record
	wide      []*binding.Record // beyond what their issuer may bind
}

func newKey(kind string, i int) ed25519.PrivateKey {
	seed := sha256.Sum256(fmt.Appendf(nil, "tidegate simulation %s %d", kind, i))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicKey(k ed25519.PrivateKey) binding.Key { return binding.Key(k.Public().(ed25519.PublicKey)) }

// ispPrefix is the i-th /20 of the 16 million in 16.0.0.0/4 and beyond.
func ispPrefix(i int) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 16<<24+uint32(i)<<12)
	return netip.PrefixFrom(netip.AddrFrom4(a), 20)
}

// memberRecord is the n-th binding of an authority: of each /28 a border manager
// and a filter manager.
func memberRecord(isp, n int, serial uint64) binding.Record {
	p := ispPrefix(isp)
	a := p.Addr().As4()
	base := binary.BigEndian.Uint32(a[:]) + uint32(n/2)<<4
	binary.BigEndian.PutUint32(a[:], base)
	r := binding.Record{Role: binding.BorderManager + binding.Role(n%2), Serial: serial,
		Prefixes: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(a), 28)}}
	seed := sha256.Sum256(fmt.Appendf(nil, "tidegate simulation member %d %d", isp, n))
	copy(r.Key[:], seed[:]) // nobody here signs with it
	a[3]++
	r.Endpoints = []binding.Endpoint{{Service: binding.ServiceIFP, Addr: netip.AddrPortFrom(netip.AddrFrom4(a), 4141)}}
	return r
}

func valid(r binding.Record) binding.Record {
	r.NotBefore, r.NotAfter = begin.Add(-24*time.Hour).Unix(), begin.Add(90*24*time.Hour).Unix()
	return r
}

// populate signs n bindings and their authorities on all processors.
func populate(n int, progress func(string, ...any)) (*population, error) {
	isps := (n + perISP - 1) / perISP
	p := &population{bindings: make([]*binding.Record, n), authority: make([]*binding.Record, isps), isps: make([]ed25519.PrivateKey, isps)}
	var keys [anchors]ed25519.PrivateKey
	for i := range keys {
		keys[i] = newKey("anchor", i)
		p.anchors = append(p.anchors, binding.Anchor{Name: fmt.Sprint("anchor-", i), Key: publicKey(keys[i]),
			Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}})
	}
	progress("signing %d bindings of %d authorities", n, isps)
	workers := runtime.GOMAXPROCS(0)
	parts, errs := make([]population, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for isp := w; isp < isps && errs[w] == nil; isp += workers {
				errs[w] = p.signISP(isp, keys[isp%anchors], &parts[w])
			}
		}()
	}
	wg.Wait()
	for w := range parts {
		if errs[w] != nil {
			return nil, errs[w]
		}
		p.old = append(p.old, parts[w].old...)
		p.expired = append(p.expired, parts[w].expired...)
		p.wide = append(p.wide, parts[w].wide...)
	}
	return p, nil
}

// signISP signs one authority and its bindings; what only hostile managers use goes to extra.
func (p *population) signISP(isp int, anchor ed25519.PrivateKey, extra *population) error {
	p.isps[isp] = newKey("isp", isp)
	var err error
	p.authority[isp], err = binding.Sign(valid(binding.Record{Role: binding.Authority, Key: publicKey(p.isps[isp]), Serial: 1,
		Prefixes: []netip.Prefix{ispPrefix(isp)}}), anchor)
	if err != nil {
		return err
	}
	for n := 0; n < perISP && isp*perISP+n < len(p.bindings); n++ {
		i := isp*perISP + n
		if p.bindings[i], err = binding.Sign(valid(memberRecord(isp, n, 2)), p.isps[isp]); err != nil {
			return err
		}
		if i%replayEach != 0 {
			continue
		}
		if err := p.signExtra(isp, n, extra); err != nil {
			return err
		}
	}
	return nil
}

func (p *population) signExtra(isp, n int, extra *population) error {
	old := valid(memberRecord(isp, n, 1))
	expired := memberRecord(isp, n, 3)
	expired.NotBefore, expired.NotAfter = begin.Add(-90*24*time.Hour).Unix(), begin.Add(-24*time.Hour).Unix()
	wide := valid(memberRecord(isp, n, 4))
	wide.Prefixes = []netip.Prefix{netip.PrefixFrom(ispPrefix(isp).Addr(), 8).Masked()}
	for _, s := range []struct {
		r    binding.Record
		list *[]*binding.Record
	}{{old, &extra.old}, {expired, &extra.expired}, {wide, &extra.wide}} {
		signed, err := binding.Sign(s.r, p.isps[isp])
		if err != nil {
			return err
		}
		*s.list = append(*s.list, signed)
	}
	return nil
}

// library decodes and verifies the same bytes once for all managers.
type library struct {
	records map[binding.Digest]*shelf
	checked int // signatures, really
	asked   int // by managers
}

type shelf struct {
	rec      *binding.Record
	err      error
	verified bool
	verdict  error
}

// read takes in what will be sent, decoded and checked on all processors; managers
// find it there by its bytes.
func (l *library) read(lists ...[]*binding.Record) {
	var all []*binding.Record
	for _, list := range lists {
		all = append(all, list...)
	}
	shelves := make([]shelf, len(all))
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(all); i += workers {
				shelves[i].rec, shelves[i].err = binding.Decode(all[i].Raw())
				if shelves[i].err == nil {
					shelves[i].verdict, shelves[i].verified = shelves[i].rec.VerifySignature(), true
				}
			}
		})
	}
	wg.Wait()
	l.checked += len(all)
	for i := range shelves {
		l.records[all[i].Digest()] = &shelves[i]
	}
}

func (l *library) decode(raw []byte) (*binding.Record, error) {
	d := binding.DigestOf(raw)
	if s := l.records[d]; s != nil {
		return s.rec, s.err
	}
	s := &shelf{}
	s.rec, s.err = binding.Decode(raw)
	if len(l.records) < 1<<20 { // what liars make up must not fill the memory
		l.records[d] = s
	}
	return s.rec, s.err
}

func (l *library) verify(r *binding.Record) error {
	l.asked++
	s := l.records[r.Digest()]
	if s == nil || s.rec != r {
		l.checked++
		return r.VerifySignature()
	}
	if !s.verified {
		l.checked++
		s.verified, s.verdict = true, r.VerifySignature()
	}
	return s.verdict
}
