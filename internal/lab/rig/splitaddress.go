// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"net/netip"
)

// cable is a pair of addresses on one cable, the front's end first.
type cable struct{ near4, far4, near6, far6 netip.Prefix }

// cableOf returns the i-th cable whose addresses have net as third octet.
func cableOf(net, i int) cable {
	p4 := func(host int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(net), byte(4*i + host)}), 30)
	}
	p6 := func(host int) netip.Prefix {
		return netip.MustParsePrefix(fmt.Sprintf("fd7d:7467:%d:%d::%d/64", net+1, i, host))
	}
	return cable{p4(1), p4(2), p6(1), p6(2)}
}

func innerCable(i int) cable  { return cableOf(4, i) } // edge, server
func fabricCable(i int) cable { return cableOf(5, i) } // fabric, edge
func directCable() cable      { return cableOf(6, 0) } // fabric, server

// plug gives one end its addresses and its neighbour, and routes via that neighbour.
func plug(own, peer *Port, own4, peer4, own6, peer6 netip.Prefix, routes4, routes6 []netip.Prefix) error {
	errs := []error{AddAddr(own.Index, own4), addNeigh(own.Index, peer4.Addr(), peer.MAC)}
	for _, r := range routes4 {
		errs = append(errs, AddRoute(own.Index, r, peer4.Addr()))
	}
	if HaveIPv6() {
		errs = append(errs, AddAddr(own.Index, own6), addNeigh(own.Index, peer6.Addr(), peer.MAC))
		for _, r := range routes6 {
			errs = append(errs, AddRoute(own.Index, r, peer6.Addr()))
		}
	}
	return errors.Join(errs...)
}

// addressFront routes answers to spoofed sources to the attacker.
func (s *SplitTopology) addressFront() error {
	return s.front().Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		floodPeer4, floodPeer6 := netip.PrefixFrom(floodAttacker4, 30), netip.PrefixFrom(floodAttacker6, 64)
		errs := []error{
			plug(s.FloodPort, s.AttackerPort, floodServer4, floodPeer4, floodServer6, floodPeer6, default4, default6),
			plug(s.LegitPort, s.ClientPort, legitServer4, legitClient4, legitServer6, legitClient6,
				[]netip.Prefix{clients4}, []netip.Prefix{clients6}),
		}
		if s.Direct {
			c := directCable()
			errs = append(errs, plug(s.backPort, s.directPort, c.near4, c.far4, c.near6, c.far6, nil, nil))
		}
		for i, e := range s.Edges {
			if s.Fabric == nil {
				break
			}
			c := fabricCable(i)
			var to4, to6 []netip.Prefix
			if i == 0 { // for packets that the spraying program does not see
				to4, to6 = service4, service6
			}
			errs = append(errs, plug(e.fabricPort, e.Outer, c.near4, c.far4, c.near6, c.far6, to4, to6))
		}
		return errors.Join(errs...)
	})
}

func (s *SplitTopology) addressEdge(i int) error {
	e, in := s.Edges[i], innerCable(i)
	return e.NS.Do(func() error {
		errs := []error{plug(e.Inner, e.ServerPort, in.near4, in.far4, in.near6, in.far6, service4, service6)}
		if s.Fabric != nil {
			c := fabricCable(i)
			_, err := LoUp()
			errs = append(errs, err, plug(e.Outer, e.fabricPort, c.far4, c.near4, c.far6, c.near6, default4, default6))
		}
		return errors.Join(errs...)
	})
}

func (s *SplitTopology) addressServer() error {
	return s.Server.Do(func() error {
		lo, err := LoUp()
		if err != nil {
			return err
		}
		errs := []error{AddAddr(lo, service4[0])}
		if HaveIPv6() {
			errs = append(errs, AddAddr(lo, service6[0]))
		}
		for i, e := range s.Edges {
			c := innerCable(i)
			var back4, back6 []netip.Prefix
			if i == 0 && !s.Direct {
				back4, back6 = default4, default6
			}
			errs = append(errs, plug(e.ServerPort, e.Inner, c.far4, c.near4, c.far6, c.near6, back4, back6))
		}
		if s.Direct {
			c := directCable()
			errs = append(errs, plug(s.directPort, s.backPort, c.far4, c.near4, c.far6, c.near6, default4, default6))
		}
		return errors.Join(errs...)
	})
}
