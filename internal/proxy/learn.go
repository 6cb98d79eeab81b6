package proxy

import (
	"time"

	"tidegate/internal/plane"
)

// What clients are told where the configuration says `auto` is what the servers
// answer: the packet path notes it at each connection's set-up, and here it is
// made the service's own once a second.

// forgetEvery lets what was refused be asked again: an option that we no longer
// offer cannot be learned anew.
const forgetEvery = 10 * time.Minute

type learned plane.Learned

// apply puts what is known into a service's entry. The MSS is never raised above
// what the box's own ports carry.
func (l learned) apply(s *plane.Service) {
	if l.Known&plane.LearnedMSS4 != 0 {
		s.MssV4 = min(s.MssV4, l.MssV4)
	}
	if l.Known&plane.LearnedMSS6 != 0 {
		s.MssV6 = min(s.MssV6, l.MssV6)
	}
	if l.Known&plane.LearnedWScale != 0 {
		s.Wscale = l.Wscale
	}
	if l.Known&plane.LearnedSACK != 0 {
		s.Sack = l.Sack
	}
	if l.Known&plane.LearnedTimestamps != 0 {
		s.Timestamps = l.Timestamps
	}
}

// learn looks at what the packet path has noted.
func (b *box) learn(now time.Time) error {
	if now.Sub(b.forgot) >= forgetEvery {
		b.forgot = now
		for _, svc := range b.cfg.Services {
			id := b.numbers.ID(svc.Name)
			if l := b.learned[id]; refuses(l) {
				delete(b.learned, id)
				if err := b.plane.Forget(id); err != nil {
					return err
				}
			}
		}
	}
	changed := false
	for _, svc := range b.cfg.Services {
		if !svc.Strategy.Translates() {
			continue
		}
		id := b.numbers.ID(svc.Name)
		l, err := b.plane.Learned(id)
		if err != nil {
			return err
		}
		if learned(l) != b.learned[id] {
			b.learned[id], changed = learned(l), true
			b.log.Info("the servers' options", "service", svc.Name, "mss_v4", l.MssV4, "mss_v6", l.MssV6,
				"wscale", l.Wscale, "sack", l.Sack, "timestamps", l.Timestamps, "known", l.Known)
		}
	}
	if !changed {
		return nil
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := b.plane.SetService(t.ID, t.Service); err != nil {
			return err
		}
	}
	return nil
}

// refuses says whether a server has declined something that was offered.
func refuses(l learned) bool {
	return l.Known&plane.LearnedWScale != 0 && l.Wscale == plane.WScaleNone ||
		l.Known&plane.LearnedSACK != 0 && l.Sack == 0 ||
		l.Known&plane.LearnedTimestamps != 0 && l.Timestamps == 0
}
