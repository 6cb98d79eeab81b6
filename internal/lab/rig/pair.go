// SPDX-License-Identifier: Apache-2.0

package rig

import "errors"

// Pair is the smallest lab: two namespaces and one veth between them, for
// measuring one packet program alone. Both ends have
// GRO on, so frames of a flood arrive whatever is attached; for the answers of a
// program at the far end to arrive, the near end needs a program too.
type Pair struct {
	Near, Far *Port
	near, far *Namespace
}

// NewPair builds a pair owned by this process. The caller closes it.
func NewPair() (p *Pair, err error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	p = &Pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	if p.near, err = MakeNamespace(o, "near"); err != nil {
		return p, err
	}
	if p.far, err = MakeNamespace(o, "far"); err != nil {
		return p, err
	}
	if err := errors.Join(p.near.SetSysctls(BaseSysctls()...), p.far.SetSysctls(BaseSysctls()...)); err != nil {
		return p, err
	}
	if p.Near, p.Far, err = NewVeth(o, p.near, "tg-near", p.far, "tg-far"); err != nil {
		return p, err
	}
	return p, errors.Join(p.Near.EnableGRO(), p.Far.EnableGRO())
}

// Close removes both namespaces and with them the veth.
func (p *Pair) Close() error {
	var errs []error
	for _, n := range []*Namespace{p.near, p.far} {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}
