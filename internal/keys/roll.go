package keys

import "time"

// Roll is the secret of a fleet over time: one, or one and the next from some epoch
// on. Each epoch has keys of exactly one of them, on every machine the same, so that no
// cookie and no tag is lost when a secret is replaced.
type Roll struct {
	first, next *Secret
	from        uint64 // first epoch of next
}

// LoadRoll reads the secret at path and, if nextPath is not empty, the one that takes its
// place in the first epoch that begins at `from` or after it.
func LoadRoll(path, nextPath string, from time.Time, epoch time.Duration) (*Roll, error) {
	r := &Roll{}
	var err error
	if r.first, err = LoadSecret(path); err != nil || nextPath == "" {
		return r, err
	}
	if r.next, err = LoadSecret(nextPath); err != nil {
		r.Zero()
		return nil, err
	}
	if r.from = Epoch(from, epoch); EpochStart(r.from, epoch).Before(from) {
		r.from++
	}
	return r, nil
}

func (r *Roll) of(epoch uint64) *Secret {
	if r.next != nil && epoch >= r.from {
		return r.next
	}
	return r.first
}

// First is the secret of the time before the roll.
func (r *Roll) First() *Secret { return r.first }

// EpochKey, TagKey and SmartKey are those of the secret that epoch n has.
func (r *Roll) EpochKey(n uint64) [EpochKeyLen]byte { return r.of(n).EpochKey(n) }

// TagKey: see EpochKey.
func (r *Roll) TagKey(n uint64) [EpochKeyLen]byte { return r.of(n).TagKey(n) }

// SmartKey: see EpochKey.
func (r *Roll) SmartKey(n uint64) [SmartKeyLen]byte { return r.of(n).SmartKey(n) }

// Zero clears both secrets.
func (r *Roll) Zero() {
	for _, s := range []*Secret{r.first, r.next} {
		if s != nil {
			s.Zero()
		}
	}
}
