// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"context"
	"errors"
	"fmt"
	"os"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/sampler"
)

// Profiled is what the victim's processor did under a flood.
type Profiled struct {
	Defence string           `json:"defence"`
	Point   Point            `json:"point"`
	Profile *sampler.Profile `json:"profile"`
}

// Profile samples the victim's processor, which receives the flood and runs the web server, while each defence meets each rate.
func Profile(ctx context.Context, o Options, rates ...load.Rate) (all []Profiled, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	for _, name := range o.Defences {
		one := o.Base
		one.Defence = name
		s, err := newStand(ctx, one, o.Queue, o.KernelClients)
		if err != nil {
			return nil, err
		}
		for _, rate := range rates {
			p, err := s.profile(ctx, rate)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s at %s SYN/s: %w", name, rate, err), s.close())
			}
			p.Defence = name
			all = append(all, *p)
			if o.Done != nil {
				o.Done(name, p.Point)
			}
		}
		if err := s.close(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *stand) profile(ctx context.Context, rate load.Rate) (*Profiled, error) {
	samples, err := sampler.Start(s.env.Pin.Server)
	if err != nil {
		return nil, err
	}
	point, err := s.once(ctx, rate)
	all, stopErr := samples.Stop()
	if err := errors.Join(err, stopErr); err != nil {
		return nil, err
	}
	symbols, err := sampler.KernelSymbols() // now: BPF programs are among them while they are loaded
	if err != nil {
		return nil, err
	}
	return &Profiled{Point: point, Profile: sampler.Count(all, symbols)}, nil
}
